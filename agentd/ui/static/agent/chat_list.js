/** The list of chats: who needs somebody, who works, then by days. In the sidebar, and on phones. */

import { dot, el, icon, skeleton } from "../core/el.js";
import { list } from "../core/list.js";
import { link, path } from "../core/router.js";
import { computed, effect, onEnd, signal, untracked } from "../core/signals.js";
import { clockTime, fullTime, shortTime } from "../core/time.js";
import { counted } from "../core/counts.js";
import { closeMenu, openMenu } from "../parts/menu.js";
import { toastError } from "../parts/toast.js";
import { approvals, groups, isUnseen, loadChats, loading, loadMore, next, questionTitle } from "./chats.js";

/** @typedef {import("./chats.js").Chat} Chat */

/** Pixels above and below what is seen in which rows are in the document, too. */
const BEYOND = 800;
/** Rows of a group before it is known what is seen. */
const AT_FIRST = 60;
/** @type {Set<(chatId: number) => void>} what reveals a chat, of each group that is shown */
const revealing = new Set();

/**
 * Scroll the lists until the row of a chat is seen.
 * @param {number} chatId
 */
export function revealChat(chatId) {
  for (const reveal of revealing) reveal(chatId);
}

/** The list, which loads more as one scrolls, and has only the rows near what is seen in the document. */
export function chatList() {
  const minute = signal(0);
  const timer = setInterval(() => minute.value++, 60_000);
  onEnd(() => clearInterval(timer));
  const body = el("div", { class: "chats" });
  effect(() => { // before the rows: that of a chat which changes its group is another then
    void groups.value;
    const focused = document.activeElement;
    const chatId = body.contains(focused) && focused?.closest("li")?.dataset["chat"];
    if (!chatId) return;
    queueMicrotask(() => focused.isConnected || /** @type {HTMLElement | null} */ (
      body.querySelector(`[data-chat="${chatId}"] ${focused.tagName}`) ?? body.closest("[tabindex]"))?.focus());
  });
  list(body, () => groups.value, (group) => group.name, (group) => {
    const rows = windowedRows(() => group.value.chats, (chat) =>
      el("li", { class: "chat-row", "data-chat": chat.peek().chatId }, row(chat, minute), rowMenu(chat)));
    const name = group.peek().name;
    return el("section", null,
      el("h2", { class: "group" }, name === "Needs you" ? el("b", null, name) : name,
        name === "Needs you" || name === "At work" ? () => ` ${group.value.chats.length}` : null),
      rows);
  });
  return el("div", null, body, () => {
    if (loading.value === "loading") return skeleton(5);
    if (loading.value !== "ready") {
      return el("div", { class: "note" }, el("p", null, loading.value.message),
        el("button", { class: "btn small", onclick: () => void loadChats() }, "Retry"));
    }
    if (!groups.value.length) return el("p", { class: "nothing" }, "No chats yet");
    return next.value === null ? null : moreButton();
  });
}

/**
 * The rows of a group, of which there may be thousands. A row has one line, or two with the reason of its state.
 * @param {() => readonly Chat[]} members
 * @param {(chat: import("../core/signals.js").ReadonlySignal<Chat>) => HTMLElement} render
 */
function windowedRows(members, render) {
  const rows = el("ul");
  const range = signal({ first: 0, last: AT_FIRST });
  const heights = signal({ low: 32, high: 48 });
  const tops = computed(() => {
    const all = members();
    const { low, high } = heights.value;
    const found = new Float64Array(all.length + 1);
    untracked(() => all.forEach((chat, index) => (found[index + 1] = (found[index] ?? 0) + (stateOf(chat).why ? high : low))));
    return found;
  });
  /** @type {HTMLElement | null} */
  let scroller = null;
  let frame = 0;
  const resized = new ResizeObserver(soon);
  function soon() {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(show);
  }

  function show() {
    const found = /** @type {HTMLElement | null} */ (rows.closest(".list, .scroll"));
    if (found && found !== scroller) follow(found);
    if (!scroller) return;
    measure();
    const above = scroller.getBoundingClientRect().top - rows.getBoundingClientRect().top;
    const first = indexAt(above - BEYOND);
    const last = indexAt(above + scroller.clientHeight + BEYOND) + 1;
    const now = range.peek();
    if (first === now.first && last === now.last) return;
    const shown = new Set(untracked(members).slice(first, last).map((chat) => String(chat.chatId)));
    const focused = document.activeElement?.closest("li");
    const isGone = focused?.parentElement === rows && !shown.has(focused.dataset["chat"] ?? "");
    if (isGone) scroller.focus({ preventScroll: true }); // its keys go on scrolling
    range.value = { first, last };
  }

  /** @param {HTMLElement} found */
  function follow(found) {
    scroller?.removeEventListener("scroll", soon);
    resized.disconnect();
    scroller = found;
    scroller.addEventListener("scroll", soon, { passive: true });
    resized.observe(scroller);
  }

  /** Learn how high a row of each kind is. */
  function measure() {
    const { low, high } = heights.peek();
    const one = rows.querySelector(":scope > li:not(:has(.why))")?.getBoundingClientRect().height || low;
    const two = rows.querySelector(":scope > li:has(.why)")?.getBoundingClientRect().height || high;
    if (one !== low || two !== high) heights.value = { low: one, high: two };
  }

  /**
   * The row at so many pixels below the first one's top.
   * @param {number} pixels
   */
  function indexAt(pixels) {
    const all = tops.peek();
    let [low, high] = [0, all.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((all[middle] ?? 0) <= pixels) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** @param {number} chatId */
  function reveal(chatId) {
    const index = untracked(members).findIndex((chat) => chat.chatId === chatId);
    if (index < 0 || !scroller?.clientHeight) return;
    const all = tops.peek();
    const origin = rows.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
    const [top, bottom] = [origin + (all[index] ?? 0), origin + (all[index + 1] ?? 0)];
    if (top < 0) scroller.scrollTop += top;
    else if (bottom > scroller.clientHeight) scroller.scrollTop += bottom - scroller.clientHeight;
  }

  list(rows, () => members().slice(range.value.first, range.value.last), (chat) => chat.chatId, render);
  effect(() => {
    const { first, last } = range.value;
    const all = tops.value;
    const end = all.length - 1;
    rows.style.paddingTop = `${all[Math.min(first, end)]}px`;
    rows.style.paddingBottom = `${(all[end] ?? 0) - (all[Math.min(last, end)] ?? 0)}px`;
    soon();
  });
  revealing.add(reveal);
  onEnd(() => {
    revealing.delete(reveal);
    cancelAnimationFrame(frame);
    scroller?.removeEventListener("scroll", soon);
    resized.disconnect();
  });
  return rows;
}

function moreButton() {
  const load = () => void loadMore().catch(toastError);
  const button = el("button", { class: "btn plain small more", onclick: load }, "Earlier chats");
  // Several changes may be told at once: the last is how it is now.
  const observer = new IntersectionObserver((entries) => entries.at(-1)?.isIntersecting && load());
  observer.observe(button);
  onEnd(() => observer.disconnect());
  return button;
}

/**
 * The button of a row's menu, whose entries are loaded once it is opened.
 * @param {import("../core/signals.js").ReadonlySignal<Chat>} chat
 */
function rowMenu(chat) {
  /** @type {HTMLButtonElement} */
  const button = el("button", {
    class: "btn plain icon small row-menu", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": "Chat actions",
    title: () => chat.value.title,
    onclick: async () => {
      if (button.getAttribute("aria-expanded") === "true") return closeMenu();
      const { chatItems } = await import("./chat_actions.js");
      openMenu(button, chatItems(chat.peek().chatId, chat.peek().title));
    },
  }, icon("more"));
  return button;
}

/**
 * @param {import("../core/signals.js").ReadonlySignal<Chat>} chat
 * @param {import("../core/signals.js").Signal<number>} minute
 */
function row(chat, minute) {
  const id = chat.peek().chatId;
  return el("a", {
    class: () => `item${isUnseen(chat.value) ? " unseen" : ""}`, href: link(`/${id}`),
    "aria-current": () => (path.value === `/${id}` ? "page" : null),
  },
  () => dot(stateOf(chat.value).dot),
  el("span", { class: "name" }, () => chat.value.title),
  el("time", { datetime: () => chat.value.updatedAt, title: () => fullTime(chat.value.updatedAt) }, () => {
    void minute.value;
    return shortTime(chat.value.updatedAt);
  }),
  () => {
    const { why, dot: kind } = stateOf(chat.value);
    return why ? el("span", { class: `why ${kind}` }, why) : null;
  },
  () => (stateOf(chat.value).why ? null : el("span", { class: "hidden" }, stateOf(chat.value).words)));
}

/**
 * How a chat stands: the colour of its dot, a line that says why, and words for who sees no colour.
 * @param {Chat} chat
 * @returns {{ dot: string, why: string, words: string }}
 */
export function stateOf(chat) {
  const waits = chat.waiting ? `${counted(chat.waiting, "prompt")} in the queue` : "";
  if (chat.asking) {
    const question = approvals.value.find((one) => one.chatId === chat.chatId);
    return { dot: "need", why: question ? questionTitle(question) : "Asks a question", words: "needs you" };
  }
  if (chat.status === "processing") return { dot: "run beat", why: waits ? `At work · ${waits}` : "At work", words: "at work" };
  if (chat.problem) return { dot: "bad", why: `Read-only: ${chat.problem}`, words: "damaged" };
  if (chat.waitsUntil) return { dot: "off", why: `${waits || "Waits"} · continues at ${clockTime(chat.waitsUntil)}`, words: "waits" };
  if (chat.held && chat.waiting) return { dot: "off", why: `${waits} · on hold`, words: "on hold" };
  if (chat.state === "error") return { dot: "bad", why: "Failed", words: "failed" };
  if (chat.status === "queued") return { dot: "off", why: waits, words: "queued" };
  return isUnseen(chat) ? { dot: "good", why: "", words: "done, unseen" } : { dot: "off", why: "", words: "done" };
}


