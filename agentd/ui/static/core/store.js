/** What this browser keeps by itself, and survives storage that is full or forbidden. */

import { BASE } from "./api.js";

const prefix = `agentd ${BASE} `;

/**
 * Read a value.
 * @template T
 * @param {string} name
 * @param {T} otherwise
 * @returns {T}
 */
export function read(name, otherwise) {
  try {
    const text = localStorage.getItem(prefix + name);
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
    if (value === null || value === undefined) localStorage.removeItem(prefix + name);
    else localStorage.setItem(prefix + name, JSON.stringify(value));
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
      if (name.startsWith(prefix + beginning)) found.push(name.slice(prefix.length));
    }
  } catch {
    return [];
  }
  return found;
}

/** Forget everything, as at sign-out. */
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
    if (event.key === prefix + name || event.key === null) action();
  };
  addEventListener("storage", hear);
  return () => removeEventListener("storage", hear);
}
