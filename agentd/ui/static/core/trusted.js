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

/** What messages consist of, as `agentd/core/markdown.py` lists it: by itself, a browser keeps less. */
const MESSAGE_HTML = {
  elements: [
    "blockquote", "br", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "p", "pre", "strong",
    "table", "tbody", "thead", "tr", "ul",
    { name: "a", attributes: ["href", "rel", "title"] },
    { name: "code", attributes: ["class"] },
    { name: "input", attributes: ["checked", "disabled", "type"] },
    { name: "ol", attributes: ["start"] },
    { name: "td", attributes: ["align"] },
    { name: "th", attributes: ["align"] },
  ],
  attributes: [],
};

/**
 * Show the HTML of a message, as the daemon rendered and cleaned it.
 * @param {Element} element
 * @param {string} html
 */
export function showHtml(element, html) {
  const target = /** @type {Element & { setHTML?: (html: string, options: object) => void }} */ (element);
  if (target.setHTML) target.setHTML(html, { sanitizer: MESSAGE_HTML });
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
