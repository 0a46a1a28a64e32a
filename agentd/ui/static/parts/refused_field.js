/** The field of a form whose value was refused: its label in the message, and the message beside it. */

import { ApiError } from "../core/api.js";
import { readRefusal } from "../core/refusals.js";

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Control */

/**
 * Find the field that an error is about, and name it in the error by its label.
 * @param {HTMLFormElement} form whose controls are named as the body's members, such as `limits.day`
 * @param {unknown} error
 * @returns {{ error: ApiError, control: Control } | { error: unknown, control?: undefined }} the error as it was where it is
 *   about no field of the form
 */
export function findRefusedField(form, error) {
  if (!(error instanceof ApiError)) return { error };
  if (error.code === "input") {
    const control = findLabelled(form, error.message.split(": ")[0] ?? "");
    return control ? { error, control } : { error };
  }
  if (error.status !== 400) return { error };
  const { place, what } = readRefusal(error.details);
  // What a file or a group of members checks by itself begins with the name of the member.
  const [, member = "", about = ""] = /^(\w[^:\n]*): ([^]*)$/.exec(error.details ? what : error.message) ?? [];
  const inner = controlOf(form, place ? `${place}.${member}` : member);
  const [outer = "", ...entry] = member.split("."); // such as headers.Host
  const control = inner ?? nearestControl(form, place || outer);
  if (!control) return { error };
  const told = inner ? about : place ? what : `${entry.join(".")}: ${about}`;
  return { error: new ApiError(error.status, error.code, `${labelOf(control)}: ${told}`), control };
}

/**
 * Lead to a field and tell what is wrong with it, until the form is changed or sent again.
 * @param {HTMLFormElement} form
 * @param {Control} control
 * @param {string} message
 */
export function showRefusedField(form, control, message) {
  (control.closest("fieldset, label") ?? control).scrollIntoView({ block: "nearest" }); // with its label
  if (control.type === "hidden") return;
  control.setCustomValidity(message);
  const forget = () => control.setCustomValidity("");
  // A click comes before the browser checks the form, also where the Enter key sends it.
  for (const kind of ["input", "click"]) form.addEventListener(kind, forget, { once: true, capture: true });
  control.reportValidity();
}

/**
 * @param {HTMLFormElement} form
 * @param {string} name
 */
function controlOf(form, name) {
  const found = form.elements.namedItem(name);
  return found && "setCustomValidity" in found ? /** @type {Control} */ (found) : undefined;
}

/**
 * The control of a path such as `ways[0].channel`, or of the part of the body that it is in.
 * @param {HTMLFormElement} form
 * @param {string} place
 */
function nearestControl(form, place) {
  const steps = place.replace(/\[.*/, "").split(".");
  for (let count = steps.length; count; count--) {
    const found = controlOf(form, steps.slice(0, count).join("."));
    if (found) return found;
  }
  return undefined;
}

/**
 * @param {HTMLFormElement} form
 * @param {string} label that one of the fields has; in an editor of rows several have it
 */
function findLabelled(form, label) {
  const found = /** @type {Control[]} */ ([...form.elements].filter((one) => "labels" in one)).filter((one) => labelOf(one) === label);
  return found.length === 1 ? found[0] : undefined;
}

/** @param {Control} control */
function labelOf(control) {
  const labels = control.type === "hidden" ? control.closest("fieldset") : control.labels?.[0];
  const shown = labels?.querySelector("legend, span, small");
  return shown?.firstChild?.textContent ?? control.name;
}
