/**
 * Notifications of questions, while no tab of agentd is looked at: shown by the worker, by one tab,
 * and taken away once the question is answered. They are asked for at the first question.
 */

import { may } from "../core/api.js";
import { beginningOf } from "../core/counts.js";
import { el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { link, navigate } from "../core/router.js";
import { effect, signal } from "../core/signals.js";
import { approvals, chats, questionTitle } from "../agent/chats.js";

/** @typedef {import("../agent/chats.js").Approval} Approval */

const possible = "Notification" in window && "serviceWorker" in navigator && window.isSecureContext;
const permission = signal(possible ? Notification.permission : "denied");

/** A button that asks for notifications; nothing where they are decided on, or impossible. */
export function notifyButton() {
  const request = async () => (permission.value = await Notification.requestPermission());
  return () => (permission.value === "default"
    ? el("button", { class: "btn plain small notify", onclick: () => void request() }, icon("inbox"), "Notify me of questions")
    : null);
}

/** Notify of each open question that was not seen here, also of those that came while the page loaded. */
export function startNotifications() {
  if (!possible) return;
  void hideAnswered();
  /** @type {Set<string>} those that were notified or on the screen */
  const handled = new Set();
  effect(() => {
    const open = new Map(approvals.value.map((question) => [tagOf(question), question]));
    const notifies = live.isLeading() && permission.peek() === "granted";
    for (const tag of handled) {
      if (open.has(tag)) continue;
      handled.delete(tag);
      if (notifies) void hide(tag);
    }
    for (const [tag, question] of open) {
      const chat = chats.value.get(question.chatId);
      if (handled.has(tag) || (document.hidden && !(notifies && chat))) continue;
      handled.add(tag);
      if (document.hidden && chat) void show(tag, question, chat.title);
    }
  });
  navigator.serviceWorker.addEventListener("message", (event) => {
    const { kind, chatId } = event.data ?? {};
    if (kind === "open") void navigate(`/${chatId}`);
  });
}

/** @param {Approval} question */
function tagOf({ chatId, id }) {
  return `question ${chatId} ${id}`;
}

const TRIES = 3;
const SHOWN = 200; // characters of what is asked

/**
 * Chromium forgets a notification if the notifications are listed at the moment in which it is shown, as
 * another tab may do; so it is shown again.
 * @param {string} tag
 * @param {Approval} question
 * @param {string} title of its chat
 */
async function show(tag, question, title) {
  const worker = await navigator.serviceWorker.ready;
  const { chatId, id, kind, subject } = question;
  const whole = subject.length <= SHOWN && !/[\p{C}\p{Zl}\p{Zp}]/u.test(subject); // nobody decides about what is not seen
  const decides = kind !== "question" && may("manager"); // a question of the agent is answered in words
  const actions = whole && decides ? [{ action: "allow", title: "Allow" }, { action: "deny", title: "Deny" }] : [];
  const options = {
    body: `${questionTitle(question)}\n${beginningOf(subject, SHOWN)}`, tag, icon: link("/icon-192.png"),
    data: { chatId, id, url: link(`/${chatId}`) }, actions,
  };
  for (let tries = 0; tries < TRIES; tries++) {
    await worker.showNotification(title, /** @type {any} */ (options));
    if ((await worker.getNotifications({ tag })).length) break;
  }
  if (!approvals.peek().some((one) => tagOf(one) === tag)) await hide(tag); // answered meanwhile
}

/** Take away notifications of questions that were answered while no page of agentd was open. */
async function hideAnswered() {
  const worker = await navigator.serviceWorker.ready;
  const all = await worker.getNotifications();
  const open = new Set(approvals.peek().map(tagOf)); // only now: one may have been asked and shown meanwhile
  for (const shown of all) {
    if (shown.tag.startsWith("question ") && !open.has(shown.tag)) shown.close();
  }
}

/** @param {string} tag */
async function hide(tag) {
  const worker = await navigator.serviceWorker.ready;
  for (const notification of await worker.getNotifications({ tag })) notification.close();
}
