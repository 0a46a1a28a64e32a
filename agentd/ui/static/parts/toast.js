/** Short messages at the edge, with what can be done about them. */

import { ApiError } from "../core/api.js";
import { el, icon } from "../core/el.js";

const STAY = 6000;

const region = el("div", { class: "toasts", role: "status", "aria-live": "polite" });
document.body.append(region);

/**
 * Say something; it goes by itself, unless there is something to do about it.
 * @param {string} text
 * @param {{ kind?: "plain" | "bad", details?: string, action?: string, onaction?: () => void }} [options]
 * @returns {() => void} takes it away
 */
export function toast(text, options = {}) {
  const remove = () => {
    clearTimeout(timer);
    node.remove();
  };
  const act = () => {
    remove();
    options.onaction?.();
  };
  const node = el("div", { class: `toast ${options.kind ?? "plain"}` },
    el("div", { class: "grow" }, el("span", null, text), options.details ? el("small", null, options.details) : null),
    options.action ? el("button", { class: "btn small", onclick: act }, options.action) : null,
    el("button", { class: "btn plain icon small", "aria-label": "Dismiss", onclick: remove }, icon("close")));
  region.append(node);
  const timer = setTimeout(remove, options.action || options.kind === "bad" ? 2 * STAY : STAY);
  return remove;
}

/**
 * Say that something failed, in the daemon's words, and offer to try it again.
 * @param {unknown} error
 * @param {() => void} [again]
 */
export function toastError(error, again) {
  if (error instanceof DOMException && error.name === "AbortError") return;
  const known = error instanceof ApiError;
  if (!known) reportError(error);
  if (known && error.status === 401) return;
  toast(known ? error.message : "This did not work: a fault of the page", {
    kind: "bad",
    details: known ? error.details : String(error),
    ...(again ? { action: "Retry", onaction: again } : {}),
  });
}
