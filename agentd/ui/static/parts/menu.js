/** Menus: opened by a button, walked through with the arrow keys. */

import { may } from "../core/api.js";
import { el, icon, dot } from "../core/el.js";
import { detached } from "../core/signals.js";

/** @typedef {import("../core/api.js").Role} Role */
/**
 * @typedef {{ label: string, icon?: string, hue?: string, hint?: string, note?: string, checked?: boolean,
 *   toggles?: boolean, danger?: boolean, disabled?: boolean, changes?: Role | undefined, onselect: () => void }} Item
 *   `changes`: who may choose it, as `el` knows it
 * @typedef {(Item | null | false)[]} Items null: a line between groups
 */

/** @type {(() => void) | null} */
let closeOpen = null;
/** @type {HTMLElement | undefined} */
let opener;

/**
 * A button that opens a menu.
 * @param {import("../core/el.js").Attributes} attributes
 * @param {import("../core/el.js").Single[]} content
 * @param {() => Items | Promise<Items>} items asked each time it opens
 */
export function menuButton(attributes, content, items) {
  const button = el("button", { type: "button", "aria-haspopup": "menu", "aria-expanded": "false", ...attributes }, ...content);
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-expanded") === "true") {
      closeOpen?.();
    } else {
      const found = items();
      const ready = found instanceof Promise ? await found : found;
      if (button.isConnected) openMenu(button, ready);
    }
  });
  return button;
}

/** Close the menu that is open, if there is one, and `lost`: if its button has gone with a page. */
export function closeMenu(lost = false) {
  if (!lost || !opener?.isConnected) closeOpen?.();
}

/**
 * Open a menu beside an element.
 * @param {HTMLElement} anchor
 * @param {Items} items
 */
export function openMenu(anchor, items) {
  closeOpen?.();
  const [menu, end] = detached(() => el("div", { class: "menu", role: "menu", popover: "manual", tabindex: -1 },
    items.filter((item) => item !== false && !(item?.changes && !may(item.changes))).map((item) => (item ? row(item) : el("hr")))));
  const close = (focus = true) => {
    closeOpen = null;
    anchor.setAttribute("aria-expanded", "false");
    dispatchEvent(new Event("menuclose"));
    menu.remove();
    end();
    removeEventListener("pointerdown", outside, true);
    removeEventListener("resize", fit);
    if (focus) anchor.focus();
  };
  /** A phone's keyboard goes as the menu has the focus. */
  const fit = () => (anchor.checkVisibility() ? place(menu, anchor) : close(false));
  /** @param {Event} event */
  const outside = (event) => {
    const target = /** @type {Node} */ (event.target);
    if (!menu.contains(target) && !anchor.contains(target)) close(false);
  };
  /** @param {Item} item */
  function row(item) {
    const choose = () => {
      close();
      item.onselect();
    };
    return el("button", {
      role: item.checked === undefined ? "menuitem" : item.toggles ? "menuitemcheckbox" : "menuitemradio",
      "aria-checked": item.checked === undefined ? null : String(item.checked),
      class: item.danger ? "danger" : "", tabindex: -1, disabled: item.disabled ?? false, changes: item.changes, onclick: choose,
    },
    item.icon ? icon(item.icon) : item.hue ? dot(item.hue) : null,
    el("span", { class: "grow" }, item.label, item.note ? el("small", null, item.note) : null),
    item.hint ? el("kbd", null, item.hint) : null,
    item.checked ? icon("check") : null);
  }
  menu.addEventListener("keydown", (event) => walk(event, menu, close));
  (anchor.closest("dialog") ?? document.body).append(menu);
  menu.showPopover();
  place(menu, anchor);
  anchor.setAttribute("aria-expanded", "true");
  closeOpen = close;
  opener = anchor;
  addEventListener("pointerdown", outside, true);
  addEventListener("resize", fit);
  const first = menu.querySelector("[aria-checked=true]:not([disabled])") ?? menu.querySelector("button:not([disabled])");
  /** @type {HTMLElement} */ (first ?? menu).focus(); // for its keys, also where nothing can be chosen
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLElement} menu
 * @param {() => void} close
 */
function walk(event, menu, close) {
  const rows = /** @type {HTMLElement[]} */ ([...menu.querySelectorAll("button:not([disabled])")]);
  const at = rows.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 };
  if (event.key in steps) {
    rows.at(steps[/** @type {keyof typeof steps} */ (event.key)] % rows.length)?.focus();
  } else if (event.key === "Escape" || event.key === "Tab") {
    close();
  } else if (event.key.length === 1 && /\S/.test(event.key)) {
    const letter = event.key.toLowerCase();
    const next = [...rows.slice(at + 1), ...rows].find((row) => row.textContent?.trim().toLowerCase().startsWith(letter));
    next?.focus();
  } else {
    return;
  }
  event.preventDefault();
  event.stopPropagation();
}

/**
 * @param {HTMLElement} menu
 * @param {HTMLElement} anchor
 */
function place(menu, anchor) {
  const at = anchor.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const below = at.bottom + 6 + height <= innerHeight - 8;
  const left = at.left + width <= innerWidth - 8 ? at.left : at.right - width;
  menu.style.top = `${Math.max(8, below ? at.bottom + 6 : at.top - 6 - height)}px`;
  menu.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
}
