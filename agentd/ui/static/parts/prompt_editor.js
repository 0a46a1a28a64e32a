/** Where the text of a prompt that waits is edited. */

import { el } from "../core/el.js";

/**
 * @typedef {{ prompt: import("../agent/chat_data.js").Prompt, typed: string }} Edit
 *   the prompt as it was when one began to edit it, and what is typed by now
 */

/**
 * @param {Edit} edited
 * @param {(text: string) => void} finish empty: as it was
 */
export function editor(edited, finish) {
  const input = el("textarea", { class: "input", rows: 2, value: edited.typed, "aria-label": "Text of the prompt", dir: "auto" });
  const save = () => finish(input.value.trim());
  input.addEventListener("input", () => (edited.typed = input.value));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") finish("");
    else if (event.key === "Enter" && !event.shiftKey) save();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return el("div", { class: "edit" }, input, el("div", { class: "acts" },
    el("span", { class: "state" }, "Paused while you edit"), el("span", { class: "grow" }),
    el("button", { class: "btn plain small", changes: "manager", onclick: () => finish("") }, "Cancel"),
    el("button", { class: "btn small", changes: "manager", onclick: save }, "Save")));
}
