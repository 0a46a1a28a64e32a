/**
 * The only place where HTML, and the address of a script, enter a page.
 *
 * The daemon has cleaned the HTML of messages; a browser that can cleans it once more.
 */

/** @typedef {{ createHTML: (html: string) => any, createScriptURL: (url: string) => any }} Policy */

/** @type {Policy} */
const policy = /** @type {any} */ (window).trustedTypes?.createPolicy("agentd-message", {
  createHTML: (/** @type {string} */ html) => html,
  createScriptURL: (/** @type {string} */ url) => url,
}) ?? { createHTML: (html) => html, createScriptURL: (url) => url };

/**
 * Show the HTML of a message, as the daemon rendered and cleaned it.
 * @param {Element} element
 * @param {string} html
 */
export function showHtml(element, html) {
  const target = /** @type {Element & { setHTML?: (html: string) => void }} */ (element);
  if (target.setHTML) target.setHTML(html);
  else element.innerHTML = policy.createHTML(html);
}

/**
 * Let a worker keep the files of this version, where the browser allows it.
 * @param {string} url of our own script
 */
export async function registerWorker(url) {
  if (!("serviceWorker" in navigator) || !window.isSecureContext) return null;
  return navigator.serviceWorker.register(policy.createScriptURL(url));
}
