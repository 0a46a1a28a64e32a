/** Keys: each page adds its own, `?` lists all that work now. */

import { navigate } from "../core/router.js";
import { onEnd } from "../core/signals.js";
import { toastError } from "./toast.js";

/**
 * @typedef {{ keys: string, label: string, run: (event: KeyboardEvent) => void, typing?: boolean, hidden?: boolean,
 *   changes?: import("../core/api.js").Role }} Shortcut
 */

/** @type {Shortcut[]} */
const shortcuts = [];
let installed = false;

/**
 * Add keys while what is being made now lasts. `keys` is such as `A`, `Ctrl K`, `Alt ↑`.
 * @param {Shortcut[]} more `typing`: they work while text is being typed, too; `changes`: who may use it
 */
export function addKeys(more) {
  shortcuts.push(...more);
  onEnd(() => {
    for (const one of more) shortcuts.splice(shortcuts.indexOf(one), 1);
  });
}

/** Listen, and add the keys of every page. */
export function installKeys() {
  if (installed) return;
  installed = true;
  const step = async (/** @type {1 | -1} */ by) => (await import("../agent/next_chat.js")).openNextChat(by);
  shortcuts.unshift( // before those of the page that is shown already, which win
    { keys: "Ctrl K", label: "Find pages, chats and actions", run: openPalette, typing: true },
    { keys: "/", label: "Search", run: openPalette },
    { keys: "N", label: "New chat", run: () => void navigate("/") },
    { keys: "J", label: "Next chat", run: () => void step(1).catch(toastError) },
    { keys: "K", label: "Previous chat", run: () => void step(-1).catch(toastError) },
    { keys: "?", label: "Show these keys", run: openKeys },
  );
  // The keys with which Chinese or Japanese is composed are for the input method alone; 229: its last one in Safari.
  addEventListener("keydown", (event) => {
    if (event.isComposing || event.keyCode === 229) event.stopImmediatePropagation();
  }, true);
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const pressed = nameOf(event);
    const typing = isTyping(event.target);
    const found = shortcuts.findLast((one) => one.keys === pressed && (one.typing || !typing));
    if (!found) return;
    event.preventDefault();
    found.run(event);
  });
}

/** Open the search over pages, chats and actions. */
export async function openPalette() {
  (await import("./palette.js")).showPalette();
}

/** List the keys that work now. */
export async function openKeys() {
  (await import("./key_list.js")).showKeys(shortcuts);
}

/** @param {KeyboardEvent} event */
function nameOf(event) {
  const arrows = /** @type {Record<string, string>} */ ({ ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" });
  const key = arrows[event.key] ?? (event.key.length === 1 ? event.key.toUpperCase() : event.key);
  return `${event.ctrlKey || event.metaKey ? "Ctrl " : ""}${event.altKey ? "Alt " : ""}${key}`;
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}
