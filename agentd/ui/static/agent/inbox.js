/** What needs somebody: the questions of all chats, failures, and what finished unseen. */

import { el, skeleton } from "../core/el.js";
import { list } from "../core/list.js";
import { link } from "../core/router.js";
import { computed, signal } from "../core/signals.js";
import { fullTime, shortTime } from "../core/time.js";
import { approvalCard } from "../parts/approval.js";
import { emptyState, failure, frame } from "../parts/frame.js";
import { notifyButton } from "../parts/notify.js";
import { toastError } from "../parts/toast.js";
import { approvals, chats, isUnseen, loadChats, loading, loadMore, next } from "./chats.js";
import { stateOf } from "./chat_list.js";

/** @typedef {import("./chats.js").Chat} Chat */

/** Rows of a section; the newest are those that matter. */
const AT_ONCE = 100;
/** Of a section with fewer rows all are known at once: the daemon tells so many of those that are no longer new. */
const KNOWN = 200;

/** @returns {import("../core/router.js").Page} */
export function page() {
  const failed = computed(() => rows((chat) => chat.state === "error" || Boolean(chat.problem)));
  const paused = computed(() => rows((chat) => Boolean(chat.held && chat.waiting) || Boolean(chat.waitsUntil)));
  const finished = computed(() => rows((chat) => isUnseen(chat) && chat.state !== "error" && !chat.asking));
  const questions = el("div", { class: "questions" });
  list(questions, () => approvals.value, (one) => `${one.chatId}-${one.id}`, (one) => {
    const { chatId } = one.peek();
    return el("div", { class: "about" },
      el("a", { class: "about-chat", href: link(`/${chatId}`) }, () => chats.value.get(chatId)?.title ?? `Chat ${chatId}`),
      approvalCard(one.peek()).node);
  });
  const nothing = computed(() => !approvals.value.length && ![failed, paused, finished].some((one) => one.value.length));
  return {
    title: "Needs you",
    body: frame({ title: "Needs you", actions: [notifyButton()] }, el("div", { class: "column" },
      () => {
        if (loading.value === "loading") return skeleton(5);
        if (loading.value !== "ready") return failure(loading.value, () => void loadChats());
        if (!nothing.value) return null;
        return emptyState("inbox", "Nothing needs you",
          "Questions of the agent, failures and finished chats that you have not seen appear here.");
      },
      questions, section("Failed", failed), section("Waiting or on hold", paused), section("Finished, unseen", finished))),
  };
}

/** @param {(chat: Chat) => boolean} wanted */
function rows(wanted) {
  // Times compare as text.
  return [...chats.value.values()].filter(wanted)
    .sort((one, other) => Number(one.updatedAt < other.updatedAt) - Number(one.updatedAt > other.updatedAt));
}

/**
 * The first hundred of them, and more on demand.
 * @param {string} title
 * @param {import("../core/signals.js").ReadonlySignal<Chat[]>} members
 */
function section(title, members) {
  const shown = signal(AT_ONCE);
  const showMore = async () => {
    shown.value += AT_ONCE;
    while (members.peek().length < shown.peek() && next.peek() !== null) await loadMore();
  };
  return () => (members.value.length ? el("section", { class: "card rows" }, el("header", null, el("h2", null, title)),
    el("ul", null, members.value.slice(0, shown.value).map((chat) => {
      const { dot: kind, why } = stateOf(chat);
      return el("li", null, el("a", { class: "item", "data-id": chat.chatId, href: link(`/${chat.chatId}`) },
        el("span", { class: `dot ${kind}` }), el("span", { class: "name" }, chat.title),
        el("time", { datetime: chat.updatedAt, title: fullTime(chat.updatedAt) }, shortTime(chat.updatedAt)),
        why ? el("span", { class: `why ${kind}` }, why) : null));
    })), members.value.length > shown.value || (members.value.length >= KNOWN && next.value !== null)
      ? el("button", { class: "btn more", onclick: () => void showMore().catch(toastError) }, `Show ${AT_ONCE} more`)
      : null) : null);
}
