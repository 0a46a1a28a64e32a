/** The span of days that a page shows, as the address has it. */

import { el } from "../core/el.js";
import { query, setQuery } from "../core/router.js";
import { computed, signal } from "../core/signals.js";
import { addDays } from "./frame.js";
import { today } from "./today.js";

/** @typedef {{ days: number, from: string, to: string }} Span `days` 0: chosen by hand */

export const SPANS = /** @type {const} */ ([1, 7, 30, 90]);

/** @param {string | null} text */
function parseDay(text) {
  return text && /^[12]\d{3}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) ? text : "";
}

/**
 * What the address asks for; what it says wrong is left out.
 * @param {number} usual days
 */
export function spanOf(usual) {
  const end = today();
  return computed(() => {
    const [from, to] = [parseDay(query.value.get("from")), parseDay(query.value.get("to"))];
    if (from && to && from <= to) return /** @type {Span} */ ({ days: 0, from, to });
    const given = Number(query.value.get("days"));
    const days = SPANS.find((one) => one === given) ?? usual;
    return /** @type {Span} */ ({ days, from: addDays(end.value, 1 - days), to: end.value });
  });
}

/**
 * @param {import("../core/signals.js").ReadonlySignal<Span>} span
 * @param {number} usual
 */
export function spanChooser(span, usual) {
  const custom = signal(span.peek().days === 0);
  const choose = (/** @type {number} */ days) => {
    custom.value = false;
    setQuery({ days: days === usual ? null : String(days), from: null, to: null });
  };
  const dayInput = (/** @type {"from" | "to"} */ name) => el("input", {
    class: "input day", type: "date", required: true, "aria-label": name === "from" ? "First day" : "Last day",
    value: () => span.value[name],
    onchange: (/** @type {Event} */ event) => {
      const value = /** @type {HTMLInputElement} */ (event.target).value;
      if (!parseDay(value)) return; // a year is typed digit by digit
      const { from, to } = span.peek();
      const days = { from, to, [name]: value };
      if (days.from > days.to) days.from = days.to = value;
      setQuery({ days: null, ...days });
    },
  });
  return el("div", { class: "range" },
    () => (custom.value || span.value.days === 0 ? el("span", { class: "days" }, dayInput("from"), "–", dayInput("to")) : null),
    el("div", { class: "seg", role: "group", "aria-label": "Range" },
      SPANS.map((days) => el("button", { "aria-pressed": () => String(!custom.value && span.value.days === days),
        onclick: () => choose(days) }, days === 1 ? "24 h" : `${days} d`)),
      el("button", { "aria-pressed": () => String(custom.value || span.value.days === 0), onclick: () => (custom.value = true) },
        "Custom")));
}
