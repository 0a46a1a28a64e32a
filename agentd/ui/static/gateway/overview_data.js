/** What the overview reads, and its numbers as series for charts. */

import { get } from "../core/api.js";
import { count } from "../core/counts.js";
import { inCurrency, usd } from "../core/money.js";
import { query } from "../core/router.js";
import { clockTime, now } from "../core/time.js";
import { compact, wholeUsd } from "../parts/figures.js";
import { ALERT_TITLES, addDays } from "./frame.js";
import { dayIn, learnZone } from "./today.js";

/**
 * @typedef {{ name: string, title: string, requests: number, ok: number, input: number, output: number, cost: number, hidden: number,
 *   reasoning: number, cacheRead: number, cacheWrite: number }} Line
 * @typedef {{ items: Line[], total: Line }} Spend
 * @typedef {{ key: string, title: string, window: string, limit: number, used: number, reserved: number, resets: string | null,
 *   daysLeft: number | null, lasts: boolean, scope: string, model: string, budget: string }} Burn
 * @typedef {{ hour: number, requests: number, ok: number, cost: number, secrets: number, firstToken: number | null }} Hour
 * @typedef {{ name: string, enabled: boolean, requests: number, ok: number, firstToken: number | null }} ChannelToday
 * @typedef {{ at: string, day: string, zone: string, summary: any, yesterday: any,
 *   firstToken: { p50: number | null, p95: number | null, p99: number | null }, hours: Hour[], yesterdayHours: Hour[],
 *   channels: ChannelToday[], limits: Burn[], softLimits: import("../api.d.ts").PassedSoftLimitView[],
 *   disabledChannels: import("../api.d.ts").DisabledChannelView[], lowBalances: import("../api.d.ts").LowBalanceView[],
 *   firing: import("../api.d.ts").FiringAlertView[], shownLimits: { of: string, items: Burn[] }, latest: any[] }} Overview
 */

/** Days within which a limit that is used up needs attention. */
const SOON = 7;
/** Shown of the limits that need attention. */
const MOST = 8;

/** @param {AbortSignal} abort @returns {Promise<Overview>} */
export async function readOverview(abort) {
  const of = limitsShown();
  const [overview, limits] = await Promise.all([
    get("/api/agent/overview", {}, abort),
    of ? get("/api/agent/reports/limits", { by: of, limit: 200, enabled: true }, abort) : null,
  ]);
  const { at, zone } = overview.summary;
  learnZone(zone);
  return {
    ...overview, at: at.slice(0, 16), zone, summary: { ...overview.summary, at: "" },
    shownLimits: { of, items: limits?.items ?? overview.limits },
  };
}

/**
 * A value for each hour of a day up to now; the whole day, when it is over.
 * @param {Pick<Overview, "hours" | "yesterdayHours" | "at" | "zone">} overview
 * @param {"today" | "yesterday"} which
 * @param {(hour: Hour) => number} value
 */
export function hourly({ hours, yesterdayHours, at, zone }, which, value) {
  const known = new Map((which === "today" ? hours : yesterdayHours).map((hour) => [hour.hour, value(hour)]));
  return Array.from({ length: which === "today" ? hourIn(Date.parse(`${at}Z`), zone) + 1 : 24 }, (_, hour) => known.get(hour) ?? 0);
}

/** @param {number} moment @param {string} zone */
function hourIn(moment, zone) {
  return Number(new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "2-digit", hourCycle: "h23" }).format(moment));
}

/** @param {readonly number[]} values */
export function addUp(values) {
  let sum = 0;
  return values.map((value) => (sum += value));
}

/** The spans of the chart, by the number of their days. */
export const SPANS = /** @type {Record<number, string>} */ ({ 1: "24 h", 7: "7 d", 30: "30 d", 90: "90 d" });

/** What spend can be shown by, and what it is called where there is none of them. */
export const SPENT_BY = /** @type {const} */ ({ model: "all models", owner: "no owner", tag: "no tag" });

/** What limits can be shown of; all: those that are used up the most. */
export const LIMITS_OF = /** @type {Record<string, string>} */ ({ "": "All", key: "Keys", owner: "Owners", tag: "Tags" });

/** Which of them the address asks for. */
export function limitsShown() {
  const given = query.value.get("limits") ?? "";
  return Object.hasOwn(LIMITS_OF, given) ? given : "";
}

/**
 * What models, owners or tags cost, hour by hour or day by day: the five dearest, and the rest.
 *
 * A request counts in each tag of its key, so there is no rest of tags.
 * @param {keyof typeof SPENT_BY} what
 * @param {number} days
 * @param {string} zone
 * @param {number} moment
 * @param {AbortSignal} abort
 * @returns {Promise<import("../parts/chart.js").Chart>}
 */
export async function readSpend(what, days, zone, moment, abort) {
  const to = dayIn(moment, zone);
  const from = addDays(to, 1 - days);
  const by = days === 1 ? "by-hour" : "by-day";
  const read = (/** @type {string} */ name, /** @type {any} */ more = {}) =>
    get(`/api/agent/reports/${name}`, { from, to, limit: 1000, ...more }, abort);
  const [found, all] = await Promise.all([read(`by-${what}`, { limit: 7 }), read(by)]);
  const dear = found.items.filter((/** @type {Line} */ line) => line.cost > 0 && (line.name || what === "model"));
  const named = dear.slice(0, what === "owner" || dear.length > 6 ? 5 : 6);
  const each = await Promise.all(named.map((/** @type {Line} */ line) => read(by, { [what]: line.name })));
  const names = days === 1 ? Array.from({ length: 24 }, (_, hour) => `${to}T${String(hour).padStart(2, "0")}`)
    : Array.from({ length: days }, (_, index) => addDays(from, index));
  const values = (/** @type {Spend} */ report) => {
    const known = new Map(report.items.map((line) => [line.name, line.cost]));
    return names.map((name) => known.get(name) ?? 0);
  };
  const series = named.map((/** @type {Line} */ line, /** @type {number} */ index) =>
    ({ name: line.name || "unknown model", values: values(each[index]) }));
  const places = names.map((name) => placeOf(name, to));
  if (what === "tag" && series.length) return { kind: "lines", series, format: usd, mark: wholeUsd, places };
  const rest = values(all).map((sum, place) =>
    Math.max(0, sum - series.reduce((/** @type {number} */ others, /** @type {any} */ one) => others + one.values[place], 0)));
  if (rest.some((value) => value > 1e-9) || !series.length) {
    const others = what === "model" ? "others" : dear.length > named.length ? "others, or none" : "none";
    series.push({ name: series.length ? others : SPENT_BY[what], values: rest });
  }
  return { kind: "bars", series, format: usd, mark: wholeUsd, places };
}

const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const full = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });

/** @param {string} name @param {string} today */
export function placeOf(name, today) {
  const [day = "", hour] = name.split("T");
  if (hour) return { short: `${hour}:00`, full: `${full.format(Date.parse(day))}, ${hour}:00` };
  return { short: day === today ? "today" : short.format(Date.parse(day)), full: full.format(Date.parse(day)) };
}

/**
 * What needs somebody's attention, the worst first.
 * @param {Overview} overview
 * @returns {{ kind: "bad" | "need", title: string, text: string, links: [string, string][] }[]}
 */
export function attention({ summary, limits, softLimits, disabledChannels, lowBalances, firing, day: today }) {
  /** @type {ReturnType<typeof attention>} */
  const found = [];
  const { licence, channels } = summary;
  const bad = (/** @type {string} */ title, /** @type {string} */ text, /** @type {[string, string]} */ to) =>
    found.push({ kind: "bad", title, text, links: [to] });
  if (licence.reason) bad("No model request is answered", licence.reason, ["Licence", "/gateway/settings"]);
  if (summary.ledgerProblem) bad("Requests cannot be recorded", summary.ledgerProblem, ["Service log", "/gateway/log"]);
  for (const problem of summary.problems) bad("A configuration file has a problem", problem, ["Show all", "/settings/configuration"]);
  for (const { name, at, reason } of disabledChannels) {
    found.push({ kind: "bad", title: `Channel ${name} was disabled`, text: `${reason}, ${moment(at)}. No request uses it.`,
      links: [["Channel", channelLink(name)]] });
  }
  for (const { channel, amount, currency, low } of lowBalances) {
    found.push({ kind: "need", title: `Channel ${channel}: ${inCurrency(amount, currency)} left`,
      text: `Its balance is below ${inCurrency(low, currency)}.`, links: [["Channel", channelLink(channel)]] });
  }
  for (const one of channels.unhealthy) {
    const models = Object.keys(one.modelCooldowns);
    const left = one.state === "cooldown" ? one.cooldownSeconds : Math.max(0, ...Object.values(one.modelCooldowns).map(Number));
    const until = left ? ` until ${clockTime(now() + left * 1000)}` : "";
    found.push({
      kind: "need", title: one.state === "cooldown"
        ? `Channel ${one.name} is cooling down${until}`
        : `Channel ${one.name}: ${models.length ? `${models.join(", ")} cooling down${until}` : "the last call failed"}`,
      text: one.error || `${count(one.failed)} of ${count(one.failed + one.succeeded)} calls failed since the start.`,
      links: [["Check now", `${channelLink(one.name)}?check=1`],
        ["Requests", `/gateway/requests?channel=${encodeURIComponent(one.name)}&ok=false&from=${today}`]],
    });
  }
  for (const soft of softLimits.slice(0, MOST)) {
    const burn = { ...soft, title: soft.name };
    const until = soft.resets ? `; it resets ${moment(soft.resets)}` : "";
    found.push({ kind: "need", title: `${holderOf(burn)}: soft limit of ${usd(soft.limit)} ${windowWords(soft.window)} is passed`,
      text: `${usd(soft.spent)} spent${until}. Requests are still served.`,
      links: [["Raise it", limitsLink(burn)], ["Its requests", `/gateway/requests?${new URLSearchParams(requestsOf(burn))}`]] });
  }
  const nearLimits = limits.filter((one) =>
    one.limit > 0 && (one.used + one.reserved >= one.limit * 0.8 || (!one.lasts && (one.daysLeft ?? SOON) < SOON))).slice(0, MOST);
  for (const burn of nearLimits) {
    found.push({ kind: burn.used >= burn.limit ? "bad" : "need",
      title: `${holderOf(burn)}: ${Math.floor((burn.used / burn.limit) * 100)} % of ${usd(burn.limit)} ${windowWords(burn.window)}`,
      text: forecast(burn),
      links: [["Its limits", limitsLink(burn)], ["Its requests", `/gateway/requests?${new URLSearchParams(requestsOf(burn))}`]] });
  }
  const need = (/** @type {string} */ title, /** @type {string} */ text, /** @type {[string, string]} */ to) =>
    found.push({ kind: "need", title, text, links: [to] });
  if (summary.exportProblem) need("The ledger is not exported", summary.exportProblem, ["Export", "/gateway/export"]);
  for (const day of summary.corruptDays.slice(0, 3)) {
    need(`The ledger of ${day.day} is damaged`, `${count(day.lines)} lines are not counted.`, ["Service log", "/gateway/log"]);
  }
  const lost = summary.dropped.serviceLog + summary.dropped.bodies;
  const words = `${compact(lost)} log lines or bodies since the start: the disk is too slow or full.`;
  if (lost) need("Records were lost", words, ["Service log", "/gateway/log"]);
  for (const alert of firing.filter((one) => !isTold(one, { summary, limits: nearLimits, disabledChannels, lowBalances })).slice(0, MOST)) {
    need(`Alert: ${ALERT_TITLES[alert.kind] ?? alert.kind}`, alert.text, ["Alerts", "/gateway/alerts"]);
  }
  return found;
}

/**
 * Whether the list says already what an alert is about.
 * @param {import("../api.d.ts").FiringAlertView} alert
 * @param {Pick<Overview, "summary" | "limits" | "disabledChannels" | "lowBalances">} shown
 */
function isTold({ kind, subject }, { summary, limits, disabledChannels, lowBalances }) {
  if (kind === "channel_disabled") return disabledChannels.some((one) => one.name === subject);
  if (kind === "balance_low") return lowBalances.some((one) => one.channel === subject);
  if (kind === "channel_down") return summary.channels.unhealthy.some((/** @type {any} */ one) => one.name === subject);
  if (kind === "ledger_failing") return Boolean(summary.ledgerProblem);
  if (kind === "export_failing") return Boolean(summary.exportProblem);
  return limits.some(({ scope, key, title, model, window }) => {
    const own = scope === "key" && `${key} ${window}` === subject;
    return own || `budget: ${[scope, key || title, model, window].filter(Boolean).join(" ")}` === subject;
  });
}

/** @param {string} name */
function channelLink(name) {
  return `/gateway/channels/${encodeURIComponent(name)}`;
}

/** @param {Pick<Burn, "scope" | "title" | "model">} burn */
export function holderOf({ scope, title, model }) {
  return scope === "model" ? `Key ${title}, ${model}` : `${{ owner: "Owner", tag: "Tag" }[scope] ?? "Key"} ${title}`;
}

/**
 * Where a limit is changed and raised.
 * @param {Pick<Burn, "key" | "budget">} burn
 */
export function limitsLink({ key, budget }) {
  return key ? `/gateway/keys/${key}` : `/gateway/budgets?name=${encodeURIComponent(budget)}`;
}

/**
 * The filters of the request log that show what a limit counts.
 * @param {Pick<Burn, "scope" | "key" | "title">} burn
 * @returns {Record<string, string>}
 */
export function requestsOf({ scope, key, title }) {
  return scope === "owner" ? { owner: title } : scope === "tag" ? { tag: title } : { key };
}

/** @param {string} window */
export function windowWords(window) {
  return { day: "a day", week: "a week", month: "a month", total: "in total" }[window] ?? window;
}

/**
 * When a limit will be used up, in words.
 * @param {Pick<Burn, "used" | "limit" | "daysLeft" | "lasts" | "resets">} burn
 */
export function forecast({ used, limit, daysLeft, lasts, resets }) {
  if (used >= limit) return resets ? `Used up until ${moment(resets)}.` : "Used up, and never reset.";
  if (daysLeft === null) return `Nothing is used of it${used ? " this month" : ""}.`;
  if (lasts) return resets ? `At this rate it lasts until it resets ${moment(resets)}.` : "It lasts.";
  const later = daysLeft < 1 ? `in ${Math.round(daysLeft * 24)} h` : `in ${+daysLeft.toFixed(1)} days`;
  const left = daysLeft < 1 / 24 ? "within the hour" : later;
  return `At this rate it is used up ${left}${resets ? `; it resets ${moment(resets)}` : ""}.`;
}

const moments = new Intl.DateTimeFormat(undefined, {
  weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
});

/** @param {string} at */
function moment(at) {
  return moments.format(new Date(at));
}
