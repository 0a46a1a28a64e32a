/** The colour of a label or a skill: as a dot, and chosen from some, or freely. */

import { dot, el } from "../core/el.js";
import { signal } from "../core/signals.js";

const HUES = /** @type {const} */ ([
  ["", "None"], ["#cc3b3b", "Red"], ["#c2702f", "Orange"], ["#a88a12", "Ochre"], ["#2f9a63", "Green"], ["#2f958b", "Teal"],
  ["#3a6ed6", "Blue"], ["#8a5fd0", "Plum"], ["#c26d8c", "Pink"], ["#8a8780", "Grey"],
]);

/** @param {string} color such as `#3366cc`; empty: none */
export function colorDot(color) {
  const mark = dot(color ? "" : "off");
  mark.style.background = color;
  return mark;
}

/**
 * The choice of a colour.
 * @param {string} first
 * @returns {{ node: HTMLElement, value: () => string }}
 */
export function colorField(first) {
  const chosen = signal(first.toLowerCase());
  const free = el("input", {
    type: "color", "aria-label": "Another colour", value: () => chosen.value || "#8a8780",
    oninput: (/** @type {any} */ event) => (chosen.value = event.target.value),
  });
  const node = el("fieldset", { class: "hues" }, el("legend", null, "Colour"),
    HUES.map(([color, name]) => el("button", {
      type: "button", "aria-label": name, title: name,
      "aria-pressed": () => String(chosen.value === color), onclick: () => (chosen.value = color),
    }, colorDot(color))), free);
  return { node, value: () => chosen.value };
}
