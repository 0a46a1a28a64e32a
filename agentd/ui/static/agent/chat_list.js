/** The list of chats: who needs somebody, who works, then by days. In the sidebar, and on phones. */

import { dot, el, icon } from "../core/el.js";
import { list } from "../core/list.js";
import { link, path } from "../core/router.js";
import { onEnd, signal } from "../core/signals.js";
import { clockTime, fullTime, shortTime } from "../core/time.js";
import { counted } from "../core/money.js";
import { closeMenu, openMenu } from "../parts/menu.js";
import { toastError } from "../parts/toast.js";
import { approvals, groups, isUnseen, loadChats, loading, loadMore, next } from "./chats.js";
import { questionTitle } from "./questions.js";

/** @typedef {import("./chats.js").Chat} Chat */

/** The list, which loads more as one scrolls. */
export function chatList() {
  const minute = signal(0);
  const timer = setInterval(() => minute.value++, 60_000);
  onEnd(() => clearInterval(timer));
  const body = el("div", { class: "chats" });
  list(body, () => groups.value, (group) => group.name, (group) => {
    const rows = el("ul");
    list(rows, () => group.value.chats, (chat) => chat.chatId, (chat) => el("li", { class: "chat-row" }, row(chat, minute), rowMenu(chat)));
    const name = group.peek().name;
    return el("section", null,
      el("h2", { class: "group" }, name === "Needs you" ? el("b", null, name) : name,
        name === "Needs you" || name === "At work" ? () => ` ${group.value.chats.length}` : null),
      rows);
  });
  return el("div", null, body, () => {
    if (loading.value === "loading") return skeleton();
    if (loading.value !== "ready") {
      return el("div", { class: "note" }, el("p", null, loading.value.message),
        el("button", { class: "btn small", onclick: () => void loadChats() }, "Retry"));
    }
    if (!groups.value.length) return el("p", { class: "nothing" }, "No chats yet");
    return next.value === null ? null : moreButton();
  });
}

function moreButton() {
  const load = () => void loadMore().catch(toastError);
  const button = el("button", { class: "btn plain small more", onclick: load }, "Earlier chats");
  const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && load());
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
    class: "btn plain icon small row-menu", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": "Chat actions", title: () => chat.value.title,
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

/** Placeholders for rows that are loading, shown after a moment. */
export function skeleton() {
  return el("div", { class: "skeleton", "aria-label": "Loading" }, [1, 2, 3, 4, 5].map(() => el("i")));
}

