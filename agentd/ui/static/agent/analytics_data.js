/** What the analytics page asks for, and its numbers as series for charts. */

import { get } from "../core/api.js";
import { count } from "../core/counts.js";
import { usd } from "../core/money.js";
import { now } from "../core/time.js";
import { MOST_SERIES } from "../parts/chart.js";
import { compact, shortSeconds, wholeUsd } from "../parts/figures.js";

/**
 * @typedef {{ input: number, output: number }} Tokens
 * @typedef {{ p50: number, p95: number }} TurnTime
 * @typedef {{ day: string, tokens: Tokens, cost: number, turns: number, turnSeconds: TurnTime | null }} Day
 * @typedef {{ name: string, title: string, tokens: Tokens, cost: number, turns: number,
 *   messages: Record<string, number>, endings: Record<string, number>, turnSeconds: TurnTime | null,
 *   tools: Record<string, number>, days: Day[] | null }} Row
 * @typedef {{ by: Grouping, from: string, to: string, total: Row, rows: Row[],
 *   corrupt: { chatId: number, problem: string }[] }} Report
 * @typedef {keyof typeof GROUPINGS} Grouping
 * @typedef {keyof typeof METRICS} Metric
 * @typedef {{ by: Grouping, metric: Metric, days: number, from: string, to: string }} Question
 */

const DAY = 86_400_000;
/** Seconds between two marks of an axis of time. */
const STEPS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400];
export const RANGES = [7, 30, 90, 365];
const LONGEST = 3660;

/** What rows can be, and the head of their column. */
export const GROUPINGS = { model: "Model", engine: "Engine", skill: "Skill", label: "Label", chat: "Chat", key: "Who", day: "Day" };

/** What the bars show. */
export const METRICS = {
  spend: { label: "Spend", value: (/** @type {Day} */ day) => day.cost, format: usd, mark: wholeUsd },
  tokens: { label: "Tokens", value: (/** @type {Day} */ day) => day.tokens.input + day.tokens.output, format: compact, mark: compact },
  turns: { label: "Turns", value: (/** @type {Day} */ day) => day.turns, format: count, mark: compact },
};

const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const full = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
const long = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });

/** @param {string} day */
export function fullDay(day) {
  return long.format(Date.parse(day));
}

/**
 * What an address asks for; what it says wrong is left out.
 * @param {URLSearchParams} query
 * @returns {Question}
 */
export function readQuestion(query) {
  const by = query.get("by") ?? "";
  const metric = query.get("show") ?? "";
  const [from, to] = [parseDay(query.get("from")), parseDay(query.get("to"))];
  const found = {
    by: /** @type {Grouping} */ (Object.hasOwn(GROUPINGS, by) ? by : "model"),
    metric: /** @type {Metric} */ (Object.hasOwn(METRICS, metric) ? metric : "spend"),
  };
  if (from && to && from <= to && daysBetween(from, to) <= LONGEST) return { ...found, days: 0, from, to };
  const given = Number(query.get("days"));
  const days = RANGES.includes(given) ? given : 30;
  const today = toDay(now());
  return { ...found, days, from: addDays(today, 1 - days), to: today };
}

/**
 * The report, and the totals of as many days before it.
 * @param {Question} question
 * @param {AbortSignal} abort
 * @returns {Promise<{ report: Report, before: Report }>}
 */
export async function readReport({ by, from, to }, abort) {
  const length = daysBetween(from, to);
  const [report, before] = await Promise.all([
    get("/api/analytics", { by, from, to, daily: true }, abort),
    get("/api/analytics", { by: "day", from: addDays(from, -length), to: addDays(from, -1), daily: true }, abort),
  ]);
  return { report, before };
}

/**
 * A value for each day, 0 where nothing happened.
 * @param {Report} report
 * @param {(day: Day) => number} value
 */
export function dailyValues(report, value) {
  const known = new Map((report.total.days ?? []).map((day) => [day.day, value(day)]));
  return allDays(report).map((day) => known.get(day) ?? 0);
}

/**
 * Bars by day, or by more days where there are too many; the rows with the most, and the rest.
 * @param {Report} report
 * @param {Metric} metric
 * @returns {import("../parts/chart.js").Chart}
 */
export function stackedBars(report, metric) {
  const { label, value, format, mark } = METRICS[metric];
  const days = allDays(report);
  const wide = days.length <= 62 ? 1 : days.length <= 430 ? 7 : Math.ceil(days.length / 60);
  const at = new Map(days.map((day, index) => [day, Math.floor(index / wide)]));
  const places = Math.ceil(days.length / wide);
  const rows = report.by === "day" ? [] : report.rows.map((row) => ({ row, sum: sumOf(row.days ?? [], value) }))
    .filter(({ sum }) => sum > 0).sort((one, other) => other.sum - one.sum).map(({ row }) => row);
  const named = rows.length > MOST_SERIES ? rows.slice(0, MOST_SERIES - 1) : rows;
  const rest = rows.slice(named.length);
  /** @param {readonly Row[]} members */
  const add = (members) => {
    const values = Array.from({ length: places }, () => 0);
    for (const row of members) {
      for (const day of row.days ?? []) {
        const index = at.get(day.day);
        if (index !== undefined) values[index] = (values[index] ?? 0) + value(day);
      }
    }
    return values;
  };
  const series = named.map((row) => ({ name: rowName(report.by, row), values: add([row]) }));
  if (rest.length) series.push({ name: `${count(rest.length)} others`, values: add(rest) });
  if (!series.length) series.push({ name: label, values: add([report.total]) });
  return {
    kind: "bars", series, format, mark,
    places: Array.from({ length: places }, (_, index) => placeOf(days.slice(index * wide, (index + 1) * wide))),
  };
}

/**
 * How long turns took, day by day.
 * @param {Report} report
 * @returns {import("../parts/chart.js").Chart}
 */
export function timeLines(report) {
  const known = new Map((report.total.days ?? []).map((day) => [day.day, day.turnSeconds]));
  const days = allDays(report);
  const { turnSeconds } = report.total;
  return {
    kind: "lines", format: shortSeconds, steps: STEPS, places: days.map((day) => placeOf([day])),
    series: [
      { name: "Half of the turns (p50)", values: days.map((day) => known.get(day)?.p50 ?? null),
        note: turnSeconds ? shortSeconds(turnSeconds.p50) : "–" },
      { name: "95 of 100 (p95)", values: days.map((day) => known.get(day)?.p95 ?? null),
        note: turnSeconds ? shortSeconds(turnSeconds.p95) : "–" },
    ],
  };
}

/**
 * How a row is called.
 * @param {Grouping} by
 * @param {Row} row
 */
export function rowName(by, row) {
  if (by === "day") return fullDay(row.name);
  if (by === "chat") return row.title || `Chat ${row.name}`;
  if (by === "skill" && row.name === "none") return "No skill";
  if (row.name) return row.name;
  return by === "model" ? "Default model" : by === "engine" ? "Outside turns" : "None";
}

/** @param {readonly Day[]} days @param {(day: Day) => number} value */
function sumOf(days, value) {
  return days.reduce((sum, day) => sum + value(day), 0);
}

/** @param {readonly string[]} days */
function placeOf(days) {
  const [first, last] = [Date.parse(days[0] ?? ""), Date.parse(days.at(-1) ?? "")];
  return { short: short.format(first), full: days.length > 1 ? `${short.format(first)} – ${long.format(last)}` : full.format(first) };
}

/** @param {Report} report */
function allDays({ from, to }) {
  return Array.from({ length: daysBetween(from, to) }, (_, index) => addDays(from, index));
}

/** @param {string | null} text */
function parseDay(text) {
  return text && /^[12]\d{3}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) && toDay(Date.parse(text)) === text ? text : "";
}

/** @param {string} from @param {string} to */
function daysBetween(from, to) {
  return Math.round((Date.parse(to) - Date.parse(from)) / DAY) + 1;
}

/** @param {string} day @param {number} more */
function addDays(day, more) {
  return toDay(Date.parse(day) + more * DAY);
}

/** @param {number} moment */
function toDay(moment) {
  return new Date(moment).toISOString().slice(0, 10);
}
