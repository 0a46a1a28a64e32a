/** The frame that most pages share: a bar with the title and what can be done, and what scrolls. */

import { ApiError, sendInOrder } from "../core/api.js";
import { el, icon, skeleton } from "../core/el.js";
import { link } from "../core/router.js";
import { signal } from "../core/signals.js";
import { keepFocus } from "./focus.js";

/** @typedef {import("../core/el.js").Single} Single */

/**
 * A page's body.
 * @param {{ title: string | (() => string), actions?: Single[], back?: string, tabs?: Single }} head
 *   `back`: where the arrow leads that phones show
 * @param {...Single} content
 */
export function frame({ title, actions = [], back, tabs }, ...content) {
  return el("div", { class: "frame" },
    el("header", { class: "bar" },
      back ? el("a", { class: "btn plain icon only-phone", href: link(back), "aria-label": "Back" }, icon("back")) : null,
      el("h1", null, title), tabs ?? null, el("span", { class: "grow" }), actions),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Page" }, el("div", { class: "page" }, content)));
}

/**
 * Show what is read, or that it is being read, or why it cannot be.
 *
 * What is read again is shown when it differs, once nobody presses on or has a menu open of what is shown now;
 * the focus stays on what is called the same, or in its place.
 * @template T
 * @param {() => Promise<T>} read
 * @param {(value: T) => Single} show
 * @returns {{
 *   node: HTMLElement, reload: () => Promise<void>, change: (apply: (value: T) => T, send: () => Promise<unknown>) => Promise<void>
 * }}
 *   `change` shows a change at once and sends it after those before it; once all are answered, it reads what came of them
 */
export function loaded(read, show) {
  const state = signal(/** @type {{ value: T } | { error: unknown } | "loading"} */ ("loading"));
  let latest = 0;
  let sending = 0;
  async function reload() {
    if (sending) return; // what is read now may be older than what is shown
    const turn = ++latest;
    try {
      const value = await read();
      if (turn !== latest) return;
      const now = state.peek();
      if (typeof now === "object" && "value" in now && JSON.stringify(now.value) === JSON.stringify(value)) return;
      await untouched(node);
      if (turn === latest) state.value = { value };
    } catch (error) {
      if (!(error instanceof ApiError)) reportError(error);
      const now = state.peek();
      const stays = typeof now === "object" && "value" in now && error instanceof ApiError && error.passing;
      if (turn === latest && !stays) state.value = { error };
    }
  }
  const retry = () => {
    state.value = "loading";
    void reload();
  };
  const busy = () => (state.value === "loading" ? "true" : null);
  const node = el("div", { class: "loaded", "aria-busy": busy }, () => {
    const now = state.value;
    if (now === "loading") return skeleton();
    if ("error" in now) return failure(now.error, retry);
    keepFocus(node);
    return el("div", { class: "loaded" }, show(now.value));
  });
  /** @param {(value: T) => T} apply @param {() => Promise<unknown>} send */
  async function change(apply, send) {
    const now = state.peek();
    if (typeof now === "object" && "value" in now) state.value = { value: apply(now.value) };
    latest++;
    sending++;
    try {
      await sendInOrder(node, send);
    } finally {
      sending--;
      void reload();
    }
  }
  void reload();
  return { node, reload, change };
}

/**
 * Wait until nothing inside is pressed, so that a press and its release meet the same button, and no menu of it is open.
 * @param {HTMLElement} node
 */
export async function untouched(node) {
  while (node.querySelector(":active")) await once(["pointerup", "pointercancel", "keyup"]);
  while (node.querySelector("[aria-haspopup=menu][aria-expanded=true]")) await once(["menuclose"]);
}

/**
 * The next of these events, and what it makes the browser do at once, such as a click after a release.
 * @param {string[]} names
 */
function once(names) {
  return new Promise((resolve) => {
    const seen = new AbortController();
    const done = () => {
      seen.abort();
      setTimeout(resolve);
    };
    for (const name of names) addEventListener(name, done, { capture: true, signal: seen.signal });
  });
}

/**
 * Why something could not be read, with what can be done.
 * @param {unknown} error
 * @param {() => void} [again]
 */
export function failure(error, again) {
  const known = error instanceof ApiError;
  const title = known && error.status === 403 ? "You may not see this" : known ? error.message : "This did not work: a fault of the page";
  const details = known ? (error.status === 403 ? `${error.message}. ${error.details}` : error.details) : String(error);
  return el("div", { class: "empty", role: "alert" }, icon("warning"), el("h2", null, title),
    details ? el("p", null, details) : null,
    again ? el("button", { class: "btn", onclick: again }, "Retry") : null);
}

/**
 * What belongs here, while there is none of it.
 * @param {string} name of the icon
 * @param {string} title
 * @param {string} text
 * @param {Single} [action]
 */
export function emptyState(name, title, text, action) {
  return el("div", { class: "empty" }, icon(name), el("h2", null, title), el("p", null, text), action);
}
