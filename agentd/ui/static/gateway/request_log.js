/** The rows of the request log: pages of it, at most three at once, and the requests that are recorded meanwhile. */

import { ApiError, get } from "../core/api.js";
import * as live from "../core/live.js";
import { computed, onEnd, signal } from "../core/signals.js";
import { now } from "../core/time.js";

/**
 * @typedef {{ input: number, cacheRead: number, cacheWrite: number, cacheWrite1H: number, output: number, reasoning: number }} Usage
 * @typedef {{ id: string, at: string, key: string, keyName: string, owner: string, tags: string[], endpoint: string, model: string,
 *   channel: string, supplierModel: string, fallback: string, tier: string, tries: number,
 *   failedTries: { channel: string, error: string, ms: number, model: string, usage: Usage, cost: number }[],
 *   stream: boolean, status: number,
 *   outcome: string, error: string, usage: Usage, cost: number, was: number | null, priced: string, estimated: boolean,
 *   timings: { ready: number, head: number, first: number, total: number }, received: number, sent: number,
 *   hidden: Record<string, number> }} Recorded
 * @typedef {{ cursor: string, items: Recorded[], next: string }} LogPage
 * @typedef {Record<string, string>} Filters
 */

/** What the log can be narrowed down to, as the API and the address call it. */
export const FILTERS = [
  "id", "key", "owner", "tag", "model", "channel", "outcome", "ok", "error", "status", "minCost", "hidden", "rule", "from", "to",
];

const SIZE = 100;
/** Pages that are kept. */
export const MOST_PAGES = 3;
const DAY = 86_400_000;
/** Reads in a row of pages that found too little, each of which looks through some megabytes. */
const MOST_READS = 40;
/** How much longer to rest than the last look for new requests took. */
const REST = 10;

/** @param {{ usage: Usage }} one */
export function inputOf({ usage }) {
  return usage.input + usage.cacheRead + usage.cacheWrite + usage.cacheWrite1H;
}

/** @param {{ usage: Usage }} one */
export function outputOf({ usage }) {
  return usage.output + usage.reasoning;
}

/** @param {URLSearchParams} query @returns {Filters} */
export function readFilters(query) {
  return Object.fromEntries(FILTERS.flatMap((name) => (query.get(name) ? [[name, query.get(name) ?? ""]] : [])));
}

/**
 * The log with these filters, for as long as what is being made now lasts.
 * @param {Filters} filters
 * @param {() => boolean} isReading whether new rows are to wait, as somebody reads further below or holds them
 * @param {readonly string[]} [from] the cursors of the pages above the first one to be shown, and its own
 */
export function requestLog(filters, isReading, from = [""]) {
  const pages = signal(/** @type {LogPage[]} */ ([]));
  const state = signal(/** @type {"loading" | "ready" | { error: unknown }} */ ("loading"));
  const busy = signal(false);
  /** The newest page as it is now, while its new rows wait. */
  const head = signal(/** @type {LogPage | null} */ (null));
  const rows = computed(() => pages.value.flatMap((page) => page.items));
  const waiting = computed(() => (head.value ? countNew(head.value.items, pages.value) : 0));
  /** The cursors of pages above those that are shown. */
  const above = signal(/** @type {string[]} */ ([]));
  const abort = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  let rest = 1000;

  /** Read a page; where a filter is rarely met, several of the API's. @param {string} cursor @returns {Promise<LogPage>} */
  async function read(cursor) {
    /** @type {LogPage} */
    const page = { cursor, items: [], next: cursor };
    for (let reads = 0; reads < MOST_READS && page.items.length < SIZE / 2; reads++) {
      const part = await get("/api/agent/requests", { ...filters, limit: SIZE, cursor: page.next }, abort.signal);
      page.items.push(...part.items);
      page.next = part.next;
      if (!part.next) break;
    }
    return page;
  }

  /** @param {() => Promise<void>} action */
  async function run(action) {
    if (busy.peek()) return;
    busy.value = true;
    try {
      await action();
      state.value = "ready";
    } catch (error) {
      if (abort.signal.aborted) return;
      if (!(error instanceof ApiError)) reportError(error);
      if (state.peek() !== "ready" || !(error instanceof ApiError && error.passing)) state.value = { error };
    } finally {
      busy.value = false;
    }
  }

  /** @param {readonly string[]} [cursors] */
  const first = (cursors = [""]) => run(async () => {
    pages.value = [await read(cursors.at(-1) ?? "")];
    above.value = cursors.slice(0, -1);
    head.value = null;
  });
  const older = () => run(async () => {
    const last = pages.peek().at(-1);
    if (!last?.next) return;
    const page = await read(last.next);
    if (pages.peek().at(-1)?.next !== last.next) return; // newer rows were shown meanwhile, in place of these pages
    const next = [...pages.peek(), page];
    const dropped = next.slice(0, Math.max(0, next.length - MOST_PAGES));
    if (dropped.length) above.value = [...above.peek(), ...dropped.map((page) => page.cursor)];
    pages.value = next.slice(-MOST_PAGES);
  });
  const newer = () => run(async () => {
    const cursor = above.peek().at(-1);
    if (cursor === undefined) return;
    const page = await read(cursor);
    if (above.peek().at(-1) !== cursor) return;
    above.value = above.peek().slice(0, -1);
    pages.value = [page, ...pages.peek()].slice(0, MOST_PAGES);
  });

  /** Show the rows that wait. */
  function release() {
    const page = head.peek();
    if (!page) return;
    head.value = null;
    above.value = [];
    const known = pages.peek();
    const many = countNew(page.items, known);
    const [top] = known;
    const keeps = top && !above.peek().length && many < page.items.length && known.length < MOST_PAGES
      && top.items.length + many <= 2 * SIZE;
    pages.value = keeps ? [{ ...top, items: [...page.items.slice(0, many), ...top.items] }, ...known.slice(1)] : [page];
  }

  async function look() {
    soon = undefined;
    if (state.peek() !== "ready") return;
    const began = performance.now();
    try {
      head.value = await read("");
      if (!isReading() && !above.peek().length) release();
    } catch (error) {
      if (!abort.signal.aborted && !(error instanceof ApiError)) reportError(error);
    }
    rest = Math.max(1000, REST * (performance.now() - began));
  }
  const ends = [live.onInterruption(() => void look()), live.on("gatewayUpdate", () => {
    if (filters["to"] && Date.parse(filters["to"]) < now() - 2 * DAY) return;
    soon ??= setTimeout(() => void look(), rest - 900);
  })];
  onEnd(() => {
    abort.abort();
    clearTimeout(soon);
    ends.forEach((end) => end());
  });
  void first(from);
  return { rows, pages, above, state, busy, waiting, first, older, newer, release };
}

/**
 * How many of these are newer than the newest that is shown.
 * @param {readonly Recorded[]} items
 * @param {readonly LogPage[]} pages
 */
function countNew(items, pages) {
  const newest = pages.find((page) => page.items.length)?.items[0]?.id;
  const at = items.findIndex((item) => item.id === newest);
  return at < 0 ? items.length : at;
}
