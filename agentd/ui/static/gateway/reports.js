/** All reports: a chart of the rows, the rows, each leading to its requests, and CSV. */

import { get } from "../core/api.js";
import { el } from "../core/el.js";
import { count } from "../core/counts.js";
import { usd } from "../core/money.js";
import { link, navigate, query, setQuery } from "../core/router.js";
import { computed, signal } from "../core/signals.js";
import { barList, chartCard } from "../parts/chart.js";
import { compact, shortSeconds, wholeUsd } from "../parts/figures.js";
import { emptyState } from "../parts/frame.js";
import { following, forAdministrators, gatewayFrame, part, requestsLink, shown } from "./frame.js";
import { forecast, limitsLink, placeOf, requestsOf, windowWords } from "./overview_data.js";
import { spanChooser, spanOf } from "./range.js";
import { csvButton } from "./report_csv.js";
import { filterPills, filtersOf } from "./report_filters.js";
import { learnZone } from "./today.js";

/** @typedef {{ label: string, value: (row: any) => import("../core/el.js").Single, left?: boolean, phone?: boolean }} Column */
/**
 * @typedef {{ label: string, name: (row: any) => string, columns: readonly Column[], bars?: (row: any) => number,
 *   format?: (value: number) => string, by?: readonly string[], filters?: readonly import("./report_filters.js").FilterName[],
 *   kind?: "days" | "lines" | "limits",
 *   filter?: (row: any, span: import("./range.js").Span) => Record<string, string> | null }} Report
 */

const AT_ONCE = 100;
const FILTERED = /** @type {const} */ (["key", "owner", "tag", "model", "channel"]);
const BARS = 12;
const share = (/** @type {number | null} */ part_) => (part_ === null ? "–" : `${+(part_ * 100).toFixed(1)} %`);
const ms = (/** @type {number | null} */ value) => (value === null ? "–" : shortSeconds(value / 1000));
const days = (/** @type {import("./range.js").Span} */ { from, to }) => ({ from, to });

/** @type {readonly Column[]} */
const SPEND = [
  { label: "Cost", value: (row) => usd(row.cost), phone: true }, { label: "Requests", value: (row) => count(row.requests) },
  { label: "Not ok", value: (row) => count(row.requests - row.ok) },
  { label: "In", value: (row) => compact(row.input + row.cacheRead + row.cacheWrite) },
  { label: "Out", value: (row) => compact(row.output + row.reasoning) },
  { label: "From cache", value: (row) => share(row.cacheShare) }, { label: "Secrets", value: (row) => count(row.hidden) },
];
const cost = { bars: (/** @type {any} */ row) => row.cost, format: usd };
const nameOf = (/** @type {any} */ row) => row.title || row.name;
const groupName = (/** @type {any} */ row) => row.name || "none";
const quantiles = (/** @type {"latency" | "firstToken"} */ which, /** @type {string} */ label) =>
  /** @type {const} */ (["p50", "p95", "p99"]).map((name) => ({
    label: `${label} ${name}`, value: (/** @type {any} */ row) => ms(row[which][name]),
    phone: name === "p50" && which === "firstToken",
  }));

/** @type {Record<string, Report>} */
export const REPORTS = {
  "by-day": { label: "By day", name: nameOf, columns: SPEND, kind: "days", ...cost, filter: (row) => ({ from: row.name, to: row.name }) },
  "by-hour": { label: "By hour", name: (row) => `${row.name.slice(0, 10)} ${row.name.slice(11)}:00`, columns: SPEND, kind: "days",
    ...cost },
  "by-model": { label: "By model", name: nameOf, columns: SPEND, ...cost,
    filter: (row, span) => (row.name ? { model: row.name, ...days(span) } : null) },
  "by-channel": { label: "By channel", name: nameOf, columns: SPEND, ...cost,
    filter: (row, span) => (row.name ? { channel: row.name, ...days(span) } : null) },
  "by-key": { label: "By key", name: nameOf, columns: SPEND, ...cost,
    filter: (row, span) => (row.name ? { key: row.name, ...days(span) } : null) },
  "by-owner": { label: "By owner", name: groupName, columns: SPEND, ...cost,
    filter: (row, span) => (row.name ? { owner: row.name, ...days(span) } : null) },
  "by-tag": { label: "By tag", name: groupName, columns: SPEND, ...cost,
    filter: (row, span) => (row.name ? { tag: row.name, ...days(span) } : null) },
  "top-spenders": { label: "Top spenders", name: (row) => row.title || row.key, ...cost,
    filter: (row, span) => (row.key ? { key: row.key, ...days(span) } : null),
    columns: [{ label: "Cost", value: (row) => usd(row.cost), phone: true }, { label: "Share", value: (row) => share(row.share) },
      { label: "Requests", value: (row) => count(row.requests) }] },
  "totals": { label: "Totals", name: () => "All requests", columns: SPEND, filter: (_, span) => days(span) },
  "errors": { label: "Errors", name: (row) => row.error, bars: (row) => row.requests, format: count,
    columns: [{ label: "Requests", value: (row) => count(row.requests), phone: true }],
    filter: (row, span) => ({ error: row.error, ...days(span) }) },
  "latency": { label: "Latency", name: nameOf, by: ["model", "channel", "owner", "tag", "day", "hour", "total"], kind: "lines",
    bars: (row) => (row.firstToken.p50 ?? 0) / 1000, format: shortSeconds,
    columns: [{ label: "Answers", value: (row) => count(row.answers) }, ...quantiles("firstToken", "First token"),
      ...quantiles("latency", "End")] },
  "cache-share": { label: "Cache share", name: nameOf, by: ["model", "channel", "key", "owner", "tag", "day", "hour", "total"],
    bars: (row) => row.cacheShare ?? 0, format: (value) => share(value),
    columns: [{ label: "From cache", value: (row) => share(row.cacheShare), phone: true },
      { label: "Requests", value: (row) => count(row.requests) }, { label: "In, anew", value: (row) => compact(row.input) },
      { label: "In, from cache", value: (row) => compact(row.cacheRead) },
      { label: "In, to cache", value: (row) => compact(row.cacheWrite) }] },
  "leaks": { label: "Leaks", name: (row) => `${row.day} · ${row.title || row.key || "no known key"}`, filters: ["key", "owner", "tag"],
    columns: [{ label: "Rule", value: (row) => row.rule, left: true, phone: true }, { label: "Found", value: (row) => count(row.count) }],
    filter: (row) => ({ ...(row.key ? { key: row.key } : {}), rule: row.rule, from: row.day, to: row.day }) },
  "soft-limits": { label: "Soft limits passed", name: (row) => row.name, kind: "limits", filters: [],
    filter: (row) => requestsOf({ ...row, title: row.name }),
    columns: [{ label: "Of", value: (row) => (row.model ? `model ${row.model}` : row.scope), left: true },
      { label: "Spent", value: (row) => `${usd(row.spent)} of ${usd(row.limit)} ${windowWords(row.window)}`, phone: true },
      { label: "Raise it", value: (row) => el("a", { href: link(limitsLink(row)) }, row.budget ? "Budget" : "Access key"), left: true }] },
  "limits": { label: "Limits", name: (row) => (row.scope === "model" ? `${row.title}, ${row.model}` : row.title),
    kind: "limits", by: ["key", "owner", "tag"], filters: ["owner", "tag"],
    filter: requestsOf,
    columns: [{ label: "Used", value: (row) => `${usd(row.used)} of ${usd(row.limit)} ${windowWords(row.window)}`, phone: true },
      { label: "Reserved", value: (row) => usd(row.reserved) }, { label: "Forecast", value: (row) => forecast(row), left: true }] },
};

export const page = forAdministrators("Reports", (params) => {
  const name = params["name"] && Object.hasOwn(REPORTS, params["name"]) ? params["name"] : "by-model";
  const report = /** @type {Report} */ (REPORTS[name]);
  const span = spanOf(30);
  const by = computed(() => {
    const given = query.value.get("by") ?? "";
    return report.by?.includes(given) ? given : report.by?.[0] ?? "";
  });
  const names = report.filters ?? FILTERED;
  const narrowed = filtersOf(names);
  const most = signal(AT_ONCE);
  const asked = computed(() => {
    return { ...(report.kind === "limits" ? {} : days(span.value)), ...(by.value ? { by: by.value } : {}), ...narrowed.value };
  });
  const path = `/api/agent/reports/${name}`;
  const reading = following(async (abort) => {
    /** @type {any} */
    let found = null;
    do {
      const next = await get(path, { ...asked.peek(), limit: AT_ONCE, cursor: found?.next }, abort);
      learnZone(next.zone);
      found = found ? { ...next, items: [...found.items, ...next.items] } : next;
    } while (found.next && found.items.length < most.peek());
    return found;
  }, { every: 10_000, asked: () => asked.value });
  const more = () => {
    most.value += AT_ONCE;
    void reading.reload();
  };
  const choose = el("select", { class: "input report-name", "aria-label": "Report",
    onchange: () => void navigate(`/gateway/reports/${choose.value}${location.search}`) },
    Object.entries(REPORTS).map(([one, { label }]) => el("option", { value: one }, label)));
  choose.value = name;
  return {
    title: report.label,
    body: gatewayFrame({ title: "Reports", actions: [
      csvButton(path, () => ({ ...asked.peek(), limit: name === "limits" ? 200 : 1000 })),
    ] },
    el("div", { class: "choose reports" }, choose,
      report.by ? el("div", { class: "seg", role: "group", "aria-label": "Rows are" }, report.by.map((one) =>
        el("button", { "aria-pressed": () => String(by.value === one), onclick: () => setQuery({ by: one }) }, one))) : null,
      names.length ? filterPills(names, narrowed) : null, el("span", { class: "grow" }),
      report.kind === "limits" ? null : spanChooser(span, 30)),
    shown(reading, (latest) => el("div", { class: "loaded" },
      chart(report, by, latest),
      part(() => latest.value, (found) => table(report, found, span.peek(), more))))),
  };
});

/**
 * @param {Report} report
 * @param {import("../core/signals.js").ReadonlySignal<string>} by
 * @param {import("../core/signals.js").ReadonlySignal<any>} latest
 */
function chart(report, by, latest) {
  const isTime = () => report.kind === "days" || (report.kind === "lines" && (by.value === "day" || by.value === "hour"));
  const places = () => latest.value.items.map((/** @type {any} */ row) => placeOf(row.name, latest.value.to));
  const { bars, format = count } = report;
  return el("div", { class: "loaded" }, () => {
    if (!latest.value.items.length || !bars) return null;
    if (report.kind === "lines" && isTime()) {
      const values = (/** @type {string} */ name) => latest.value.items
        .map((/** @type {any} */ row) => (row.firstToken[name] === null ? null : row.firstToken[name] / 1000));
      const line = (/** @type {string} */ name) => ({ name, note: ms(latest.value.total.firstToken[name]), values: values(name) });
      return chartCard({ title: "First token", chart: () => ({
        kind: "lines", format: shortSeconds, places: places(), series: ["p50", "p95", "p99"].map(line),
      }) });
    }
    if (isTime()) {
      return chartCard({ title: report.label, chart: () => ({
        kind: "bars", format, mark: wholeUsd, places: places(), series: [{ name: "Cost", values: latest.value.items.map(bars) }],
      }) });
    }
    const rows = latest.value.items.slice(0, BARS).map((/** @type {any} */ row) => ({ name: report.name(row) || "–", value: bars(row) }));
    return el("section", { class: "card", "aria-label": "Chart" }, el("header", null, el("h2", null, report.label)), barList(rows, format));
  });
}

/** @param {Report} report @param {any} found @param {import("./range.js").Span} span @param {() => void} more */
function table(report, found, span, more) {
  if (!found.items.length) {
    return emptyState("chart", report.kind === "limits" ? "There is no such limit in USD" : "Nothing in these days",
      report.kind === "limits"
        ? "Limits stand with each access key, and with the budgets of owners and tags."
        : "What the gateway carried appears here.",
      el("a", { class: "btn", href: link("/gateway/keys") }, "Access keys"));
  }
  const total = typeof found.total === "object" && found.items.length > 1 ? found.total : null;
  return el("section", { class: "card", "aria-label": "Rows" },
    el("header", null, el("h2", null, "Rows"),
      el("small", { class: "num" }, found.next ? `the first ${count(found.items.length)}` : count(found.items.length)),
      el("span", { class: "grow" }),
      typeof found.total === "number"
        ? el("small", { class: "num" },
          `${found.total % 1 || report.label === "Top spenders" ? usd(found.total) : count(found.total)} in all`)
        : null),
    el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Rows as a table" }, el("table", { class: "fold" },
      el("thead", null, el("tr", null, el("th", { scope: "col" }, report.label),
        report.columns.map((column) => el("th", { scope: "col", class: column.left ? "" : "r" }, column.label)))),
      el("tbody", null, found.items.map((/** @type {any} */ row) => tableRow(report, row, span)),
        total
          ? el("tr", { class: "total" }, el("th", { scope: "row" }, "All"),
            report.columns.map((column) => el("td", { class: cellClass(column) }, column.value(total))))
          : null))),
    found.next ? el("button", { class: "btn more-rows", onclick: more }, `Show ${AT_ONCE} more`) : null);
}

/** @param {Column} column */
function cellClass({ left, phone }) {
  return `${left ? "wrap" : "r"}${phone ? "" : " not-phone"}`;
}

/** @param {Report} report @param {any} row @param {import("./range.js").Span} span */
function tableRow(report, row, span) {
  const filters = report.filter?.(row, span);
  const name = el("bdi", { class: "ell" }, report.name(row) || "–");
  return el("tr", null, el("td", null, filters ? el("a", { href: requestsLink(filters) }, name) : name),
    report.columns.map((column) => el("td", { class: cellClass(column) }, column.value(row))));
}
