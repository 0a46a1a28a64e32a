/** The request log: filters, live rows, and one request beside it. */

import { address } from "../core/api.js";
import { el, icon, skeleton } from "../core/el.js";
import { list } from "../core/list.js";
import { count } from "../core/counts.js";
import { usd } from "../core/money.js";
import { link, navigate, query, setQuery } from "../core/router.js";
import { computed, effect, scope, signal, untracked } from "../core/signals.js";
import { daysAgo, fullTime, shortTime } from "../core/time.js";
import { compact, shortSeconds } from "../parts/figures.js";
import { emptyState, failure } from "../parts/frame.js";
import { addKeys } from "../parts/keys.js";
import { forAdministrators, outcomeState, pageBar } from "./frame.js";
import { requestDrawer } from "./request_drawer.js";
import { filterBar } from "./request_filters.js";
import { MOST_PAGES, inputOf, outputOf, readFilters, requestLog } from "./request_log.js";

/** @typedef {import("./request_log.js").Recorded} Recorded */

const NEAR = 600;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export const page = forAdministrators("Requests", (params) => {
  const given = computed(() => JSON.stringify(readFilters(query.value)));
  const filters = computed(() => /** @type {import("./request_log.js").Filters} */ (JSON.parse(given.value)));
  const open = computed(() => query.value.get("open") ?? "");
  if (params["id"] && !query.peek().get("open")) queueMicrotask(() => setQuery({ open: params["id"] ?? null }));
  const held = signal(false);
  /** The row that J and K move. */
  const at = signal(open.peek());
  const body = el("tbody");
  const table = el("div", { class: "table log", tabindex: 0, role: "region", "aria-label": "Requests" });
  const isReading = () => held.peek() || table.scrollTop > 40;
  const log = signal(/** @type {ReturnType<typeof requestLog>} */ (/** @type {any} */ (null)));
  effect(() => {
    const wanted = filters.value;
    const kept = history.state?.log;
    const [made, end] = untracked(() => scope(() => requestLog(wanted, isReading, kept?.given === given.peek() ? kept.from : undefined)));
    log.value = made;
    table.scrollTop = 0;
    return end;
  });
  effect(() => { // after Back: the same pages, where newer ones were let go
    const [top] = log.value.pages.value;
    const from = [...log.value.above.value, top?.cursor ?? ""];
    if (top) history.replaceState({ ...history.state, log: { given: given.peek(), from } }, "");
  });
  effect(() => {
    if (!held.value) untracked(() => log.peek().waiting.peek() && !isReading() && log.peek().release());
  });
  list(body, () => log.value.rows.value, (one) => one.id, (one) => row(one, at, show));
  const wanted = open.peek() || params["id"] || "";
  let isPlaced = !wanted || history.state?.scrolled;
  effect(() => { // after Back: the row of the open request is seen again, if it is in the pages that are kept
    const { rows, pages, state, busy, older } = log.value;
    if (isPlaced || busy.value || state.value !== "ready") return;
    const isThere = rows.value.some((one) => one.id === wanted);
    isPlaced = isThere || !pages.value.at(-1)?.next || pages.value.length >= MOST_PAGES;
    if (isThere) queueMicrotask(() => body.querySelector(`[data-id="${CSS.escape(wanted)}"]`)?.scrollIntoView({ block: "center" }));
    else if (!isPlaced) void untracked(older);
  });
  table.addEventListener("scroll", () => {
    if (table.scrollHeight - table.scrollTop - table.clientHeight < NEAR && log.peek().pages.peek().at(-1)?.next) void log.peek().older();
  }, { passive: true });

  /** @param {string} id */
  function show(id) {
    at.value = id;
    if (params["id"] && id !== params["id"]) {
      void navigate(`/gateway/requests?${new URLSearchParams({ ...filters.peek(), ...(id ? { open: id } : {}) })}`);
    } else setQuery({ open: id || null });
  }

  /** @param {1 | -1} by */
  function step(by) {
    const rows = log.peek().rows.peek();
    const index = rows.findIndex((one) => one.id === at.peek());
    const next = rows[Math.max(0, Math.min(rows.length - 1, index + by))];
    if (!next) return;
    at.value = next.id;
    if (open.peek()) setQuery({ open: next.id });
    body.querySelector(`[data-id="${CSS.escape(next.id)}"]`)?.scrollIntoView({ block: "nearest" });
  }
  addKeys([
    { keys: "J", label: "Next request", run: () => step(1) },
    { keys: "K", label: "Previous request", run: () => step(-1) },
    { keys: "Enter", label: "Open the request",
      run: ({ target }) => (target instanceof HTMLAnchorElement || target instanceof HTMLButtonElement
        ? target.click()
        : at.peek() && show(at.peek())) },
    { keys: "Esc", label: "Close the request", run: () => open.peek() && show("") },
    { keys: "H", label: "Hold live rows", run: () => (held.value = !held.peek()) },
  ]);
  const names = computed(() => new Map(log.value.rows.value.map((one) => [one.key, one.keyName])));
  const drawer = el("aside", { class: "drawer", tabindex: 0, "aria-label": "One request", hidden: () => !open.value }, () => {
    const id = open.value;
    if (!id) return null;
    const known = untracked(() => log.peek().rows.peek().find((one) => one.id === id));
    return untracked(() => requestDrawer(id, known?.at.slice(0, 10) ?? "", () => show("")));
  });
  table.append(el("div", { class: "loaded" }, () => above(log.value)),
    el("table", { class: "fold" }, el("thead", null, el("tr", null,
      ["Time", "Outcome", "Model", "Channel", "Key"].map((head) => el("th", { scope: "col" }, head)),
      ["In", "Out", "First", "Secrets", "Cost"].map((head) => el("th", { scope: "col", class: "r" }, head)))), body),
    el("div", { class: "loaded" }, () => below(log.value, Object.keys(filters.value).length > 0)));
  return {
    title: "Requests",
    body: el("div", { class: "frame" },
      pageBar("Requests", [
        el("button", { class: "btn plain", "aria-pressed": () => String(held.value), onclick: () => (held.value = !held.peek()) },
          () => icon(held.value ? "play" : "pause"), () => (held.value ? "Held" : "Hold")),
        el("a", { class: "btn", download: "", "aria-label": "Download as CSV",
          href: () => address("/api/agent/requests", { ...filters.value, format: "csv" }) }, icon("download"), "CSV"),
      ]),
      filterBar(filters, (key) => names.value.get(key) || key),
      el("div", { class: "news", role: "status" }, () => log.value.waiting.value
        ? el("button", { class: "btn main small", onclick: () => {
          table.scrollTop = 0;
          held.value = false;
          log.peek().release();
        } }, icon("up"), `${log.value.waiting.value >= 100 ? "100 or more" : count(log.value.waiting.value)} new`)
        : null),
      el("div", { class: () => (open.value ? "split open" : "split") }, table, drawer)),
  };
});

/** @param {ReturnType<typeof requestLog>} log */
function above(log) {
  return log.above.value.length
    ? el("p", { class: "more-of-log" },
      el("button", { class: "btn small", disabled: () => log.busy.value, onclick: () => void log.newer() }, icon("up"), "Newer"),
      " ", el("button", { class: "btn small plain", onclick: () => void log.first() }, "To the newest"))
    : null;
}

/**
 * @param {ReturnType<typeof requestLog>} log
 * @param {boolean} isNarrowed
 */
function below(log, isNarrowed) {
  const state = log.state.value;
  if (state === "loading") return skeleton();
  if (state !== "ready") return failure(state.error, () => void log.first());
  const next = log.pages.value.at(-1)?.next;
  if (next) {
    return el("p", { class: "more-of-log" },
      el("button", { class: "btn small", disabled: () => log.busy.value, onclick: () => void log.older() },
        () => (log.busy.value ? "Reading…" : "Older")));
  }
  if (log.rows.value.length) return el("p", { class: "more-of-log quiet" }, "These are all.");
  return isNarrowed
    ? emptyState("search", "No request is like that", "New requests that match the filters appear here.",
      el("button", { class: "btn", onclick: () => void navigate("/gateway/requests") }, "Clear the filters"))
    : emptyState("rows", "No requests yet", "Give a program an access key: its requests appear here.",
      el("a", { class: "btn main", href: link("/gateway/keys?new=1") }, "New key"));
}

/**
 * @param {import("../core/signals.js").ReadonlySignal<Recorded>} one
 * @param {import("../core/signals.js").Signal<string>} at
 * @param {(id: string) => void} show
 */
function row(one, at, show) {
  const { id } = one.peek();
  const open = (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || getSelection()?.toString()) return;
    event.preventDefault();
    event.stopPropagation();
    show(id);
  };
  const tokens = (/** @type {number} */ number) => (number ? compact(number) : "–");
  const secrets = () => Object.values(one.value.hidden).reduce((sum, many) => sum + many, 0);
  return el("tr", { "data-id": id, "aria-current": () => (at.value === id ? "true" : null), onclick: open },
    el("td", { class: "not-phone" },
      el("a", { href: link(`/gateway/requests/${id}`), title: fullTime(one.peek().at), onclick: open }, () => timeOf(one.value.at))),
    el("td", { class: "c-out" }, () => outcomeState(one.value.outcome, one.value.error)),
    el("td", { class: "c-model" },
      el("a", { class: "ell", href: link(`/gateway/requests/${id}`), onclick: open }, el("bdi", null, () => one.value.model || "–"))),
    el("td", { class: "not-phone" }, el("bdi", { class: "ell" }, () => one.value.channel || "–")),
    el("td", { class: "c-key" }, el("bdi", { class: "ell" }, () => one.value.keyName || "–"),
      el("span", { class: "only-phone num" }, () => ` · ${shortTime(one.value.at)}`)),
    el("td", { class: "r not-phone" }, () => tokens(inputOf(one.value))),
    el("td", { class: "r not-phone" }, () => tokens(outputOf(one.value))),
    el("td", { class: "r not-phone" }, () => (one.value.timings.first ? shortSeconds(one.value.timings.first / 1000) : "–")),
    el("td", { class: "r not-phone" }, () => (secrets() ? el("span", { class: "state" }, icon("shield"), String(secrets())) : null)),
    el("td", { class: "r c-cost" }, () => (one.value.cost ? usd(one.value.cost) : "–")));
}

/** @param {string} moment */
function timeOf(moment) {
  const at = new Date(moment);
  const days = daysAgo(at);
  return days <= 0 ? clock.format(at) : `${days === 1 ? "yesterday" : shortTime(moment)} ${clock.format(at)}`;
}
