/** Parts of forms: a field with its label and hint, and why a form was refused. */

import { ApiError } from "../core/api.js";
import { el, icon } from "../core/el.js";

/**
 * An input with its label.
 * @param {string} label
 * @param {import("../core/el.js").Attributes} attributes of the input
 * @param {string} [hint]
 */
export function labelled(label, attributes, hint) {
  return el("label", { class: "labelled" }, el("span", null, label),
    el("input", { class: "input", required: true, ...attributes }),
    hint ? el("small", null, hint) : null);
}

/**
 * Why what was sent was refused, in the daemon's words; nothing while it was not.
 * @param {import("../core/signals.js").Signal<unknown>} failure
 */
export function failureNote(failure) {
  return el("div", { role: "alert" }, () => {
    const error = failure.value;
    if (!error) return null;
    if (!(error instanceof ApiError)) reportError(error);
    const known = error instanceof ApiError;
    return el("p", { class: "failure" }, icon("warning"),
      el("span", null, known ? error.message : "This did not work: a fault of the page",
        el("small", null, known ? error.details : String(error))));
  });
}
