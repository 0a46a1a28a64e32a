/** One chat as its page shows it: read once, then followed by events. */

import { ApiError, get } from "../core/api.js";
import * as live from "../core/live.js";
import { computed, onEnd, signal } from "../core/signals.js";
import { approvals } from "./chats.js";

/**
 * @typedef {import("../api.d.ts").WholeMessageView} Message
 * @typedef {import("../api.d.ts").PromptView} Prompt
 * @typedef {import("../api.d.ts").ChatAgentView} Work
 * @typedef {import("../api.d.ts").RunningReplyView} Growing
 * @typedef {{ key: number, prompt: Message | null, items: Message[], last: boolean }} Turn
 */

const PAGE = 60;
/** Messages that are kept at once; what is beyond is read again when one scrolls there. */
const MOST = 300;
/** Milliseconds until what the daemon did not answer is asked again. */
const RETRY = 2000;
const NONE = { turn: 0, text: "", number: 0, seq: 0, thinking: "", thinkingNumber: 0 };

/**
 * Follow a chat while what is being made now lasts.
 * @param {number} chatId
 * @param {{ isAtEnd: () => boolean, keepPlace: (change: () => void) => void }} view whether the end is
 *   in sight; runs a change of the messages so that what is in sight stays there
 */
export function followChat(chatId, { isAtEnd, keepPlace }) {
  const work = signal(/** @type {Work | null} */ (null));
  const messages = signal(/** @type {readonly Message[]} */ ([]));
  const queue = signal(/** @type {readonly Prompt[]} */ ([]));
  const growing = signal(/** @type {Growing} */ (NONE));
  const earlier = signal(false);
  const later = signal(false);
  const error = signal(/** @type {ApiError | null} */ (null));
  /** The message that is to be seen though its turn is folded; 0: none. */
  const revealed = signal(0);
  /** How much of the growing text is a message by now, which is being read, and the `seq` of that. */
  let [settled, settledAt] = [0, 0];
  const path = `/api/chat/${chatId}`;
  const events = live.follower();
  /** @type {Set<ReturnType<typeof setTimeout>>} */
  const retries = new Set();

  /** Do later what failed for now. @param {() => Promise<void>} action */
  function again(action) {
    const timer = setTimeout(() => {
      retries.delete(timer);
      void action();
    }, RETRY);
    retries.add(timer);
  }

  /** @param {Record<string, number>} range @returns {Promise<{ messages: Message[], earlier: boolean, later: boolean }>} */
  const page = (range) => get(`${path}/messages`, { ...range, html: 1 });

  let [loads, taken] = [0, 0];
  /** Whether the messages that were asked for last are not there yet. */
  const isLoading = () => loads > taken;

  async function load(around = 0) {
    const ours = ++loads;
    try {
      await events.read(() => Promise.all([
        get(path), page(around ? { after: Math.max(0, around - 10), limit: PAGE } : { limit: PAGE }), get(`/api/MessageQueue/${chatId}`),
      ]), ([answer, shown, waiting]) => {
        if (ours < taken) return; // others were asked for since
        taken = ours;
        growing.value = NONE;
        settled = 0;
        takeWork(answer);
        messages.value = shown.messages;
        earlier.value = shown.earlier;
        later.value = shown.later;
        queue.value = waiting.prompts;
        error.value = null;
      });
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      if (!work.peek()) error.value = problem;
      else if (problem.passing && ours === loads) again(() => load(around));
    }
  }

  /** @param {Work} answer */
  function takeWork(answer) {
    work.value = answer;
    const reply = answer.runningReply;
    if (!answer.turn) growing.value = NONE;
    else if (reply && (reply.turn !== growing.peek().turn || reply.number > growing.peek().number)) {
      growing.value = reply;
      settled = 0;
    } else if (reply && reply.thinkingNumber > growing.peek().thinkingNumber) {
      const { thinking, thinkingNumber } = reply;
      growing.value = { ...growing.peek(), thinking, thinkingNumber };
    }
  }

  const refresh = coalesced(() => events.read(() => get(path), takeWork), again);

  const sync = coalesced(async () => {
    while (!later.peek() && work.peek()) {
      const last = messages.peek().at(-1)?.id ?? 0;
      const fresh = await page({ after: last, limit: 200 });
      if ((messages.peek().at(-1)?.id ?? 0) !== last) continue; // others are shown by now
      if (fresh.messages.some((message) => message.role === "assistant")) {
        const { text, seq } = growing.peek();
        growing.value = { ...growing.peek(), text: text.slice(settled), seq: Math.max(seq, settledAt) };
        settled = 0;
      }
      if (!isAtEnd() && messages.peek().length + fresh.messages.length > MOST) {
        later.value = true; // what one reads would be among what is let go
        return;
      }
      if (fresh.messages.length) keep([...messages.peek(), ...fresh.messages], "end");
      if (!fresh.later) return;
    }
  }, again);

  /**
   * @param {Message[]} all
   * @param {"start" | "end"} side
   */
  function keep(all, side) {
    keepPlace(() => {
      if (all.length > MOST && side === "end") {
        earlier.value = true;
        messages.value = all.slice(-MOST);
      } else if (all.length > MOST) {
        later.value = true;
        messages.value = all.slice(0, MOST);
      } else {
        messages.value = all;
      }
    });
  }

  const loadEarlier = coalesced(async () => {
    const first = messages.peek()[0];
    if (!earlier.peek() || !first) return;
    const before = await page({ before: first.id, limit: PAGE });
    if (messages.peek()[0]?.id !== first.id) return; // others are shown by now
    earlier.value = before.earlier;
    keep([...before.messages, ...messages.peek()], "start");
  }, again);

  const loadLater = coalesced(async () => {
    const last = messages.peek().at(-1);
    if (!later.peek() || !last) return;
    const after = await page({ after: last.id, limit: PAGE });
    if (messages.peek().at(-1)?.id !== last.id) return; // others are shown by now
    later.value = after.later;
    keep([...messages.peek(), ...after.messages], "end");
  }, again);

  /** @param {(id: number, ...rest: any[]) => void} action @returns {(id: number, ...rest: any[]) => void} */
  const ours = (action) => (id, ...rest) => id === chatId && action(id, ...rest);
  const ends = [
    events.on("messageUpdate", ours((_, message, seq) => {
      const reply = growing.peek();
      if (message.role === "assistant" && seq > reply.seq) { // else it is no part of what grows now
        if (message.id > (messages.peek().at(-1)?.id ?? 0)) [settled, settledAt] = [reply.text.length, seq];
        else growing.value = { ...reply, text: "", seq };
      }
      if (growing.peek().thinking && seq > reply.seq) growing.value = { ...growing.peek(), thinking: "" };
      void sync();
    })),
    events.on("queueUpdate", ours((_, prompts) => (queue.value = prompts))),
    live.on("chatUpdate", (chat) => chat.chatId === chatId && void refresh()),
    live.onInterruption((isGap) => isGap || void refresh()),
    events.on("messageDelta", ours((_, { turn, text, number }) => {
      const known = growing.peek();
      if (turn < known.turn || (turn === known.turn && number <= known.number)) return;
      if (number > (turn === known.turn ? known.number : 0) + 1) return void refresh(); // some were missed
      if (turn !== known.turn) settled = 0;
      growing.value = { ...inTurn(known, turn), text: turn === known.turn ? known.text + text : text, number };
    })),
    events.on("thinkingDelta", ours((_, { turn, text, number }) => {
      const known = growing.peek();
      if (turn < known.turn) return;
      const now = inTurn(known, turn);
      if (number <= now.thinkingNumber) return;
      if (number > now.thinkingNumber + 1) return void refresh(); // some were missed
      if (turn !== known.turn) settled = 0;
      growing.value = { ...now, thinking: now.thinking + text, thinkingNumber: number };
    })),
  ];
  onEnd(() => {
    ends.forEach((end) => end());
    retries.forEach(clearTimeout);
  });

  const questions = computed(() => approvals.value.filter((one) => one.chatId === chatId));
  const working = computed(() => work.value?.state === "processing" || Boolean(work.value?.turn));
  const turns = computed(() => groupTurns(messages.value));
  return {
    chatId, work, revealed, messages, queue, growing, earlier, later, error, questions, working, turns,
    load, isLoading, loadEarlier, loadLater, refresh,
  };
}

/**
 * What grows in a turn, as far as it is known: nothing of an earlier turn.
 * @param {Growing} known
 * @param {number} turn
 * @returns {Growing}
 */
function inTurn(known, turn) {
  return turn === known.turn ? known : { ...NONE, turn, seq: known.seq };
}

/** @typedef {ReturnType<typeof followChat>} ChatData */

/**
 * A prompt with all that came of it.
 * @param {readonly Message[]} messages
 * @returns {Turn[]}
 */
export function groupTurns(messages) {
  /** @type {Turn[]} */
  const turns = [];
  for (const message of messages) {
    const current = turns.at(-1);
    if (message.role === "user") turns.push({ key: message.id, prompt: message, items: [], last: false });
    else if (current) current.items.push(message);
    else turns.push({ key: message.id, prompt: null, items: [message], last: false });
  }
  const last = turns.at(-1);
  if (last) last.last = true;
  return turns;
}

/**
 * One call at a time; what is asked meanwhile is done once more afterwards.
 * @param {() => Promise<void>} action
 * @param {(action: () => Promise<void>) => void} later does it later, as when the daemon did not answer
 * @returns {() => Promise<void>}
 */
function coalesced(action, later) {
  let running = /** @type {Promise<void> | null} */ (null);
  let again = false;
  const run = async () => {
    do {
      again = false;
      try {
        await action();
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.passing) later(call);
      }
    } while (again);
    running = null;
  };
  const call = () => {
    if (running) again = true;
    else running = run();
    return running;
  };
  return call;
}
