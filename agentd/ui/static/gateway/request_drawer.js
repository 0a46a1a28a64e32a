/** One request: who asked, which channels were tried, where the time went, what it cost, and its bodies. */

import { ApiError, get } from "../core/api.js";
import { dot, el, icon, svg } from "../core/el.js";
import { count, size } from "../core/counts.js";
import { usd } from "../core/money.js";
import { link } from "../core/router.js";
import { onEnd } from "../core/signals.js";
import { fullTime } from "../core/time.js";
import { shortSeconds } from "../parts/figures.js";
import { failure } from "../parts/frame.js";
import { toast } from "../parts/toast.js";
import { following, groupFacts, outcomeState, shown } from "./frame.js";
import { inputOf, outputOf } from "./request_log.js";

/** @typedef {import("./request_log.js").Recorded} Recorded */
/** @typedef {{ request: Recorded, costs: { bucket: string, tokens: number, cost: number }[],
 *   bodies: { request: string, response: string, base64: boolean } | null }} Detail */

const BUCKETS = /** @type {Record<string, string>} */ ({
  input: "In, anew", cacheRead: "In, from cache", cacheWrite: "In, to cache", cacheWrite1H: "In, to cache for 1 h",
  output: "Out", reasoning: "Reasoning",
});
const PLACEHOLDER = /SECRET_[a-z0-9_]{1,40}?_[a-z2-7]{22}/g;
const MOST = 64_000;
const WIDTH = 390;

/**
 * @param {string} id
 * @param {string} day in UTC; empty: not known
 * @param {() => void} close
 */
export function requestDrawer(id, day, close) {
  const reading = following((abort) => get(`/api/agent/requests/${encodeURIComponent(id)}`, { day }, abort));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(id);
      toast("The id is copied");
    } catch {
      toast(id);
    }
  };
  return el("div", { class: "loaded" },
    el("header", null,
      el("h2", { class: "mono", title: id }, id.length > 22 ? `${id.slice(0, 12)}…${id.slice(-6)}` : id), el("span", { class: "grow" }),
      el("button", { class: "btn plain icon small", "aria-label": "Copy the id", onclick: () => void copy() }, icon("copy")),
      el("button", { class: "btn plain icon small", "aria-label": "Close the request", title: "Close (Esc)", onclick: close },
        icon("close"))),
    () => {
      const problem = reading.problem.value;
      if (problem instanceof ApiError && problem.status === 404) return failure(problem);
      return shown(reading, (detail) => el("div", { class: "loaded" }, () => sections(detail.value)));
    });
}

/** @param {Detail} detail */
function sections({ request: one, costs, bodies }) {
  return [
    el("section", { class: "sect" }, facts(one)),
    el("section", { class: "sect", "aria-label": "Attempts" }, el("h3", null, "How it went"), tries(one), waterfall(one)),
    el("section", { class: "sect", "aria-label": "Tokens and cost" },
      el("h3", null, "Tokens", el("span", null, "USD")), prices(one, costs)),
    Object.keys(one.hidden).length ? el("section", { class: "sect" }, el("h3", null, "Secrets found"),
      el("dl", { class: "kv" }, Object.entries(one.hidden).map(([rule, many]) => [
        el("dt", null, el("a", { href: link(`/gateway/requests?rule=${encodeURIComponent(rule)}`) }, rule)),
        el("dd", null, count(many))]).flat())) : null,
    bodies ? [body("What was asked", bodies.request, bodies.base64), body("What was answered", bodies.response, bodies.base64)]
      : el("section", { class: "sect" }, el("p", { class: "quiet" }, "Its bodies are not stored: its key does not store them.")),
  ].flat();
}

/** @param {Recorded} one */
function facts(one) {
  /** @type {[string, import("../core/el.js").Single][]} */
  const rows = [
    ["Outcome", el("span", null, outcomeState(one.outcome), ` ${one.status}${one.error ? ` · ${one.error}` : ""}`)],
    ["Asked by", one.key ? el("a", { href: link(`/gateway/keys/${one.key}`) }, el("bdi", null, one.keyName || one.key)) : "no known key"],
    ...groupFacts(one),
    ["When", fullTime(one.at)],
    ["Address", `${one.endpoint}${one.stream ? ", streamed" : ""}`],
    ["Model", el("span", null,
      one.model ? el("a", { href: link(`/gateway/models/${encodeURIComponent(one.model)}`) }, el("bdi", null, one.model)) : "–",
      one.fallback
        ? [" → ", el("a", { href: link(`/gateway/models/${encodeURIComponent(one.fallback)}`) }, el("bdi", null, one.fallback))]
        : null,
      one.channel ? ` → ${one.channel}` : "",
      one.supplierModel && one.supplierModel !== (one.fallback || one.model) ? ` (${one.supplierModel})` : "",
      one.tier ? `, tier ${one.tier}` : "")],
    ["Cost", `${usd(one.cost)}, ${one.estimated ? "estimated" : "exact"}${one.was === null ? "" : `; ${usd(one.was)} at first`}`],
    ["Size", `${size(one.received)} in · ${size(one.sent)} out`],
  ];
  return el("dl", { class: "kv" }, rows.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]).flat());
}

/** @param {Recorded} one */
function tries(one) {
  if (!one.tries) return el("p", { class: "quiet" }, "No channel was called.");
  const failed = one.failedTries;
  const last = one.tries > failed.length || !failed.length;
  const total = one.timings.total - one.timings.ready;
  return el("ul", { class: "way" },
    failed.map((attempt) => el("li", null, dot("bad"),
      el("span", null, el("bdi", null, attempt.channel), ofFallback(attempt.model), " ", el("small", null, attempt.error,
        attempt.cost ? `; given up, up to ${usd(attempt.cost)}` : null)),
      el("span", { class: "num" }, shortSeconds(attempt.ms / 1000)))),
    last ? el("li", null, dot(one.outcome === "ok" ? "good" : one.outcome === "left" ? "need" : "bad"),
      el("span", null, el("bdi", null, one.channel), ofFallback(one.fallback), " ",
        el("small", null, one.outcome === "ok" ? "answered" : one.error || one.outcome)),
      el("span", { class: "num" }, shortSeconds(Math.max(0, total) / 1000))) : null);
}

/** @param {string} model the fallback that was tried; empty: the requested one */
function ofFallback(model) {
  return model ? el("span", null, " (", el("bdi", null, model), ")") : null;
}

/** @param {Recorded} one */
function waterfall(one) {
  const { ready, first, total } = one.timings;
  if (!total) return null;
  const begins = first || total;
  const x = (/** @type {number} */ ms) => (ms / total) * WIDTH;
  const seconds = (/** @type {number} */ ms) => shortSeconds(Math.max(0, ms) / 1000);
  const writing = total - begins;
  const speed = writing > 50 && outputOf(one) ? ` · ${count(Math.round(outputOf(one) / (writing / 1000)))} tokens a second` : "";
  const here = ready || total;
  const words = [
    `before the supplier ${seconds(here)}`,
    ready ? `${first ? "to the first token" : "waiting"} ${seconds(begins - ready)}` : "",
    first && one.stream ? `writing ${seconds(writing)}${speed}` : "",
  ];
  const label = (/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ y, /** @type {string} */ text) =>
    svg("text", x(to) < WIDTH * 0.5 ? { x: x(to) + 6, y } : { x: Math.min(x(from), WIDTH * 0.5), y: y + 13 }, text);
  return svg("svg", { class: "fall", viewBox: `0 0 ${WIDTH} 86`, role: "img",
    "aria-label": `${words.filter(Boolean).join(", ")}; ${seconds(total)} in all` },
    svg("rect", { class: "a", x: 0, y: 4, width: Math.max(2, x(here)), height: 8, rx: 2 }), label(0, here, 12, words[0] ?? ""),
    words[1] ? [svg("rect", { class: "b", x: x(ready), y: 30, width: Math.max(2, x(begins - ready)), height: 8, rx: 2 }),
      label(ready, begins, 38, words[1])] : null,
    words[2] ? [svg("rect", { class: "d", x: Math.min(x(begins), WIDTH - 2), y: 56, width: Math.max(2, x(writing)), height: 8, rx: 2 }),
      label(begins, total, 64, words[2])] : null);
}

/** @param {Recorded} one @param {Detail["costs"]} costs */
function prices(one, costs) {
  const used = Object.entries(one.usage).filter(([, tokens]) => tokens > 0);
  const givenUp = one.failedTries.filter((attempt) => attempt.cost);
  if (!used.length && !givenUp.length) return el("p", { class: "quiet" }, "No tokens were counted.");
  const tokens = [one, ...givenUp].reduce((sum, call) => sum + inputOf(call) + outputOf(call), 0);
  return el("div", { class: "loaded" },
    el("dl", { class: "kv" }, used.map(([bucket, many]) => {
      const cost = costs.find((line) => line.bucket === bucket)?.cost;
      return [el("dt", null, BUCKETS[bucket] ?? bucket), el("dd", null, `${count(many)}${cost === undefined ? "" : ` · ${usd(cost)}`}`)];
    }).flat(), givenUp.map((attempt) => [
      el("dt", null, "Given up: ", el("bdi", null, attempt.channel)),
      el("dd", null, `${count(inputOf(attempt) + outputOf(attempt))} · ${usd(attempt.cost)}`)]).flat(),
    el("dt", null, el("b", null, "All")),
    el("dd", null, `${count(tokens)} · `, el("b", null, usd(one.cost)))),
    costs.length || !used.length || !one.cost ? null
      : el("p", { class: "quiet" }, "The prices have changed since, so the cost of each kind is unknown."));
}

/**
 * A body with the placeholders of hidden secrets marked.
 * @param {string} title
 * @param {string} text
 * @param {boolean} base64
 */
function body(title, text, base64) {
  const pretty = base64 ? text : indent(text);
  const box = el("div", { class: "bodyjson", tabindex: 0, role: "region", "aria-label": title });
  const marked = (/** @type {string} */ part) => {
    box.replaceChildren();
    let at = 0;
    for (const found of part.matchAll(PLACEHOLDER)) {
      box.append(part.slice(at, found.index), el("mark", { title: "A secret was hidden here" }, found[0].slice(7, -23)));
      at = found.index + found[0].length;
    }
    box.append(part.slice(at));
  };
  marked(pretty.slice(0, MOST));
  const hidden = new Set(pretty.match(PLACEHOLDER)).size;
  const all = el("button", { class: "btn small", hidden: pretty.length <= MOST, onclick: () => {
    marked(pretty);
    all.hidden = true;
  } }, `Show all ${size(pretty.length)}`);
  onEnd(() => box.replaceChildren());
  return el("section", { class: "sect" },
    el("h3", null, title, el("span", null, base64 ? "base64" : hidden ? `${hidden} hidden` : "")), box, all);
}

/** @param {string} text */
function indent(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
