/** The overview: five figures beside yesterday's, spend by model, what needs attention, limits, channels, latest requests. */

import { dot, el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { count } from "../core/counts.js";
import { usd } from "../core/money.js";
import { link, query, setQuery } from "../core/router.js";
import { computed, effect, onEnd, signal, untracked } from "../core/signals.js";
import { clockTime, now } from "../core/time.js";
import { chartCard, sparkline } from "../parts/chart.js";
import { compact, figure, shortSeconds } from "../parts/figures.js";
import { emptyState } from "../parts/frame.js";
import { toastError } from "../parts/toast.js";
import { addDays, following, forAdministrators, gatewayFrame, limitBar, outcomeState, part, requestsLink, shown } from "./frame.js";
import { usedShare } from "./limits.js";
import {
  LIMITS_OF, SPANS, SPENT_BY, addUp, attention, forecast, holderOf, hourly, limitsLink, limitsShown, readOverview, readSpend,
  requestsOf, windowWords,
} from "./overview_data.js";

/** @typedef {import("./overview_data.js").Overview} Overview */
/** @typedef {import("../core/signals.js").ReadonlySignal<Overview>} Latest */

const AGAIN = 3000;
const SPEND_AGAIN = 15_000;
const ROWS = 8;

export const page = forAdministrators("Overview", () => {
  const reading = following(readOverview,
    { every: AGAIN, events: ["modelsUpdate", "gatewayConfigUpdate", "gatewayAlertUpdate"], asked: limitsShown });
  return {
    title: "Gateway",
    body: gatewayFrame({ title: "Overview", actions: [
      el("a", { class: "btn", href: link("/gateway/keys?new=1") }, icon("plus"), "New key"),
    ] }, shown(reading, content)),
  };
});

/**
 * @template {keyof Overview} Name
 * @param {Overview} overview
 * @param {Name[]} names
 * @returns {Pick<Overview, Name>}
 */
function pick(overview, names) {
  return /** @type {any} */ (Object.fromEntries(names.map((name) => [name, overview[name]])));
}

/**
 * A card of what is rendered.
 * @template T
 * @param {string} label
 * @param {(value: T) => import("../core/el.js").Piece[]} render
 */
function boxed(label, render) {
  return (/** @type {T} */ value) => el("section", { class: "card", "aria-label": label }, render(value));
}

/** @param {Latest} latest */
function content(latest) {
  return el("div", { class: "loaded" },
    part(() => pick(latest.value, ["summary", "yesterday", "firstToken", "day", "hours", "yesterdayHours", "at", "zone"]), figures),
    el("div", { class: "two" }, spendCard(latest), part(() => attention(latest.value), boxed("Needs attention", attentionCard))),
    el("div", { class: "two even" },
      part(() => latest.value.shownLimits, boxed("Limits", burnCard)),
      part(() => pick(latest.value, ["channels", "summary", "day"]), boxed("Channels", channelCard))),
    part(() => latest.value.latest, boxed("Latest requests", latestCard)));
}

/** @param {Pick<Overview, "summary" | "yesterday" | "firstToken" | "day" | "hours" | "yesterdayHours" | "at" | "zone">} overview */
function figures(overview) {
  const { summary, yesterday, firstToken: first, day: today } = overview;
  const { requests, ok, cost, secrets, errors } = summary.today;
  const failed = requests - ok;
  const day = { from: today, to: today };
  const [dayBefore] = [addDays(today, -1)];
  /** @param {(hour: import("./overview_data.js").Hour) => number} value @param {boolean} [summed] */
  const spark = (value, summed = false) => {
    const [now_, before] = [hourly(overview, "today", value), hourly(overview, "yesterday", value)];
    return summed ? sparkline(addUp(now_), addUp(before)) : sparkline(now_, before);
  };
  const worst = Object.entries(errors).sort((one, other) => Number(other[1]) - Number(one[1]))[0];
  return el("section", { class: "figures", "aria-label": "Today" },
    figure("Spent today", usd(cost),
      [el("a", { href: requestsLink({ from: dayBefore, to: dayBefore }) }, el("b", null, usd(yesterday.cost)), " yesterday")],
      spark((hour) => hour.cost, true), requestsLink(day)),
    figure("Requests", count(requests),
      [el("a", { href: requestsLink({ from: dayBefore, to: dayBefore }) }, el("b", null, count(yesterday.requests)), " yesterday")],
      spark((hour) => hour.requests), requestsLink(day)),
    figure("Not ok", [`${+(requests ? (failed / requests) * 100 : 0).toFixed(1)} `, el("small", null, "%")],
      failed && worst
        ? [el("a", { href: requestsLink({ ...day, error: worst[0] }) },
          el("b", { class: "bad" }, `${count(Number(worst[1]))} ${worst[0]}`)), ` of ${count(failed)}`]
        : [el("b", null, count(yesterday.requests - yesterday.ok)), " yesterday"],
      spark((hour) => hour.requests - hour.ok), requestsLink({ ...day, ok: "false" })),
    figure("First token", first.p50 === null ? "–" : shortSeconds(first.p50 / 1000),
      first.p95 === null
        ? ["no answer today"]
        : [el("a", { href: link(`/gateway/reports/latency?by=hour&from=${today}&to=${today}`) },
          "p95 ", el("b", null, shortSeconds(first.p95 / 1000))), ` · p99 ${shortSeconds((first.p99 ?? 0) / 1000)}`],
      sparkline(overview.hours.map((hour) => hour.firstToken ?? 0)), requestsLink({ ...day, ok: "true" })),
    figure("Secrets found", count(secrets),
      [el("a", { href: link(`/gateway/leaks?from=${dayBefore}&to=${dayBefore}`) }, el("b", null, count(yesterday.secrets)), " yesterday")],
      spark((hour) => hour.secrets), requestsLink({ ...day, hidden: "true" })));
}

/**
 * What the address chooses of some options; the first one otherwise.
 * @param {string} name
 * @param {Readonly<Record<string, string>>} options
 */
function chosen(name, options) {
  const given = query.value.get(name) ?? "";
  return Object.hasOwn(options, given) ? given : Object.keys(options)[0] ?? "";
}

/** @param {Latest} latest */
function spendCard(latest) {
  const days = computed(() => (String(query.value.get("days")) in SPANS ? Number(query.value.get("days")) : 30));
  const what = computed(() => /** @type {keyof typeof SPENT_BY} */ (chosen("spend", SPENT_BY)));
  const chart = signal(/** @type {import("../parts/chart.js").Chart} */ ({ kind: "bars", places: [], series: [], format: usd }));
  let abort = new AbortController();
  const read = () => {
    abort.abort();
    const ours = (abort = new AbortController());
    readSpend(what.peek(), days.peek(), latest.peek().zone, now(), ours.signal).then((next) => {
      if (!ours.signal.aborted && JSON.stringify(next) !== JSON.stringify(chart.peek())) chart.value = next;
    }, (error) => {
      if (!ours.signal.aborted) toastError(error, read);
    });
  };
  const today = computed(() => latest.value.day);
  effect(() => {
    if (what.value && days.value && today.value) untracked(read);
  });
  let read_at = now();
  const ends = [live.onInterruption(read), live.on("gatewayUpdate", () => {
    if (now() - read_at < SPEND_AGAIN) return;
    read_at = now();
    read();
  })];
  onEnd(() => {
    abort.abort();
    ends.forEach((end) => end());
  });
  return chartCard({
    title: () => `Spend by ${what.value}`, chart: () => chart.value,
    controls: el("div", { class: "segs" },
      el("div", { class: "seg", role: "group", "aria-label": "Spend by" }, Object.keys(SPENT_BY).map((name) =>
        el("button", { "aria-pressed": () => String(what.value === name),
          onclick: () => setQuery({ spend: name === "model" ? null : name }) }, name))),
      el("div", { class: "seg", role: "group", "aria-label": "Range" }, Object.entries(SPANS).map(([name, label]) =>
        el("button", { "aria-pressed": () => String(days.value === Number(name)),
          onclick: () => setQuery({ days: name === "30" ? null : name }) }, label)))),
  });
}

/** @param {ReturnType<typeof attention>} found */
function attentionCard(found) {
  return [
    el("header", null, el("h2", null, "Needs attention"), el("span", { class: "grow" }),
      found.length ? el("span", { class: "tally" }, found.length) : null),
    found.length
      ? el("ul", { class: "notes" },
        found.slice(0, ROWS).map((one) => el("li", { class: "note" }, dot(one.kind), el("b", null, one.title), el("p", null, one.text),
          el("div", { class: "acts" }, one.links.map(([label, to]) => el("a", { href: link(to) }, label))))))
      : el("div", { class: "calm" }, icon("check"), "Nothing: channels, limits, files and records are in order."),
  ];
}

/** @param {Overview["shownLimits"]} limits */
function burnCard({ of, items }) {
  const whose = { key: "key", owner: "budget of an owner", tag: "budget of a tag" }[of] ?? "key and no budget";
  const nearest = of ? [...items].sort((one, other) => usedShare(other) - usedShare(one)).slice(0, ROWS) : items.slice(0, ROWS);
  return [
    el("header", null, el("h2", null, "Limits"), el("span", { class: "grow" }),
      el("div", { class: "seg", role: "group", "aria-label": "Limits of" }, Object.entries(LIMITS_OF).map(([name, label]) =>
        el("button", { "aria-pressed": String(of === name), onclick: () => setQuery({ limits: name || null }) }, label))),
      el("a", { class: "more", href: link(`/gateway/reports/limits${of ? `?by=${of}` : ""}`) }, "All limits")),
    nearest.length
      ? el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Limits as a table" }, el("table", { class: "fold" },
        el("thead", null, el("tr", null, ["Limit of", "Used"].map((head) => el("th", { scope: "col" }, head)))),
        el("tbody", null, nearest.map((burn) => el("tr", null,
          el("td", null, el("a", { class: "ell", href: link(limitsLink(burn)) },
            el("bdi", null, burn.scope === "key" || of === burn.scope ? burn.title : holderOf(burn)))),
          el("td", { class: "full wrap" },
            el("div", { class: "burn" }, limitBar(burn),
              el("a", { href: requestsLink(requestsOf(burn)) }, `${usd(burn.used)} / ${usd(burn.limit)} ${windowWords(burn.window)}`)),
            el("small", null, forecast(burn))))))))
      : el("p", { class: "none" },
        `No ${whose} has a limit in USD. Limits stop a runaway program before it gets expensive.`),
  ];
}

/** @param {Pick<Overview, "channels" | "summary" | "day">} overview */
function channelCard({ channels, summary, day: today }) {
  if (!channels.length) {
    return [el("header", null, el("h2", null, "Channels")), emptyState("plug", "No channels yet",
      "A channel is a connection to a supplier of models, with its key.",
      el("a", { class: "btn main", href: link("/gateway/channels?new=1") }, "Add a channel"))];
  }
  const unhealthy = new Map(summary.channels.unhealthy.map((/** @type {any} */ one) => [one.name, one]));
  const { ok, cooldown, disabled } = summary.channels;
  return [
    el("header", null, el("h2", null, "Channels"), el("span", { class: "grow" }),
      el("a", { class: "more", href: link("/gateway/channels") }, `All ${count(ok + cooldown + disabled)}`)),
    el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Channels as a table" }, el("table", { class: "fold" },
      el("thead", null, el("tr", null, el("th", { scope: "col" }, "Channel"),
        ["Requests", "Not ok", "First token"].map((head) => el("th", { scope: "col", class: "r" }, head)))),
      el("tbody", null, channels.map((channel) => {
        const ill = unhealthy.get(channel.name);
        const { requests, firstToken: first } = channel;
        const failed = requests - channel.ok;
        const state = !channel.enabled ? "off" : ill?.state === "cooldown" ? "need" : ill ? "bad" : "good";
        return el("tr", null,
          el("td", null,
            el("a", { class: "with-dot", href: link(`/gateway/channels/${encodeURIComponent(channel.name)}`), title: ill?.error ?? "" },
              dot(state), el("bdi", { class: "ell" }, channel.name)),
            el("span", { class: "hidden" },
              { off: "disabled", need: "cooling down", bad: "the last call failed", good: "in order" }[state])),
          el("td", { class: "r" }, el("a", { href: requestsLink({ channel: channel.name, from: today }) },
            count(requests), el("span", { class: "only-phone" }, " requests"))),
          el("td", { class: "r not-phone" }, failed
            ? el("a", { class: "bad", href: requestsLink({ channel: channel.name, from: today, ok: "false" }) },
              `${+((failed / requests) * 100).toFixed(1)} %`)
            : "0 %"),
          el("td", { class: "r not-phone" }, first === null ? "–" : shortSeconds(first / 1000)));
      })))),
  ];
}

/** @param {Overview["latest"]} latest */
function latestCard(latest) {
  return [
    el("header", null, el("h2", null, "Latest requests"), el("span", { class: "grow" }),
      el("a", { class: "more", href: link("/gateway/requests") }, "Open the log")),
    latest.length
      ? el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Latest requests as a table" },
        el("table", { class: "fold" },
          el("thead", null, el("tr", null, ["Time", "Outcome", "Model", "Key"].map((head) => el("th", { scope: "col" }, head)),
            ["In", "Out", "Cost"].map((head) => el("th", { scope: "col", class: "r" }, head)))),
          el("tbody", null, latest.map((one) => el("tr", null,
            el("td", { class: "not-phone" }, el("a", { href: link(`/gateway/requests/${one.id}`) }, clockTime(one.at))),
            el("td", { class: "c-out" }, outcomeState(one.outcome, one.error)),
            el("td", { class: "c-model" },
              el("a", { class: "ell", href: link(`/gateway/requests/${one.id}`) }, el("bdi", null, one.model || "–"))),
            el("td", { class: "c-key" }, el("bdi", { class: "ell" }, one.keyName || "–")),
            el("td", { class: "r not-phone" },
              compact(one.usage.input + one.usage.cacheRead + one.usage.cacheWrite + one.usage.cacheWrite1H)),
            el("td", { class: "r not-phone" }, compact(one.usage.output + one.usage.reasoning)),
            el("td", { class: "r c-cost" }, one.cost ? usd(one.cost) : "–"))))))
      : emptyState("rows", "No requests yet", "Give a program an access key: its requests appear here.",
        el("a", { class: "btn main", href: link("/gateway/keys?new=1") }, icon("plus"), "New key")),
  ];
}

