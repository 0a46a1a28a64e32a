/** Forms that change a thing which others may change meanwhile: only what was changed in the form replaces what is there now. */

import { ApiError } from "../core/api.js";
import { beginningOf } from "../core/counts.js";

/** @typedef {Record<string, any>} Fields */

/** @param {unknown} one @param {unknown} other */
function isSame(one, other) {
  return JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}

/**
 * Begin an edit.
 * @param {Fields} shown what the form says before something is typed, as `typed` later
 * @param {Fields} before what it shows, as the daemon had it
 * @returns {(typed: Fields, now: Fields) => Fields} what to save; it is refused once where others have changed the same field
 */
export function beginEdit(shown, before) {
  let known = before;
  return (typed, now) => {
    const changed = Object.keys(typed).filter((name) => !isSame(typed[name], shown[name]));
    const both = changed.filter((name) => name in now && !isSame(now[name], known[name]) && !isSame(now[name], typed[name]));
    known = now;
    if (both.length) {
      const theirs = both.map((name) => `${name} is now ${describeValue(now[name])}`);
      throw new ApiError(409, "changed", `Somebody else has changed this meanwhile: ${theirs.join("; ")}`,
        "Save again to replace that by what is entered here.");
    }
    return Object.fromEntries(Object.entries(typed).map(([name, value]) =>
      [name, changed.includes(name) || !(name in now) ? value : now[name] ?? undefined]));
  };
}

/** @param {unknown} value */
function describeValue(value) {
  const isEmpty = value === undefined || value === null || value === "";
  const text = isEmpty ? "empty" : JSON.stringify(value);
  return text.length > 200 ? `${beginningOf(text, 200)}…` : text;
}
