/**
 * Ctrl F in a chat: the daemon finds the messages that have the words, also those that are not on the
 * page; what is found is painted as ranges of the text (CSS Custom Highlights).
 */

import { ApiError, get } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { effect, onEnd, signal } from "../core/signals.js";
import { addKeys } from "../parts/keys.js";
import { loadStyle } from "../parts/stylesheet.js";

await loadStyle("find");

/** @typedef {import("./chat_data.js").ChatData} ChatData */
/** @typedef {{ messageId: number, excerpt: string }} Match */

const DELAY = 200;
/** Found messages that one steps through. */
const MOST = 2000;
const MOST_RANGES = 500;

const registry = /** @type {any} */ (CSS).highlights;
const Highlight = /** @type {any} */ (globalThis).Highlight;

/**
 * The bar that finds in a chat.
 * @param {ChatData} chat
 * @param {{ scroll: HTMLElement, leaveEnd: () => void, close: () => void }} page
 */
export function findBar(chat, { scroll, leaveEnd, close }) {
  const words = signal("");
  const matches = signal(/** @type {readonly Match[]} */ ([]));
  const state = signal(/** @type {"idle" | "busy" | "ready" | "cut" | ApiError} */ ("idle"));
  const chosen = signal(-1);
  const here = () => matches.peek()[chosen.peek()]?.messageId ?? 0;
  const input = el("input", { class: "find", type: "search", "aria-label": "Find in this chat", placeholder: "Find in this chat",
    autocomplete: "off", autofocus: true, enterkeyhint: "search" });
  /** @type {AbortController | null} */
  let searching = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  /** @param {boolean} jumps whether to go to the nearest of them */
  async function search(jumps) {
    searching?.abort();
    clearTimeout(timer);
    const text = words.peek();
    if (!text) {
      matches.value = [];
      chosen.value = -1;
      state.value = "idle";
      paint([], "", 0);
      return;
    }
    const abort = (searching = new AbortController());
    state.value = "busy";
    try {
      const [found, whole] = await findAll(chat.chatId, text, abort.signal);
      const before = here();
      matches.value = found;
      chosen.value = jumps ? nearest(found, scroll) : found.findIndex((one) => one.messageId === before);
      state.value = whole ? "ready" : "cut";
      if (jumps) await show();
    } catch (error) {
      if (abort.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      state.value = error;
    }
  }

  /** @param {1 | -1} by */
  function step(by) {
    const count = matches.peek().length;
    if (!count) return;
    chosen.value = (chosen.peek() + by + count) % count;
    void show();
  }

  /** Bring the chosen message onto the page, and its words into sight. */
  async function show() {
    const id = here();
    if (!id) {
      paint(matches.peek(), words.peek(), 0);
      return;
    }
    leaveEnd();
    chat.revealed.value = id;
    if (!chat.messages.peek().some((one) => one.id === id)) await chat.load(id);
    await new Promise((resolve) => requestAnimationFrame(resolve));
    if (id !== here()) return;
    leaveEnd();
    const place = paint(matches.peek(), words.peek(), id)?.getBoundingClientRect();
    if (!place) return;
    const box = scroll.getBoundingClientRect();
    if (place.top < box.top + 60 || place.bottom > box.bottom - 30) scroll.scrollTop += place.top - box.top - box.height / 3;
  }

  input.addEventListener("input", () => {
    words.value = input.value.trim();
    clearTimeout(timer);
    timer = setTimeout(() => void search(true), DELAY);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") step(event.key === "ArrowUp" ? -1 : 1);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  addKeys([{ keys: "Esc", label: "Stop finding", run: close }]);
  effect(() => {
    void chat.messages.value;
    const frame = requestAnimationFrame(() => void paint(matches.peek(), words.peek(), here()));
    return () => cancelAnimationFrame(frame);
  });
  let last = chat.work.peek()?.chat.messageCount;
  effect(() => {
    const now = chat.work.value?.chat.messageCount;
    if (now === last) return;
    last = now;
    timer = setTimeout(() => void search(false), 5 * DELAY);
  });
  onEnd(() => {
    searching?.abort();
    clearTimeout(timer);
    paint([], "", 0);
    chat.revealed.value = 0;
  });

  const node = el("search", { class: "findbar" }, icon("search"), input,
    el("span", { class: "state", role: "status" }, () => describe(state.value, matches.value.length, chosen.value)),
    el("button", { class: "btn plain icon small", "aria-label": "Previous match", disabled: () => !matches.value.length,
      onclick: () => step(-1) }, icon("up")),
    el("button", { class: "btn plain icon small", "aria-label": "Next match", disabled: () => !matches.value.length,
      onclick: () => step(1) }, icon("down")),
    el("button", { class: "btn plain icon small", "aria-label": "Stop finding", onclick: close }, icon("close")));
  return { node, focus: () => { input.focus(); input.select(); } };
}

/**
 * All messages that have the words, the oldest first, and whether these are all.
 * @param {number} chatId
 * @param {string} text
 * @param {AbortSignal} abort
 * @returns {Promise<[Match[], boolean]>}
 */
async function findAll(chatId, text, abort) {
  /** @type {Match[]} */
  const found = [];
  for (let place = 0; ;) {
    const page = await get(`/api/chat/${chatId}/search`, { text, place }, abort);
    found.push(...page.matches);
    if (page.next === null) return [found, true];
    if (found.length >= MOST) return [found, false];
    place = page.next;
  }
}

/**
 * @param {"idle" | "busy" | "ready" | "cut" | ApiError} state
 * @param {number} count
 * @param {number} chosen
 */
function describe(state, count, chosen) {
  if (state instanceof ApiError) return state.message;
  if (state === "idle") return "";
  if (state === "busy" && !count) return "Searching…";
  if (!count) return "Nothing found";
  return `${chosen < 0 ? "–" : chosen + 1} of ${count}${state === "cut" ? " or more" : ""}`;
}

/**
 * The first match that is in sight or below, else the last.
 * @param {readonly Match[]} found
 * @param {HTMLElement} scroll
 */
function nearest(found, scroll) {
  const top = scroll.getBoundingClientRect().top;
  const first = [...scroll.querySelectorAll(".turn > .prompt, .steps > [id^=m]")].find((one) => one.getBoundingClientRect().bottom > top);
  const id = Number(first?.closest("[id^=m]")?.id.slice(1) ?? 0);
  const at = found.findIndex((one) => one.messageId >= id);
  return at < 0 ? found.length - 1 : at;
}

/**
 * Paint the words in the messages that are on the page, and mark the chosen message.
 * @param {readonly Match[]} matches
 * @param {string} words
 * @param {number} chosen id of a message
 * @returns {Range | Element | null} where the words are in it, or the message
 */
function paint(matches, words, chosen) {
  document.querySelector(".found-here")?.classList.remove("found-here");
  /** @type {Range[]} */
  const all = [];
  /** @type {Range | Element | null} */
  let place = null;
  for (const { messageId } of matches) {
    const element = elementOf(messageId);
    if (!element) continue;
    const ranges = rangesOf(element, words);
    if (all.length < MOST_RANGES) all.push(...ranges);
    if (messageId !== chosen) continue;
    place = ranges[0] ?? element;
    element.classList.add("found-here");
    registry?.set("found-here", Object.assign(new Highlight(...ranges), { priority: 1 }));
  }
  if (!chosen) registry?.delete("found-here");
  registry?.set("found", new Highlight(...all));
  return place;
}

/**
 * The element of a message: a turn has the id of its prompt, and more in it than that.
 * @param {number} id
 */
function elementOf(id) {
  const found = [...document.querySelectorAll(`[id="m${id}"]`)];
  return found.find((one) => !one.matches(".turn")) ?? found[0]?.querySelector(":scope > .prompt") ?? null;
}

/**
 * Find the words in an element's text, in any case, also across its inline elements.
 * @param {Element} element
 * @param {string} words
 */
export function rangesOf(element, words) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  /** @type {[Text, number][]} */
  const pieces = [];
  let text = "";
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    pieces.push([/** @type {Text} */ (node), text.length]);
    text += /** @type {Text} */ (node).data;
  }
  const lower = text.toLowerCase();
  const where = lower.length === text.length ? lower : text; // else places would be wrong
  const forms = [words, words.normalize("NFC"), words.normalize("NFD")].map((form) => form.toLowerCase());
  const wanted = forms.find((form) => where.includes(form)) ?? "";
  /** @type {Range[]} */
  const ranges = [];
  let at = wanted ? where.indexOf(wanted) : -1;
  for (; at >= 0 && ranges.length < MOST_RANGES; at = where.indexOf(wanted, at + wanted.length)) {
    const range = document.createRange();
    const [first, start] = pieces.findLast(([, begin]) => begin <= at) ?? [];
    const [end, stop] = pieces.findLast(([, begin]) => begin < at + wanted.length) ?? [];
    if (!first || !end) continue;
    range.setStart(first, at - (start ?? 0));
    range.setEnd(end, at + wanted.length - (stop ?? 0));
    ranges.push(range);
  }
  return ranges;
}
