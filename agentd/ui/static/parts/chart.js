/**
 * Charts, drawn for their width: stacked bars, lines, sparklines.
 *
 * A chart is read by the keyboard like a slider, place by place, and can be shown as a table.
 */

import { el, fill, svg } from "../core/el.js";
import { computed, effect, onEnd, signal } from "../core/signals.js";

/**
 * @typedef {{ name: string, values: readonly (number | null)[], note?: string }} Series
 *   a value for each place; null: there is none
 * @typedef {{ short: string, full: string }} Place how the axis names it, and how it is named in full
 * @typedef {{ kind: "bars" | "lines", places: readonly Place[], series: readonly Series[],
 *   format: (value: number) => string, mark?: (value: number) => string,
 *   steps?: readonly number[] }} Chart
 *   `mark`: how the axis writes its values, where it is shorter; `steps`: the distances that its
 *   marks may have, where they are not tens
 */

/** More series cannot be told apart; the last one is for the rest. */
export const MOST_SERIES = 6;

const HEIGHT = 240;
const [TOP, BOTTOM] = [10, 24];
const NARROW = 520;

/**
 * A card with a chart, its legend, and the same as a table.
 * @param {{ title: string | (() => string), chart: () => Chart, controls?: import("../core/el.js").Single }} options
 */
export function chartCard({ title, chart, controls }) {
  const asTable = signal(false);
  const isFlat = computed(() => chart().series.every(({ values }) => !values.some(Boolean)));
  const name = typeof title === "function" ? title : () => title;
  return el("section", { class: "card", "aria-label": name },
    el("header", null, el("h2", null, name), el("span", { class: "grow" }), controls ?? null,
      el("button", { class: "btn small plain", "aria-pressed": () => String(asTable.value),
        onclick: () => (asTable.value = !asTable.peek()) },
        "As table")),
    () => {
      if (asTable.value) return chartTable(name, chart);
      return isFlat.value ? el("p", { class: "none" }, "There is nothing to draw: all values are 0.") : chartBox(name, chart);
    },
    () => asTable.value || isFlat.value ? null : legend(chart()));
}

/**
 * @param {() => string} name
 * @param {() => Chart} chart
 */
function chartBox(name, chart) {
  const width = signal(0);
  const active = signal(-1);
  const box = el("div", {
    class: "chartbox", tabindex: 0, role: "slider", "aria-roledescription": "chart", "aria-label": name,
    "aria-valuemin": 0, "aria-valuemax": () => Math.max(0, chart().places.length - 1),
    "aria-valuenow": () => clamp(active.value, chart()), "aria-valuetext": () => describe(chart(), clamp(active.value, chart())),
  });
  const drawing = el("div");
  const tip = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
  box.append(drawing, tip);
  const observer = new ResizeObserver(() => (width.value = Math.round(box.clientWidth)));
  observer.observe(box);
  onEnd(() => observer.disconnect());
  effect(() => {
    if (width.value) fill(drawing, draw(chart(), width.value, active.value));
  });
  effect(() => showTip(tip, chart(), active.value, width.value));
  box.addEventListener("pointermove", (event) => (active.value = placeAt(event, box, chart())));
  box.addEventListener("pointerdown", (event) => (active.value = placeAt(event, box, chart())));
  box.addEventListener("pointerleave", () => (active.value = -1));
  box.addEventListener("blur", () => (active.value = -1));
  box.addEventListener("keydown", (event) => {
    const last = chart().places.length - 1;
    const at = active.peek() < 0 ? last : active.peek();
    const steps = {
      ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, ArrowDown: at - 1,
      Home: 0, End: last, PageUp: at + 7, PageDown: at - 7,
    };
    if (event.key === "Escape") active.value = -1;
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = active.peek() < 0 && event.key.startsWith("Arrow") ? last : steps[/** @type {keyof typeof steps} */ (event.key)];
    active.value = Math.min(last, Math.max(0, next));
  });
  return box;
}

/**
 * @param {number} at
 * @param {Chart} chart
 */
function clamp(at, chart) {
  const last = Math.max(0, chart.places.length - 1);
  return at < 0 ? last : Math.min(at, last);
}

/**
 * What stands at a place, in words.
 * @param {Chart} chart
 * @param {number} at
 */
function describe({ kind, places, series, format }, at) {
  const place = places[at];
  if (!place) return "Nothing";
  const values = series.flatMap((one) => {
    const value = one.values[at];
    return value === null || value === undefined || (kind === "bars" && !value) ? [] : [`${one.name} ${format(value)}`];
  });
  const total = kind === "bars" && series.length > 1 ? ` ${format(sumAt(series, at))}` : "";
  return `${place.full}:${total} ${values.join(", ") || "nothing"}`;
}

/**
 * @param {HTMLElement} tip
 * @param {Chart} chart
 * @param {number} at
 * @param {number} width
 */
function showTip(tip, chart, at, width) {
  const place = at < 0 ? undefined : chart.places[at];
  tip.hidden = !place;
  if (!place) return;
  const { kind, series, format } = chart;
  const total = kind === "bars" ? ` · ${format(sumAt(series, at))}` : "";
  fill(tip, el("b", null, place.full + total), series.flatMap((one, index) => {
    const value = one.values[at];
    if (value === null || value === undefined || (kind === "bars" && (!value || series.length === 1))) return [];
    return [el("div", null, el("i", { class: `f${index + 1}` }), el("em", null, one.name), el("span", null, format(value)))];
  }));
  const { left, step } = frameOf(chart, width);
  const middle = left + step * (at + 0.5);
  const room = middle + step / 2 + 6 + tip.offsetWidth <= width;
  tip.style.left = `${Math.max(0, room ? middle + step / 2 + 6 : middle - step / 2 - 6 - tip.offsetWidth)}px`;
}

/**
 * @param {PointerEvent} event
 * @param {HTMLElement} box
 * @param {Chart} chart
 */
function placeAt(event, box, chart) {
  const { left, step } = frameOf(chart, box.clientWidth);
  const at = Math.floor((event.clientX - box.getBoundingClientRect().left - left) / step);
  return Math.min(chart.places.length - 1, Math.max(-1, at));
}

/**
 * Where the places are, and how high what is.
 * @param {Chart} chart
 * @param {number} width
 */
function frameOf({ kind, places, series, format, mark = format, steps = [] }, width) {
  const highest = places.reduce((most, _, at) => Math.max(most, kind === "bars" ? sumAt(series, at)
    : series.reduce((found, one) => Math.max(found, one.values[at] ?? 0), 0)), 0);
  const ticks = ticksTo(highest, steps);
  const top = ticks.at(-1) ?? 1;
  const left = Math.max(...ticks.map((tick) => mark(tick).length)) * 6.3 + 22;
  const right = 14;
  return {
    ticks, left, right: width - right, step: (width - left - right) / Math.max(1, places.length),
    /** @param {number} value */
    y: (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM),
  };
}

/**
 * Round marks from nothing to at least the highest value.
 * @param {number} highest
 * @param {readonly number[]} steps
 */
function ticksTo(highest, steps) {
  const rough = (highest || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = steps.find((one) => one >= rough) ?? power * ([1, 2, 2.5, 5, 10].find((one) => one * power >= rough - power * 1e-9) ?? 10);
  return Array.from({ length: Math.ceil((highest || 1) / step - 1e-9) + 1 }, (_, index) => index * step);
}

/**
 * @param {Chart} chart
 * @param {number} width
 * @param {number} active
 */
function draw(chart, width, active) {
  const at = frameOf(chart, width);
  const { places } = chart;
  const every = Math.max(1, Math.ceil(places.length / (width < NARROW ? 4 : 7)));
  const last = places.length - 1;
  return svg("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true" },
    at.ticks.map((tick) => [
      svg("line", { class: "grid", x1: at.left, x2: at.right, y1: at.y(tick), y2: at.y(tick) }),
      svg("text", { x: at.left - 8, y: at.y(tick) + 4, "text-anchor": "end" }, (chart.mark ?? chart.format)(tick)),
    ]).flat(),
    active >= 0
      ? svg("rect", { class: "today", x: at.left + active * at.step, y: TOP, width: at.step, height: HEIGHT - TOP - BOTTOM })
      : null,
    chart.kind === "bars" ? drawBars(chart, at) : drawLines(chart, at, active),
    places.flatMap(({ short }, index) => {
      const shown = index === last || (index % every === 0 && last - index >= every * 0.7);
      return shown ? [svg("text", { x: index === last ? at.right : at.left + (index + 0.5) * at.step, y: HEIGHT - 6,
        "text-anchor": index === last ? "end" : index === 0 ? "start" : "middle" }, short)] : [];
    }));
}

/**
 * @param {Chart} chart
 * @param {ReturnType<typeof frameOf>} frame
 */
function drawBars({ places, series }, { left, step, y }) {
  const thick = Math.max(1, Math.min(28, step * 0.74));
  return places.flatMap((_, at) => {
    let below = 0;
    return series.flatMap((one, index) => {
      const value = one.values[at] ?? 0;
      if (value <= 0) return [];
      const [from, to] = [y(below), y(below + value)];
      const gap = below && from - to > 2 ? 1 : 0;
      below += value;
      return [svg("rect", { class: `f${index + 1}`, x: left + (at + 0.5) * step - thick / 2, y: to, width: thick,
        height: Math.max(0.75, from - to - gap), rx: Math.min(1.5, thick / 4) })];
    });
  });
}

/**
 * @param {Chart} chart
 * @param {ReturnType<typeof frameOf>} frame
 * @param {number} active
 */
function drawLines({ places, series }, { left, step, y }, active) {
  return series.flatMap((one, index) => {
    let path = "";
    let before = -1;
    const dots = places.flatMap((_, at) => {
      const value = one.values[at];
      if (value === null || value === undefined) return [];
      const x = left + (at + 0.5) * step;
      path += `${path ? "L" : "M"}${x.toFixed(1)} ${y(value).toFixed(1)}`;
      const alone = before < 0 && !one.values.slice(at + 1).some((later) => typeof later === "number");
      before = at;
      return at === active || alone ? [svg("circle", { class: `f${index + 1}`, cx: x, cy: y(value), r: 3.5 })] : [];
    });
    return [svg("path", { class: `line f${index + 1}`, d: path || "M0 0" }), ...dots];
  });
}

/** @param {Chart} chart */
function legend({ kind, series, format }) {
  if (series.length < 2 && kind === "bars") return null;
  return el("ul", { class: "legend" }, series.map((one, index) => el("li", null, el("i", { class: `f${index + 1}` }),
    el("span", null, one.name),
    el("b", null, one.note ?? format(one.values.reduce((/** @type {number} */ sum, value) => sum + (value ?? 0), 0))))));
}

/**
 * @param {() => string} name
 * @param {() => Chart} chart
 */
function chartTable(name, chart) {
  return el("div", { class: "table chart-table", tabindex: 0, role: "region", "aria-label": () => `${name()}, as a table` }, () => {
    const { kind, places, series, format } = chart();
    const total = kind === "bars" && series.length > 1;
    return el("table", null,
      el("thead", null, el("tr", null, el("th", { scope: "col" }, "Day"), total ? el("th", { scope: "col", class: "r" }, "All") : null,
        series.map((one) => el("th", { scope: "col", class: "r" }, one.name)))),
      el("tbody", null, places.map((place, at) => el("tr", null, el("th", { scope: "row" }, place.full),
        total ? el("td", { class: "r" }, format(sumAt(series, at))) : null,
        series.map((one) => el("td", { class: "r" }, cell(one.values[at], format)))))));
  });
}

/**
 * @param {number | null | undefined} value
 * @param {(value: number) => string} format
 */
function cell(value, format) {
  return value === null || value === undefined ? "–" : format(value);
}

/**
 * @param {readonly Series[]} series
 * @param {number} at
 */
function sumAt(series, at) {
  return series.reduce((sum, one) => sum + (one.values[at] ?? 0), 0);
}

/**
 * A line without axes, over the one of before in grey; said elsewhere in words.
 * @param {readonly number[]} values
 * @param {readonly number[]} [before]
 */
export function sparkline(values, before = []) {
  const highest = Math.max(...values, ...before, 0) || 1;
  const places = Math.max(values.length, before.length, 2) - 1;
  /** @param {readonly number[]} line */
  const points = (line) => line.map((value, at) => `${((at / places) * 100).toFixed(2)} ${(27 - (value / highest) * 24).toFixed(2)}`);
  const now = points(values);
  return svg("svg", { class: "spark", viewBox: "0 0 100 28", preserveAspectRatio: "none", "aria-hidden": "true" },
    before.length ? svg("path", { class: "was", "vector-effect": "non-scaling-stroke", d: `M${points(before).join("L")}` }) : null,
    now.length ? svg("path", { class: "now", "vector-effect": "non-scaling-stroke", d: `M${now.join("L")}` }) : null,
    now.length ? svg("path", { class: "end", d: `M${now.at(-1)}h0` }) : null);
}

/**
 * Bars beside names, the longest the whole width.
 * @param {readonly { name: string, value: number }[]} rows
 * @param {(value: number) => string} format
 */
export function barList(rows, format) {
  const most = Math.max(...rows.map((row) => row.value), 0) || 1;
  return el("ul", { class: "barlist" }, rows.map(({ name, value }) => el("li", null,
    el("span", { title: name }, name),
    svg("svg", { "aria-hidden": "true" }, svg("rect", { class: "bg", width: "100%", height: "100%", rx: 3 }),
      svg("rect", { class: "f1", width: `${((value / most) * 100).toFixed(2)}%`, height: "100%", rx: 3 })),
    el("b", null, format(value)))));
}
