/** Analytics: what chats cost, what they used and how long their turns took. */

import { address, ApiError } from "../core/api.js";
import { el, icon, skeleton } from "../core/el.js";
import * as live from "../core/live.js";
import { count, counted } from "../core/counts.js";
import { usd } from "../core/money.js";
import { link, query, setQuery } from "../core/router.js";
import { computed, effect, onEnd, signal, untracked } from "../core/signals.js";
import { barList, chartCard, sparkline } from "../parts/chart.js";
import { compact, figure, shortSeconds } from "../parts/figures.js";
import { emptyState, failure, frame } from "../parts/frame.js";
import { loadStyle } from "../parts/stylesheet.js";
import {
  GROUPINGS, METRICS, RANGES, dailyValues, fullDay, readQuestion, readReport, rowName, stackedBars, timeLines,
} from "./analytics_data.js";

await loadStyle("gateway");

/** @typedef {import("./analytics_data.js").Report} Report */
/** @typedef {import("./analytics_data.js").Question} Question */
/** @typedef {{ report: Report, before: Report }} Found */

const AGAIN = 3000;
const ROWS = 100;
const TOOLS = 10;

/** @returns {import("../core/router.js").Page} */
export function page() {
  const question = computed(() => readQuestion(query.value));
  const { found, problem, progress, reload } = follow(question);
  const state = computed(() => {
    if (problem.value) return "problem";
    if (!found.value) return "loading";
    return isEmpty(found.value.report) ? "empty" : "content";
  });
  return {
    title: "Analytics",
    body: frame({ title: "Analytics", actions: [csvLink(question)] },
      el("div", { class: "choose" }, groupings(question), el("span", { class: "grow" }), ranges(question)),
      () => {
        if (state.value === "problem") return failure(problem.value, reload);
        if (state.value === "loading") return loading(progress);
        if (state.value === "empty") return nothing();
        return content(found, question);
      }),
  };
}

/**
 * Read what is asked for, again when it is another question, and while turns end.
 * @param {import("../core/signals.js").ReadonlySignal<Question>} question
 */
function follow(question) {
  const found = signal(/** @type {Found | null} */ (null));
  const problem = signal(/** @type {unknown} */ (null));
  /** What part of the history is read, when it is read for the first time; 0 to 1. */
  const progress = signal(0);
  let abort = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  async function read() {
    abort.abort();
    const ours = (abort = new AbortController());
    try {
      const answer = await readReport(question.peek(), ours.signal);
      if (JSON.stringify(answer) !== JSON.stringify(found.peek())) found.value = answer;
      problem.value = null;
    } catch (error) {
      if (ours.signal.aborted) return;
      if (!(error instanceof ApiError)) reportError(error);
      if (!(error instanceof ApiError && error.passing && found.peek())) problem.value = error;
    }
  }
  const asked = computed(() => JSON.stringify({ ...question.value, metric: "" }));
  effect(() => {
    if (asked.value) untracked(() => void read());
  });
  onEnd(live.onGap(() => void read()));
  onEnd(live.on("analyticsProgress", (done, total) => (progress.value = total ? done / total : 0)));
  onEnd(live.on("chatUpdate", (chat) => {
    if (chat.status === "processing" || soon) return;
    soon = setTimeout(() => {
      soon = undefined;
      void read();
    }, AGAIN);
  }));
  onEnd(() => {
    clearTimeout(soon);
    abort.abort();
  });
  return { found, problem, progress, reload: () => void read() };
}

/** @param {Report} report */
function isEmpty({ total }) {
  return !total.turns && !total.cost && !Object.values(total.messages).some(Boolean);
}

/** @param {import("../core/signals.js").ReadonlySignal<number>} progress */
function loading(progress) {
  return el("div", { class: "stack" },
    el("p", { class: "nothing", role: "status", hidden: () => !progress.value },
      () => `The history is read for the first time: ${Math.floor(progress.value * 100)} %`),
    skeleton());
}

function nothing() {
  return emptyState("chart", "Nothing in these days", "What chats cost, the tokens they use and how long their turns take appears here.",
    el("a", { class: "btn main", href: link("/") }, icon("plus"), "New chat"));
}

/** @param {import("../core/signals.js").ReadonlySignal<Question>} question */
function csvLink(question) {
  return el("a", {
    class: "btn", download: "", href: () => {
      const { by, from, to } = question.value;
      return address("/api/analytics", { by, from, to, format: "csv" });
    },
  }, icon("download"), "CSV");
}

/** @param {import("../core/signals.js").ReadonlySignal<Question>} question */
function groupings(question) {
  return el("div", { class: "seg fit", role: "group", "aria-label": "Group by" }, Object.entries(GROUPINGS).map(([by, label]) =>
    el("button", { "aria-pressed": () => String(question.value.by === by),
      onclick: () => setQuery({ by: by === "model" ? null : by, rows: null }) }, label)));
}

/** @param {import("../core/signals.js").ReadonlySignal<Question>} question */
function ranges(question) {
  const custom = signal(question.peek().days === 0);
  /** @param {number} days */
  const choose = (days) => {
    custom.value = false;
    setQuery({ days: days === 30 ? null : String(days), from: null, to: null, rows: null });
  };
  /** @param {"from" | "to"} name */
  const dayInput = (name) => el("input", {
    class: "input day", type: "date", required: true, "aria-label": name === "from" ? "First day" : "Last day",
    value: () => question.value[name],
    onchange: (/** @type {Event} */ event) => {
      const { from, to } = question.peek();
      const value = /** @type {HTMLInputElement} */ (event.target).value;
      if (!value) return;
      const days = { from, to, [name]: value };
      if (days.from > days.to) days.from = days.to = value;
      setQuery({ days: null, rows: null, ...days });
    },
  });
  return el("div", { class: "range" },
    () => (custom.value ? el("span", { class: "days" }, dayInput("from"), "–", dayInput("to")) : null),
    el("div", { class: "seg", role: "group", "aria-label": "Range" },
      RANGES.map((days) =>
        el("button", { "aria-pressed": () => String(!custom.value && question.value.days === days), onclick: () => choose(days) },
          days === 365 ? "1 y" : `${days} d`)),
      el("button", { "aria-pressed": () => String(custom.value), onclick: () => (custom.value = true) }, "Custom")));
}

/**
 * @param {import("../core/signals.js").ReadonlySignal<Found | null>} found
 * @param {import("../core/signals.js").ReadonlySignal<Question>} question
 */
function content(found, question) {
  const first = /** @type {Found} */ (found.peek());
  const last = computed(() => found.value ?? first);
  const report = computed(() => last.value.report);
  const groupLabel = () => GROUPINGS[report.value.by].toLowerCase();
  const title = () => `${METRICS[question.value.metric].label} by ${groupLabel()}`;
  const metrics = el("div", { class: "seg", role: "group", "aria-label": "Bars show" }, Object.entries(METRICS).map(([name, { label }]) =>
    el("button", { "aria-pressed": () => String(question.value.metric === name),
      onclick: () => setQuery({ show: name === "spend" ? null : name }) }, label)));
  return el("div", { class: "loaded" },
    el("div", null, () => figures(last.value)),
    chartCard({ title, controls: metrics, chart: () => stackedBars(report.value, question.value.metric) }),
    el("div", { class: "two even" },
      chartCard({ title: "Time of a turn", chart: () => timeLines(report.value) }),
      el("section", { class: "card" }, el("header", null, el("h2", null, "Tools")), () => tools(report.value))),
    rowTable(report),
    () => notes(report.value));
}

/** @param {Found} found */
function figures({ report, before }) {
  const { total } = report;
  const was = before.total;
  const uses = Object.values(total.tools).reduce((sum, one) => sum + one, 0);
  const favourite = Object.entries(total.tools).sort((one, other) => other[1] - one[1])[0];
  const failed = total.endings["failed"] ?? 0;
  /** @param {(day: import("./analytics_data.js").Day) => number} value */
  const spark = (value) => sparkline(dailyValues(report, value), dailyValues(before, value));
  return el("div", { class: "figures" },
    figure("Spend", usd(total.cost), ["before: ", el("b", null, usd(was.cost))], spark((day) => day.cost)),
    figure("Tokens", compact(total.tokens.input + total.tokens.output),
      [el("b", null, compact(total.tokens.input)), " in · ", el("b", null, compact(total.tokens.output)), " out"],
      spark((day) => day.tokens.input + day.tokens.output)),
    figure("Turns", count(total.turns),
      failed
        ? [el("b", { class: "bad" }, `${count(failed)} failed`), ` · before: ${count(was.turns)}`]
        : ["before: ", el("b", null, count(was.turns))],
      spark((day) => day.turns)),
    figure("Half of the turns within", total.turnSeconds ? shortSeconds(total.turnSeconds.p50) : "–",
      total.turnSeconds ? ["p95 ", el("b", null, shortSeconds(total.turnSeconds.p95))] : ["no turn ended"],
      spark((day) => day.turnSeconds?.p50 ?? 0)),
    figure("Tools used", compact(uses), favourite ? ["most: ", el("b", null, favourite[0])] : ["none"], null));
}

/** @param {Report} report */
function tools({ total }) {
  const rows = Object.entries(total.tools).map(([name, value]) => ({ name, value }))
    .sort((one, other) => other.value - one.value || one.name.localeCompare(other.name));
  if (!rows.length) return el("p", { class: "none" }, "No tool was used in these days.");
  const rest = rows.slice(TOOLS - 1);
  const shown = rows.length <= TOOLS ? rows
    : [...rows.slice(0, TOOLS - 1), { name: `${rest.length} others`, value: rest.reduce((sum, row) => sum + row.value, 0) }];
  return barList(shown, count);
}

/**
 * All rows, in pages.
 * @param {import("../core/signals.js").ReadonlySignal<Report>} report
 */
function rowTable(report) {
  const pages = computed(() => Math.max(1, Math.ceil(report.value.rows.length / ROWS)));
  const at = computed(() => Math.min(pages.value, Math.max(1, Math.trunc(Number(query.value.get("rows"))) || 1)));
  return el("section", { class: "card", "aria-label": "Rows" },
    el("header", null, el("h2", null, () => `By ${GROUPINGS[report.value.by].toLowerCase()}`),
      el("small", { class: "num" }, () => count(report.value.rows.length)),
      el("span", { class: "grow" }), () => pages.value < 2 ? null : el("span", { class: "pager" },
        el("button", { class: "btn small", disabled: () => at.value <= 1, onclick: () => setQuery({ rows: String(at.peek() - 1) }) },
          "Previous"),
        el("span", { class: "num" },
          () => `${count((at.value - 1) * ROWS + 1)}–${count(Math.min(at.value * ROWS, report.value.rows.length))}`),
        el("button", { class: "btn small", disabled: () => at.value >= pages.value,
          onclick: () => setQuery({ rows: String(at.peek() + 1) }) }, "Next"))),
    el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Rows as a table" }, () => {
      const { by, rows } = report.value;
      const ordered = by === "day" ? [...rows].reverse() : rows;
      return el("table", { class: "fold" },
        el("thead", null, el("tr", null, el("th", { scope: "col" }, GROUPINGS[by]),
          ["Spend", "Tokens in", "Tokens out", "Turns", "Failed", "p50", "p95"].map((head) =>
            el("th", { scope: "col", class: "r" }, head)))),
        el("tbody", null, ordered.slice((at.value - 1) * ROWS, at.value * ROWS).map((row) => tableRow(by, row))));
    }));
}

/**
 * @param {import("./analytics_data.js").Grouping} by
 * @param {import("./analytics_data.js").Row} row
 */
function tableRow(by, row) {
  const name = rowName(by, row);
  const { p50 = null, p95 = null } = row.turnSeconds ?? {};
  const failed = row.endings["failed"] ?? 0;
  return el("tr", null,
    el("td", { title: name }, el("bdi", { class: "ell" }, by === "chat" ? el("a", { href: link(`/${row.name}`) }, name) : name)),
    el("td", { class: "r" }, usd(row.cost)),
    el("td", { class: "r not-phone" }, compact(row.tokens.input)), el("td", { class: "r not-phone" }, compact(row.tokens.output)),
    el("td", { class: "fold-only" }, `${compact(row.tokens.input + row.tokens.output)} tokens`),
    el("td", { class: "r" }, count(row.turns), el("span", { class: "only-phone" }, row.turns === 1 ? " turn" : " turns")),
    el("td", { class: failed ? "r not-phone bad" : "r not-phone" }, count(failed)),
    el("td", { class: "r not-phone" }, p50 === null ? "–" : shortSeconds(p50)),
    el("td", { class: "r not-phone" }, p95 === null ? "–" : shortSeconds(p95)));
}

/** @param {Report} report */
function notes({ by, from, to, corrupt }) {
  return el("div", { class: "footnotes" },
    el("p", null, `${fullDay(from)} to ${fullDay(to)}, days in UTC.`,
      by === "label" ? " A chat with several labels counts for each of them." : ""),
    corrupt.length ? el("details", null,
      el("summary", null, `${counted(corrupt.length, "chat")} not counted in full`),
      el("ul", null, corrupt.slice(0, ROWS).map(({ chatId, problem }) =>
        el("li", null, el("a", { href: link(`/${chatId}`) }, `Chat ${chatId}`), `: ${problem}`)))) : null);
}
