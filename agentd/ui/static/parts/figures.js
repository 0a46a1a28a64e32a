/** Numbers in short, and the boxes that show one number each with what it was before. */

import { el } from "../core/el.js";
import { usd } from "../core/money.js";

const compactly = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** @param {number} number */
export function compact(number) {
  return compactly.format(number);
}

/** @param {number} sum */
export function wholeUsd(sum) {
  return Number.isInteger(sum) ? `$${compact(sum)}` : usd(sum);
}

/** @param {number} seconds */
export function shortSeconds(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 60) return `${+seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${+(seconds / 60).toFixed(seconds < 600 ? 1 : 0)} m`;
  return `${+(seconds / 3600).toFixed(1)} h`;
}

/**
 * One number, what it was before, and a line; `href` leads to what it counts.
 * @param {string} label
 * @param {import("../core/el.js").Single} value
 * @param {import("../core/el.js").Single[]} sub
 * @param {Node | null} spark
 * @param {string} [href]
 */
export function figure(label, value, sub, spark, href) {
  const shown = href ? el("a", { href }, value) : value;
  return el("div", { class: "figure" },
    el("span", { class: "lab" }, label), el("span", { class: "val" }, shown), el("span", { class: "sub" }, ...sub), spark);
}
