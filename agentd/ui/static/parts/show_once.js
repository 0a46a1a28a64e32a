/** A dialog that shows a new key this once: nothing keeps it, not the page either. */

import { el, icon } from "../core/el.js";
import { openDialog } from "./dialog.js";
import { toast } from "./toast.js";

/**
 * @param {string} name
 * @param {string} key
 * @param {string} example a line for a terminal that uses the key
 */
export function showOnce(name, key, example) {
  return openDialog(`The key of ${name}`, (close) => {
    const text = el("div", { class: "secret-once", tabindex: 0, role: "textbox", "aria-readonly": "true", "aria-label": "Key",
      autofocus: true }, key); // not a button: Enter, pressed again, would close what is shown once
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(key);
        toast("The key is copied");
      } catch {
        getSelection()?.selectAllChildren(text);
        toast("Press Ctrl C to copy it: the browser lets no page copy without https");
      }
    };
    return [
      el("div", { class: "stack" }, text,
        el("p", null, "It is shown only now: only a salted hash of it is stored."),
        el("pre", { tabindex: 0 }, example)),
      el("footer", null,
        el("button", { class: "btn", onclick: () => void copy() }, icon("copy"), "Copy"),
        el("button", { class: "btn main", onclick: () => close() }, "Done")),
    ];
  });
}
