/** Style sheets of single pages, which are loaded with their page. */

import { ASSETS, el } from "../core/el.js";

/** @type {Map<string, Promise<void>>} */
const loading = new Map();

/**
 * Load a style sheet once; returns when it applies, or cannot be had.
 * @param {string} name of the file in `style/`
 */
export function loadStyle(name) {
  let loaded = loading.get(name);
  if (!loaded) {
    loaded = new Promise((resolve) => {
      document.head.append(el("link", {
        rel: "stylesheet", href: `${ASSETS}style/${name}.css`, onload: () => resolve(), onerror: () => resolve(),
      }));
    });
    loading.set(name, loaded);
  }
  return loaded;
}
