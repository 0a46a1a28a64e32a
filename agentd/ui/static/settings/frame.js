/** What all pages of the settings share: the frame with its tabs on phones, cards, long lists. */

import { ApiError } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { foldText } from "../core/folding.js";
import * as live from "../core/live.js";
import { withPoint } from "../core/money.js";
import { link, path } from "../core/router.js";
import { onEnd, signal } from "../core/signals.js";
import { may } from "../core/api.js";
import { placesOf } from "../pages.js";
import { findRefusedField, showRefusedField } from "../parts/refused_field.js";
import { loadStyle } from "../parts/stylesheet.js";

await Promise.all([loadStyle("gateway"), loadStyle("settings")]);

/** @typedef {import("../core/el.js").Single} Single */
/** @typedef {import("../core/api.js").Role} Role */

const AT_ONCE = 100;
const FILTER_FROM = 12;

/**
 * A page of the settings.
 * @param {string} title
 * @param {...Single} content
 * @returns {import("../core/router.js").Page}
 */
export function settingsPage(title, ...content) {
  const places = placesOf("settings").filter((place) => may(place.role ?? "viewer"));
  const tabs = el("nav", { class: "settings-tabs only-phone", "aria-label": "Settings" },
    places.map((place) => el("a", { href: link(place.path), "aria-current": place.path === path.peek() ? "page" : null }, place.label)));
  queueMicrotask(() => tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }));
  const body = el("div", { class: "frame" },
    el("header", { class: "bar" }, el("h1", null, title)), tabs,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      el("div", { class: "page settings" }, content)));
  return { title, body, area: "settings" };
}

/**
 * A card with a title, one sentence, and what can be done.
 * @param {{ title: string, text?: Single, actions?: Single[] }} head
 * @param {...Single} content
 */
export function card({ title, text, actions = [] }, ...content) {
  return el("section", { class: "card", "aria-label": title },
    el("header", null, el("h2", null, title), el("span", { class: "grow" }), actions, text ? el("p", null, text) : null),
    content);
}

/**
 * Read again whenever one of these events comes, or some may have been missed, while the page is shown.
 * @param {readonly string[]} events
 * @param {(value?: any) => void} hear
 */
export function follow(events, hear) {
  const ends = [...events.map((name) => live.on(name, hear)), live.onInterruption(() => hear())];
  onEnd(() => ends.forEach((end) => end()));
}

/** What of a long list is looked at: made once, where the list is made anew whenever it is read again. */
export function listView() {
  return { wanted: signal(""), shown: signal(AT_ONCE) };
}

/**
 * A list that may be long: it is filtered, and shown a hundred rows at a time.
 * @template T
 * @param {readonly T[]} items
 * @param {(item: T) => string} textOf what the filter looks at
 * @param {(item: T) => HTMLElement} row
 * @param {string} noun such as `keys`
 * @param {ReturnType<typeof listView>} view
 */
export function longList(items, textOf, row, noun, { wanted, shown }) {
  const found = () => {
    const text = foldText(wanted.value.trim());
    return items.filter((item) => foldText(textOf(item)).includes(text));
  };
  return el("div", null,
    items.length > FILTER_FROM || wanted.peek()
      ? el("input", { class: "input filter", type: "search", placeholder: `Filter ${items.length} ${noun}`, "aria-label": `Filter ${noun}`,
        value: wanted.peek(), oninput: (/** @type {any} */ event) => (wanted.value = event.target.value) })
      : null,
    el("ul", { class: "rows" }, () => found().slice(0, shown.value).map(row)),
    () => found().length > shown.value
      ? el("button", { class: "btn more-rows", onclick: () => (shown.value += AT_ONCE) }, `Show ${AT_ONCE} more of ${found().length}`)
      : null,
    () => (found().length ? null : el("p", { class: "none" }, `None of the ${noun} matches.`)));
}

/**
 * A field with its label, as dialogs have it.
 * @param {string} label
 * @param {HTMLElement} input
 * @param {string} [hint]
 */
export function labelled(label, input, hint) {
  return el("label", { class: "labelled" }, el("span", null, label), input, hint ? el("small", null, hint) : null);
}

/**
 * A form that sends something, and says in place what the daemon has against it.
 * @param {{ action: Single, class?: string, danger?: boolean, oncancel?: () => void, send: () => Promise<unknown> }} options
 * @param {...Single} content
 */
export function sendForm({ action, danger = false, oncancel, send, ...rest }, ...content) {
  const busy = signal(false);
  const failed = signal(/** @type {unknown} */ (null));
  let isUnanswered = false; // a try before was lost, which may have been carried out
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (busy.peek()) return;
    busy.value = true;
    failed.value = null;
    try {
      await send();
    } catch (error) {
      if (!(error instanceof ApiError)) reportError(error);
      const told = findRefusedField(form, isUnanswered ? withDoubt(error) : error);
      failed.value = told.error;
      isUnanswered ||= error instanceof ApiError && error.code === "offline";
      queueMicrotask(() => {
        refusal.scrollIntoView({ block: "nearest" }); // the form may be longer than its dialog
        if (told.control) showRefusedField(form, told.control, told.error.message);
      });
    }
    busy.value = false;
  };
  const refusal = el("div", { role: "alert" }, () => (failed.value ? failureLine(failed.value) : null));
  const form = el("form", { onsubmit: submit, class: rest.class ?? "" },
    content,
    refusal,
    el("footer", null,
      oncancel ? el("button", { class: "btn", type: "button", onclick: oncancel }, "Cancel") : null,
      el("button", { class: danger ? "btn danger" : "btn main", changes: "viewer", disabled: () => busy.value }, action)));
  return form;
}

/**
 * What is wrong with a try after one without an answer; that it is done already may be the reason.
 * @param {unknown} error
 */
function withDoubt(error) {
  if (!(error instanceof ApiError && (error.status === 409 || error.status === 404))) return error;
  const doubt = "agentd did not answer the try before, but may have carried it out: close this form and look.";
  return new ApiError(error.status, error.code, error.message, [error.details, doubt].filter(Boolean).join(" "));
}

/**
 * A number that was typed.
 * @param {string} typed
 * @param {string} label of its field
 */
export function numberOf(typed, label) {
  const number = Number(withPoint(typed));
  if (!Number.isFinite(number)) throw new ApiError(422, "input", `${label}: this is not a number, such as 1000 or 0.5`);
  return number;
}

/**
 * A sum that was typed, as the daemon takes it.
 * @param {string} typed
 * @param {string} label of its field
 */
export function sumOf(typed, label) {
  numberOf(typed, label);
  return withPoint(typed);
}

/** @param {unknown} error */
export function failureLine(error) {
  const known = error instanceof ApiError;
  return el("p", { class: "failure" }, icon("warning"), el("span", null, error instanceof Error ? error.message : String(error),
    known && error.details ? el("small", null, error.details) : null));
}

/**
 * Who may do this, for those who may not.
 * @param {Role} role
 */
export function whoMay(role) {
  return el("p", { class: "none" },
    `Only ${role === "administrator" ? "an administrator" : "a manager or an administrator"} may see or change this.`);
}

/**
 * Who did something, for a reader.
 * @param {string} identity such as `user:ann`
 */
export function makerOf(identity) {
  const [kind, name] = identity.split(":");
  if (kind === "user") return name || "an administrator";
  if (kind === "key" || kind === "bot") return `the ${kind} ${name}`;
  return identity === "cli" ? "the command line" : identity;
}

/**
 * Whether what a workspace's file would run is allowed.
 * @param {{ decision: "allowed" | "denied" | "undecided" }} one
 */
export function decisionState({ decision }) {
  if (decision === "allowed") return el("span", { class: "state good" }, dot("good"), "Allowed");
  if (decision === "denied") return el("span", { class: "state bad" }, dot("bad"), "Denied");
  return el("span", { class: "state need" }, dot("need"), "Undecided");
}
