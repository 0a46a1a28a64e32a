/**
 * What this browser keeps by itself, and survives storage that is full or forbidden. It is kept for who
 * is signed in: whoever signs in next in this browser, as after a session was revoked, has their own.
 */

import { BASE, session } from "./api.js";

/**
 * The key of a value in the browser's storage.
 * @param {string} name
 */
function keyOf(name) {
  return `agentd ${BASE} ${session.peek()?.user ?? ""} ${name}`;
}

/**
 * Read a value.
 * @template T
 * @param {string} name
 * @param {T} otherwise
 * @returns {T}
 */
export function read(name, otherwise) {
  try {
    const text = localStorage.getItem(keyOf(name));
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/**
 * Keep a value; null forgets it. False when the browser has no room for it.
 * @param {string} name
 * @param {unknown} value
 */
export function write(name, value) {
  try {
    if (value === null || value === undefined) localStorage.removeItem(keyOf(name));
    else localStorage.setItem(keyOf(name), JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/**
 * The names that begin so.
 * @param {string} beginning
 */
export function names(beginning) {
  const found = [];
  try {
    for (let index = 0; index < localStorage.length; index++) {
      const name = localStorage.key(index) ?? "";
      if (name.startsWith(keyOf(beginning))) found.push(name.slice(keyOf("").length));
    }
  } catch {
    return [];
  }
  return found;
}

/** Forget everything of who is signed in, as at sign-out. */
export function clear() {
  for (const name of names("")) write(name, null);
}

/**
 * Call when another tab has changed a value.
 * @param {string} name
 * @param {() => void} action
 * @returns {() => void} ends it
 */
export function onChange(name, action) {
  /** @param {StorageEvent} event */
  const hear = (event) => {
    if (event.key === keyOf(name) || event.key === null) action();
  };
  addEventListener("storage", hear);
  return () => removeEventListener("storage", hear);
}
