/**
 * Prompts on their way: each waits here until the daemon has it on disk, also over a reload or while
 * agentd does not answer. Each has a key, so that sending it again never queues it twice.
 */

import { ApiError, newKey, post, session } from "../core/api.js";
import { beginningOf } from "../core/counts.js";
import * as live from "../core/live.js";
import { computed, effect, signal } from "../core/signals.js";
import * as store from "../core/store.js";
import { keepKnown } from "./choices.js";

/**
 * @typedef {{ key: string, chatId: number | null, text: string, model?: string, skill?: string, mode?: string, worktree?: boolean,
 *   notBefore?: string, outputSchema?: object, failed?: string, hindered?: string }} Outgoing `failed`: why the daemon refused it for
 *   good, `hindered`: why for now, such as a full disk
 */

const RETRY = 3000;

export const outbox = signal(/** @type {readonly Outgoing[]} */ ([]));
/** @type {Map<string, (result: any) => void>} */
const waiting = new Map();
let delivering = false;
/** Whether there was more to deliver since the last look. */
let more = false;

/**
 * Send a prompt to a chat, or begin a chat with it.
 * @param {Omit<Outgoing, "key">} prompt
 * @returns {Promise<any>} the daemon's answer, once it has it
 */
export function send(prompt) {
  const entry = { ...prompt, key: newKey() };
  change([...outbox.peek(), entry]);
  return new Promise((resolve) => {
    waiting.set(entry.key, resolve);
    void deliver();
  });
}

/** @param {string} key */
export function discard(key) {
  change(outbox.peek().filter((one) => one.key !== key));
}

/** @param {string} key */
export function sendAgain(key) {
  for (const one of outbox.peek()) if (one.key === key) note(one, { failed: "" });
  void deliver();
}

/**
 * @param {Outgoing} entry
 * @param {Pick<Outgoing, "failed" | "hindered">} what
 */
function note(entry, what) {
  change(outbox.peek().map((one) => (one.key === entry.key ? { ...one, ...what } : one)));
}

/** Send what waits, in its order, in one tab at a time. */
export async function deliver() {
  more = true;
  if (delivering) return;
  delivering = true;
  try {
    while (more) {
      more = false;
      if ("locks" in navigator) await navigator.locks.request("agentd-outbox", deliverAll);
      else await deliverAll();
    }
  } finally {
    delivering = false;
  }
}

async function deliverAll() {
  for (;;) {
    const entry = outbox.peek().find((one) => !one.failed);
    if (!entry) return;
    try {
      const answer = await deliverOne(entry);
      discard(entry.key);
      waiting.get(entry.key)?.(answer);
      waiting.delete(entry.key);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.passing || error.status === 401) {
        const hindered = error.passing && error.status ? error.message : "";
        if ((entry.hindered ?? "") !== hindered) note(entry, { hindered });
        setTimeout(() => void deliver(), RETRY);
        return;
      }
      note(entry, { failed: error.message });
    }
  }
}

/** @param {Outgoing} entry */
async function deliverOne({ chatId, text, model, skill, mode, worktree, notBefore, outputSchema, key }) {
  const wishes = { ...(notBefore ? { notBefore } : {}), ...(outputSchema ? { outputSchema } : {}) };
  if (chatId !== null) return post(`/api/chat/${chatId}/send`, { prompt: text, ...(model ? { model } : {}), ...wishes }, key);
  const known = await keepKnown({ model, skill });
  const chosen = { ...known, ...(mode ? { mode } : {}), ...(worktree ? { worktree } : {}) };
  return post("/api/chats", { prompt: text, title: titleOf(text), ...chosen, ...wishes }, key);
}

/**
 * A chat's title, until somebody gives it a better one: the first line of its prompt.
 * @param {string} text
 */
export function titleOf(text) {
  const line = text.trim().split("\n", 1)[0]?.trim() ?? "";
  return line.length <= 72 ? line : `${beginningOf(line, 71).replace(/\s+\S*$/, "")}…`;
}

/** @param {readonly Outgoing[]} next */
function change(next) {
  outbox.value = next;
  store.write("outbox", next.length ? next : null);
}

const takeKept = () => (outbox.value = store.read("outbox", []));
store.onChange("outbox", takeKept);
const user = computed(() => session.value?.user);
effect(() => {
  if (user.value !== undefined) takeKept();
});
effect(() => {
  if (live.state.value === "live" && outbox.peek().length) void deliver();
});
