/** What all pages of the gateway share: who sees them, the frame with its tabs on phones, following what is recorded. */

import { ApiError, get, may } from "../core/api.js";
import { dot, el, skeleton } from "../core/el.js";
import * as live from "../core/live.js";
import { link, path } from "../core/router.js";
import { computed, effect, onEnd, signal, untracked } from "../core/signals.js";
import { keepFocus } from "../parts/focus.js";
import { emptyState, failure, untouched } from "../parts/frame.js";
import { loadStyle } from "../parts/stylesheet.js";
import { placesOf } from "../pages.js";
import { today } from "./today.js";

await Promise.all(["gateway", "settings", "admin"].map(loadStyle));

/** @typedef {import("../core/el.js").Single} Single */
/** @typedef {import("../core/router.js").Page} Page */

/** How a request ended, as a state's colour. */
export const OUTCOMES = /** @type {Record<string, string>} */ ({ ok: "", refused: "bad", failed: "bad", broken: "bad", left: "need" });

/** The kinds of alerts, in words. */
export const ALERT_TITLES = /** @type {Record<string, string>} */ ({
  limit_near: "Limit nearly used", limit_hit: "Limit reached", channel_down: "Channel down",
  channel_disabled: "Channel disabled", balance_low: "Balance low", secret_found: "Secret found",
  export_failing: "Export failing", ledger_failing: "Ledger not writable", error_rate: "High error rate",
});

/**
 * A page that only administrators see.
 * @param {string} title
 * @param {(params: Record<string, string>) => Page} build
 * @returns {(params: Record<string, string>) => Page}
 */
export function forAdministrators(title, build) {
  return (params) => {
    if (may("administrator")) return { ...build(params), area: "gateway" };
    const text = "The gateway holds suppliers' keys and what everybody spends. An administrator can show it to you.";
    const page = el("div", { class: "page" }, emptyState("shield", "Only administrators see the gateway", text));
    return { title, area: "gateway", body: bars(title, [], page) };
  };
}

/**
 * A page's body that scrolls as a whole.
 * @param {{ title: string | (() => string), actions?: Single[], back?: string, narrow?: boolean }} head
 * @param {...Single} content
 */
export function gatewayFrame({ title, actions = [], back, narrow = false }, ...content) {
  return bars(title, actions, el("div", { class: narrow ? "page settings" : "page" }, content), back);
}

/**
 * @param {string | (() => string)} title
 * @param {Single[]} actions
 * @param {HTMLElement} content
 * @param {string} [back]
 */
function bars(title, actions, content, back) {
  return el("div", { class: "frame" }, pageBar(title, actions, back),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Page" }, content));
}

/**
 * The bar with the title, and on phones the tabs of all pages of the gateway.
 * @param {string | (() => string)} title
 * @param {Single[]} actions
 * @param {string} [back]
 */
export function pageBar(title, actions, back) {
  const tabs = el("nav", { class: "settings-tabs only-phone", "aria-label": "Gateway pages" },
    placesOf("gateway").map((place) =>
      el("a", { href: link(place.path), "aria-current": isCurrent(place.path) ? "page" : null }, place.label)));
  queueMicrotask(() => tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }));
  return [el("header", { class: "bar" },
    back
      ? el("a", { class: "crumb", href: link(back) },
        placesOf("gateway").find((place) => place.path === back)?.label ?? "Back", el("span", { "aria-hidden": "true" }, "/"))
      : null,
    el("h1", null, title), el("span", { class: "grow" }), actions), tabs];
}

/**
 * Whose something is, as rows of a list.
 * @param {{ owner: string, tags: readonly string[] }} one
 * @returns {[string, Single][]}
 */
export function groupFacts({ owner, tags }) {
  /** @type {[string, Single][]} */
  const facts = [];
  if (owner) facts.push(["Owner", el("a", { href: requestsLink({ owner }) }, el("bdi", null, owner))]);
  if (tags.length) {
    facts.push(["Tags", el("span", null, tags.map((tag, index) =>
      [index ? ", " : "", el("a", { href: requestsLink({ tag }) }, el("bdi", null, tag))]).flat())]);
  }
  return facts;
}

/** @param {string} to */
function isCurrent(to) {
  const at = path.peek();
  return at === to || (to !== "/gateway" && at.startsWith(`${to}/`));
}

/**
 * What is read, read again while requests are recorded, and why it could not be.
 * @template T
 * @param {(abort: AbortSignal) => Promise<T>} read
 * @param {{ every?: number, events?: readonly string[], asked?: () => unknown }} [options]
 *   `every`: the least time between two reads after requests, in ms; it is read when another day begins, too; 0: never.
 *   `asked`: what is read for, such as filters; it is read again when that changes, and what was read for something else is not left
 *   as if it answered this
 */
export function following(read, { every = 0, events = [], asked = () => "" } = {}) {
  const question = computed(() => JSON.stringify(asked()));
  let answered = "";
  const value = signal(/** @type {T | null} */ (null));
  const problem = signal(/** @type {unknown} */ (null));
  let abort = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  async function reload() {
    abort.abort();
    const ours = (abort = new AbortController());
    const wanted = question.peek();
    try {
      const answer = await read(ours.signal);
      if (ours.signal.aborted) return;
      answered = wanted;
      if (JSON.stringify(answer) !== JSON.stringify(value.peek())) value.value = answer;
      problem.value = null;
    } catch (error) {
      if (ours.signal.aborted) return;
      if (!(error instanceof ApiError)) reportError(error);
      if (wanted !== answered) value.value = null;
      if (!(error instanceof ApiError && error.passing && value.peek() !== null)) problem.value = error;
    }
  }
  const later = () => {
    soon ??= setTimeout(() => {
      soon = undefined;
      void reload();
    }, every);
  };
  const ends = [live.onInterruption(() => void reload()), ...events.map((name) => live.on(name, () => void reload()))];
  if (every) ends.push(live.on("gatewayUpdate", later));
  onEnd(() => {
    clearTimeout(soon);
    abort.abort();
    ends.forEach((end) => end());
  });
  const day = every ? today() : null;
  effect(() => {
    void question.value;
    void day?.value;
    untracked(() => void reload());
  });
  return { value, problem, reload };
}

/**
 * Show what `following` reads: its content once it is there, before that a skeleton, or why there is none.
 * @template T
 * @param {ReturnType<typeof following<T>>} reading
 * @param {(value: import("../core/signals.js").ReadonlySignal<T>) => Single} show called once, with what changes
 */
export function shown(reading, show) {
  const state = computed(() => (reading.problem.value ? "problem" : reading.value.value !== null ? "content" : "loading"));
  const retry = () => {
    reading.problem.value = null;
    void reading.reload();
  };
  const busy = () => (state.value === "loading" ? "true" : null);
  return el("div", { class: "loaded", "aria-busy": busy }, () => {
    if (state.value === "problem") return failure(reading.problem.peek(), retry);
    if (state.value === "loading") return skeleton();
    const first = /** @type {T} */ (reading.value.peek());
    const latest = computed(() => reading.value.value ?? first);
    return el("div", { class: "loaded" }, show(latest));
  });
}

/**
 * A part of a page that is rebuilt when its data has changed, unless somebody presses on it or has one of its menus open.
 * @template T
 * @param {() => T} read
 * @param {(value: T) => Single} render
 * @param {() => boolean} [waits] whether it stays as it is for now, as while something in it is not saved
 */
export function part(read, render, waits = () => false) {
  const value = signal(untracked(read));
  let latest = value.peek();
  let isMade = false;
  const node = el("div", { class: "loaded" }, () => {
    const next = value.value;
    if (isMade) keepFocus(node);
    isMade = true;
    return el("div", { class: "loaded" }, render(next));
  });
  effect(() => {
    const next = (latest = read());
    if (waits()) return;
    if (JSON.stringify(next) === JSON.stringify(value.peek())) return;
    void untouched(node).then(() => {
      if (next === latest) value.value = next;
    });
  });
  return node;
}

/**
 * Read all of a list of resources, page by page.
 * @param {string} resource such as `channels`
 * @param {AbortSignal} [abort]
 * @returns {Promise<any[]>}
 */
export async function readAll(resource, abort) {
  /** @type {any[]} */
  const items = [];
  let cursor = "";
  do {
    const page = await get(`/api/agent/${resource}`, { limit: 200, cursor }, abort);
    items.push(...page.items);
    cursor = page.next;
  } while (cursor);
  return items;
}

/**
 * The request log, narrowed down to these.
 * @param {Record<string, string>} filters
 */
export function requestsLink(filters) {
  return link(`/gateway/requests?${new URLSearchParams(filters)}`);
}

/** @param {string} outcome @param {string} [error] */
export function outcomeState(outcome, error = "") {
  const kind = OUTCOMES[outcome] ?? "bad";
  return kind ? el("span", { class: `state ${kind}`, title: error }, dot(kind), outcome) : el("small", null, outcome);
}

/** @param {string} day such as `2026-01-31` @param {number} more */
export function addDays(day, more) {
  return new Date(Date.parse(day) + more * 86_400_000).toISOString().slice(0, 10);
}

/**
 * A bar of what is used of a limit, and reserved by requests under way.
 * @param {{ limit: number, used: number, reserved: number }} status
 */
export function limitBar({ limit, used, reserved }) {
  const part = (/** @type {number} */ sum) => (limit > 0 ? Math.min(100, (sum / limit) * 100) : 100);
  const kind = part(used) >= 100 ? "bad" : part(used + reserved) >= 80 ? "need" : "";
  const bar = el("span", { class: `limit-bar ${kind}`, "aria-hidden": "true" }, el("i"), el("i"));
  const [first, second] = /** @type {HTMLElement[]} */ ([...bar.children]);
  if (first && second) {
    first.style.width = `${part(used)}%`;
    second.style.width = `${Math.min(100 - part(used), part(reserved))}%`;
  }
  return bar;
}
