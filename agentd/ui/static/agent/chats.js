/** The chats and the questions that are open, as every page sees them: read once, then followed. */

import { ApiError, get, sendInOrder, session } from "../core/api.js";
import * as live from "../core/live.js";
import { computed, detached, effect, signal } from "../core/signals.js";
import { dayGroup } from "../core/time.js";
import { loadChoices, takeChoices } from "./choices.js";
import { loadMe, markSeenUpTo, pins, readWithMe, seen, takeMe } from "./me.js";

/**
 * @typedef {import("../api.d.ts").ChatRow} Chat
 * @typedef {import("../api.d.ts").ApprovalView} Approval
 * @typedef {import("../api.d.ts").LabelRow} Label
 */

/** All that were read so far, by their ids: the newest, and older ones that the lists show first. */
export const chats = signal(/** @type {ReadonlyMap<number, Chat>} */ (new Map()));
/** The questions that are open, the longest open first. */
export const approvals = signal(/** @type {readonly Approval[]} */ ([]));
export const labels = signal(/** @type {readonly Label[]} */ ([]));
/** `before` of the next page; null when all were read. */
export const next = signal(/** @type {number | null} */ (null));
export const loading = signal(/** @type {"loading" | "ready" | ApiError} */ ("loading"));

const PAGE = 200;
/** Milliseconds until what the daemon did not answer is asked again. */
const RETRY = 2000;
const events = live.follower();

/** The chats under their headings: who needs somebody, who works, then by days. */
export const groups = computed(() => {
  // Times compare as text; localeCompare would need a tenth of a second for 10,000 chats.
  const rows = [...chats.value.values()].sort((one, other) =>
    Number(one.updatedAt < other.updatedAt) - Number(one.updatedAt > other.updatedAt));
  /** @type {Map<string, Chat[]>} */
  const found = new Map(["Needs you", "At work", "Pinned", "Today", "Yesterday", "Last 7 days", "Earlier"].map((name) => [name, []]));
  for (const chat of rows) found.get(groupOf(chat))?.push(chat);
  return [...found].filter(([, members]) => members.length).map(([name, members]) => ({ name, chats: members }));
});

export const asking = computed(() => approvals.value.length);

/** @type {((chatIds: Iterable<number>) => void)[]} */
const listeners = [];

/**
 * Call with the chats that changed, or whose questions did; those that were read are told together.
 * @param {(chatIds: Iterable<number>) => void} listener
 */
export function onChatsChange(listener) {
  listeners.push(listener);
}

/** @param {Iterable<number>} chatIds */
function tellChanged(chatIds) {
  for (const listener of listeners) listener(chatIds);
}

/** Read what every page shows, and follow it from now on. */
export async function loadChats() {
  if (loading.peek() !== "ready") loading.value = "loading";
  try {
    await readWithMe(() => events.read(() => get("/api/start"), (start) => {
      takeMe(start.me);
      takeChoices(start.models, start.skills);
      chats.value = new Map([...start.notable, ...start.chats.chats].map(entryOf));
      next.value = start.chats.next;
      approvals.value = start.approvals.approvals;
      labels.value = start.labels.labels;
      loading.value = "ready";
      tellChanged(chats.peek().keys());
    }));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (loading.peek() !== "ready") loading.value = error;
    else if (error.passing) setTimeout(() => void loadChats(), RETRY);
  }
}

/** When it was read for the first time, or could not be. @returns {Promise<void>} */
export function whenRead() {
  return new Promise((resolve) => {
    const [, end] = detached(() => effect(() => {
      if (loading.value !== "loading") queueMicrotask(() => (end(), resolve()));
    }));
  });
}

/** @param {Chat} chat */
function entryOf(chat) {
  return /** @type {const} */ ([chat.chatId, chat]);
}

/** @type {Promise<void> | null} */
let reading = null;

/** Read the next page of chats, which is read once however many ask for it. */
export function loadMore() {
  return (reading ??= readNext().finally(() => (reading = null)));
}

async function readNext() {
  if (next.peek() === null) return;
  const before = next.peek();
  await events.read(() => get("/api/chats", { limit: PAGE, before }), (page) => {
    if (next.peek() !== before) return; // all was read anew meanwhile
    chats.value = new Map([...chats.peek(), ...page.chats.map(entryOf)]);
    next.value = page.next;
    tellChanged(page.chats.map((chat) => chat.chatId));
  });
}

/**
 * Read a chat, which may be none of those that were read so far.
 * @param {number} chatId
 */
export function readChat(chatId) {
  return events.read(() => get(`/api/chats/${chatId}`), putChat);
}

/**
 * Apply the daemon's data of a chat.
 * @param {Partial<Chat> & { chatId: number }} update
 */
export function putChat(update) {
  const known = chats.peek().get(update.chatId);
  const merged = { waiting: 0, problem: "", state: "created", ...known, ...update };
  chats.value = new Map(chats.peek()).set(update.chatId, /** @type {Chat} */ (merged));
  tellChanged([update.chatId]);
}

/**
 * Show a change of a chat, unless it is gone meanwhile.
 * @param {number} chatId
 * @param {Partial<Chat>} change
 */
export function changeChat(chatId, change) {
  if (chats.peek().has(chatId)) putChat({ ...change, chatId });
}

/** @param {number} chatId */
export function dropChat(chatId) {
  const rest = new Map(chats.peek());
  rest.delete(chatId);
  chats.value = rest;
}

/**
 * Whether it has messages that the person has not seen.
 * @param {Chat} chat
 */
export function isUnseen(chat) {
  return chat.status === "completed" && seen.value !== null && chat.messageCount > (seen.value[chat.chatId] ?? 0);
}

/**
 * Remember that all of a chat was seen.
 * @param {number} chatId
 * @param {boolean} [again] tell it even if it is known: then nobody else needs to be notified
 */
export function markSeen(chatId, again = false) {
  markSeenUpTo(chatId, chats.peek().get(chatId)?.messageCount ?? 0, again);
}

async function loadLabels() {
  try {
    labels.value = (await sendInOrder("labels", () => get("/api/chat-labels"))).labels;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

/** @param {Chat} chat */
function groupOf(chat) {
  if (chat.asking) return "Needs you";
  if (chat.status === "processing") return "At work";
  if (pins.value.includes(chat.chatId)) return "Pinned";
  return dayGroup(chat.updatedAt);
}

/** Chats whose rows are to be read again, for events do not tell all of them. */
const stale = new Set();

/**
 * Read a chat in a moment, and later while it cannot be read.
 * @param {number} chatId
 */
export function refreshSoon(chatId, delay = 250) {
  if (stale.has(chatId)) return;
  stale.add(chatId);
  setTimeout(async () => {
    stale.delete(chatId);
    if (!session.peek()) return;
    try {
      await readChat(chatId);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 404) dropChat(chatId);
      else if (error.passing) refreshSoon(chatId, RETRY);
    }
  }, delay);
}

live.onInterruption((isGap) =>
  void (isGap || loading.peek() !== "ready" ? loadChats() : Promise.all([loadMe(), loadChoices(), loadLabels()])));
events.on("chatUpdate", (chat) => {
  const known = chats.peek().get(chat.chatId);
  const state = chat.status === "completed" ? (known?.state === "error" ? "error" : "completed") : chat.status;
  putChat({ ...chat, state });
  if (!known || known.status !== chat.status) refreshSoon(chat.chatId);
});
events.on("chatDeleted", dropChat);
events.on("queueUpdate", (chatId, prompts) => {
  changeChat(chatId, { waiting: prompts.length });
});
events.on("approvalUpdate", (chatId, approval) => {
  const others = approvals.peek().filter((one) => one.id !== approval.id || one.chatId !== chatId);
  approvals.value = approval.state === "open" ? [...others, { ...approval, chatId }] : others;
  tellChanged([chatId]);
});
events.on("labelsUpdate", () => void loadLabels());
for (const name of ["modelsUpdate", "engineUpdate", "skillsUpdate"]) events.on(name, () => void loadChoices());

/**
 * The question of a card's head, and of a chat's row.
 * @param {Approval} question
 */
export function questionTitle(question) {
  switch (question.kind) {
    case "shell": return "Run this command?";
    case "write": return "Change a file of the workspace?";
    case "outside": return "Change a file outside the workspace?";
    case "read": return "Read this file?";
    case "network": return "Open this address?";
    case "question": return "The agent asks you";
    case "budget": return "Spend more than the limit?";
    default: return `Use ${question.tool || "this tool"}?`;
  }
}
