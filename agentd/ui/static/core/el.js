/**
 * Makes nodes: `el("button", { class: "btn", onclick }, icon("plus"), "New chat")`.
 *
 * A function as an attribute or a child is run again when a signal that it read changes.
 * Text is always text: nothing here reads HTML.
 *
 * What changes something of the daemon says so, with the least role that may: `changes: "manager"`. For
 * others such a button is hidden, and a field disabled; for all they are while the daemon does not answer.
 */

import { canChange, may, reachable } from "./api.js";
import { effect } from "./signals.js";

/** @typedef {Node | string | number | false | null | undefined} Piece */
/** @typedef {Piece | Piece[] | (() => Piece | Piece[])} Single */
/** @typedef {Single | Single[] | Single[][]} Child */
/** @typedef {string | number | boolean | null | undefined} Value */
/** @typedef {Record<string, Value | (() => Value) | ((event: any) => unknown)>} Attributes */

const SVG = "http://www.w3.org/2000/svg";

/** Why nothing can be changed. */
export const UNREACHABLE = "agentd does not answer: this can be done once it does";

/** Where the files of this version are: the folder above `core/`. */
export const ASSETS = new URL("../", import.meta.url).href;

/**
 * Make an element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes | null} [attributes] `on…` are listeners, the rest attributes
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes ?? {});
  append(element, children);
  return element;
}

/**
 * Make an SVG element.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  setAttributes(element, attributes ?? {});
  append(element, children);
  return element;
}

/**
 * Make an icon of the sprite.
 * @param {string} name
 * @returns {SVGElement}
 */
export function icon(name) {
  const use = svg("use", { href: `${ASSETS}icons.svg#${name}` });
  return svg("svg", { class: "ic", viewBox: "0 0 16 16", "aria-hidden": "true" }, use);
}

/**
 * Make placeholders for what is being read, shown (by the style sheet) after a moment, for most is there sooner.
 * @param {number} [lines]
 */
export function skeleton(lines = 3) {
  return el("div", { class: "skeleton", role: "status", "aria-label": "Loading" }, Array.from({ length: lines }, () => el("i")));
}

/**
 * Make the coloured dot of a state or a hue, hidden from screen readers.
 * @param {string} kind such as `run`, `need`, `good`, `bad`, `off`
 */
export function dot(kind) {
  return el("span", { class: `dot ${kind}`, "aria-hidden": "true" });
}

/**
 * Replace what is in an element.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * Add children at the end.
 * @param {Element | DocumentFragment} parent
 * @param {readonly Child[]} children
 */
export function append(parent, children) {
  for (const child of children) {
    if (typeof child === "function") appendDynamic(parent, child);
    else if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.append(child);
    else if (child !== null && child !== undefined && child !== false) parent.append(String(child));
  }
}

/**
 * @param {Element | DocumentFragment} parent
 * @param {() => Piece | Piece[]} child
 */
function appendDynamic(parent, child) {
  const end = document.createTextNode("");
  parent.append(end);
  /** @type {ChildNode[]} */
  let shown = [];
  effect(() => {
    const made = child();
    if (shown.length === 1 && shown[0] === made && made === end.previousSibling) return undefined; // moved, it would lose the focus
    const fragment = document.createDocumentFragment();
    append(fragment, [made]);
    const next = [...fragment.childNodes];
    return unlessPressed(shown, () => {
      for (const node of shown) if (!next.includes(node)) node.remove();
      end.before(fragment);
      shown = next;
    });
  });
}

/** What the mouse presses now: a click is lost if this is replaced before the button is up. @type {Node | null} */
let pressed = null;
/** Changes that wait until then. @type {Set<() => void>} */
const held = new Set();

function letGo() {
  pressed = null;
  const changes = [...held];
  held.clear();
  for (const change of changes) change();
}

addEventListener("pointerdown", ({ target, pointerType, button }) => {
  letGo();
  if (target instanceof Node && pointerType === "mouse" && button === 0) pressed = target;
}, true);
addEventListener("click", () => (pressed = null), true);
for (const name of ["pointerup", "pointercancel", "contextmenu"]) {
  addEventListener(name, () => {
    const was = pressed;
    setTimeout(() => (!pressed || pressed === was) && letGo());
  }, true);
}

/**
 * Replace nodes now, or, if the mouse presses what is in one of them, once it was let go and has clicked.
 * @param {readonly Node[]} nodes
 * @param {() => void} change
 * @returns {void | (() => void)} forgets the change, if it waits
 */
export function unlessPressed(nodes, change) {
  if (!pressed?.isConnected || !nodes.some((node) => node.contains(pressed))) return change();
  held.add(change);
  return () => void held.delete(change);
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 */
function setAttributes(element, attributes) {
  const { changes, ...plain } = attributes;
  const all = changes ? { ...plain, ...whileItCan(element, plain, /** @type {import("./api.js").Role} */ (changes)) } : plain;
  for (const [name, value] of Object.entries(all)) {
    if (name.startsWith("on")) {
      if (typeof value === "function") element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (typeof value === "function") {
      effect(() => setAttribute(element, name, /** @type {() => Value} */ (value)()));
    } else {
      setAttribute(element, name, value);
    }
  }
}

/**
 * The attributes of a control that changes something, so that it is used only where that is possible.
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {import("./api.js").Role} role
 * @returns {Attributes}
 */
function whileItCan(element, attributes, role) {
  const given = (/** @type {string} */ name) => {
    const value = attributes[name];
    return typeof value === "function" ? /** @type {() => Value} */ (value)() : value;
  };
  return {
    hidden: () => (element.tagName === "BUTTON" && !may(role)) || given("hidden"),
    disabled: () => !canChange(role) || given("disabled"),
    title: () => (reachable.value ? given("title") : UNREACHABLE),
  };
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {Value} value
 */
export function setAttribute(element, name, value) {
  if (name === "value" && "value" in element && !(element instanceof HTMLOptionElement)) {
    if (element.value !== (value ?? "")) element.value = value ?? "";
  } else if (name === "checked" && element instanceof HTMLInputElement) {
    element.checked = Boolean(value);
  } else if (value === false || value === null || value === undefined) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}
