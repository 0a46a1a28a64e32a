/** The script of a chat: each prompt, the steps of the agent, the reply, and what it cost. */

import { may } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { list } from "../core/list.js";
import { count } from "../core/counts.js";
import { usd } from "../core/money.js";
import { computed, effect, signal } from "../core/signals.js";
import { duration } from "../core/durations.js";
import { clockTime, fullTime, ticking } from "../core/time.js";
import { growingProse, prose, structured, copyText } from "../parts/prose.js";
import { stepNode, stepsSummary, subjectOf } from "./steps.js";

/** @typedef {import("./chat_data.js").Message} Message */
/** @typedef {import("./chat_data.js").Turn} Turn */
/** @typedef {import("./chat_data.js").ChatData} ChatData */
/** @typedef {{ id: number, message: Message | null, steps: readonly Message[] }} Row */

/**
 * All turns that are shown.
 * @param {ChatData} chat
 * @param {(prompt: string) => void} send what a reply's button does
 */
export function turnList(chat, send) {
  const script = el("div", { class: "turns" });
  list(script, () => chat.turns.value, (turn) => turn.key, (turn) => turnNode(chat, turn, send));
  return script;
}

/**
 * @param {ChatData} chat
 * @param {import("../core/signals.js").ReadonlySignal<Turn>} turn
 * @param {(prompt: string) => void} send
 */
function turnNode(chat, turn, send) {
  const { key, prompt } = turn.peek();
  const unfolded = signal(false);
  const running = computed(() => turn.value.last && !chat.later.value && chat.working.value);
  const steps = computed(() => turn.value.items.filter((message) => message.role === "tool").length);
  const folded = computed(() => !running.value && steps.value > 0 && !unfolded.value);
  effect(() => {
    if (turn.value.items.some((message) => message.id === chat.revealed.value)) unfolded.value = true;
  });
  const final = computed(() => turn.value.items.findLast((message) => message.role === "assistant")?.id ?? 0);
  const flow = el("div", { class: "steps" });
  const rows = computed(() => nest(turn.value.items));
  list(flow, () => rows.value, (row) => row.id, (row) => {
    const { id, message } = row.peek();
    const role = message?.role ?? "tool";
    const asked = () => role === "tool" && chat.questions.value.some((one) => one.id === id);
    const hidden = () => asked() || (folded.value && (role === "tool" || (role === "assistant" && id !== final.value)));
    const inner = nestedSteps(row, chat.revealed);
    const shown = computed(() => row.value.message ?? message);
    if (!message) return el("div", { class: "item-tool", hidden }, agentNode(chat, -id), inner);
    return el("div", { class: `item-${role}`, id: `m${id}`, hidden },
      () => (shown.value ? messageNode(shown.value, send, chat.revealed) : null), inner);
  });
  return el("section", { class: "turn", id: prompt ? `m${key}` : null, "aria-label": "Turn" },
    prompt ? promptNode(prompt) : null,
    () => (steps.value && !running.value ? foldButton(turn.value, unfolded) : null),
    flow,
    () => (turn.value.last && running.value ? runningNode(chat) : null),
    () => (running.value ? null : endsNode(turn.value)));
}

/**
 * Put the steps of sub-agents below the step that started them. One that is at work has no message
 * so far: it stands where its first step does, and its id is its number with a minus.
 * @param {readonly Message[]} items
 * @returns {Row[]}
 */
export function nest(items) {
  const parents = new Map(items.map((one) => [one.toolUse?.number ?? 0, one.toolUse?.parent ?? 0]));
  const known = (/** @type {number} */ number) => number > 0 && parents.has(number);
  /** @param {number} number */
  const top = (number) => {
    let up = number;
    for (let next = parents.get(up) ?? 0; next > 0 && next < up; next = parents.get(up) ?? 0) up = next;
    return up;
  };
  /** @type {{ id: number, message: Message | null, steps: Message[] }[]} */
  const rows = [];
  /** @type {Map<number, Message[]>} */
  const inner = new Map();
  for (const message of items) {
    const { number = 0, parent = 0 } = message.toolUse ?? {};
    const over = parent ? top(parent) : 0;
    if (!over) {
      const steps = inner.get(number) ?? [];
      if (number) inner.set(number, steps);
      rows.push({ id: message.id, message, steps });
      continue;
    }
      const steps = inner.get(over) ?? [];
    if (!inner.has(over)) {
      inner.set(over, steps);
      if (!known(over)) rows.push({ id: -over, message: null, steps });
    }
    steps.push(message);
  }
  return rows;
}

/**
 * What a sub-agent did, folded.
 * @param {import("../core/signals.js").ReadonlySignal<Row>} row
 * @param {import("../core/signals.js").ReadonlySignal<number>} revealed
 */
function nestedSteps(row, revealed) {
  const open = signal(false);
  effect(() => {
    if (row.value.steps.some((one) => one.id === revealed.value)) open.value = true;
  });
  const steps = el("div", { class: "nested", hidden: () => !open.value });
  list(steps, () => (open.value ? row.value.steps : []), (one) => one.id,
    (one) => el("div", { id: `m${one.peek().id}` }, () => stepNode(one.value, revealed)));
  return el("div", { hidden: () => !row.value.steps.length },
    el("button", { class: "sum", "aria-expanded": () => String(open.value), onclick: () => (open.value = !open.peek()) },
      icon("right"), () => stepsSummary(row.value.steps)),
    steps);
}

/**
 * The beginning of a sub-agent that is at work.
 * @param {ChatData} chat
 * @param {number} number
 */
function agentNode(chat, number) {
  const started = () => chat.work.value?.turn?.tools.find((one) => one.number === number);
  if (!started()) void chat.refresh();
  return el("div", { class: "step" }, icon("spark"),
    el("span", { class: "what" }, "Started an agent ", () => (started() ? el("code", null, subjectOf(started()?.input ?? "")) : null)),
    el("span", { class: "out" }, () => (started() ? "at work" : "")));
}

/** @param {Message} prompt */
function promptNode(prompt) {
  return el("div", { class: "prompt" },
    el("div", { class: "by" }, el("b", null, "You"), " ",
      el("time", { datetime: prompt.createdAt, title: fullTime(prompt.createdAt) }, clockTime(prompt.createdAt))),
    prompt.html ? prose(prompt.content, prompt.html, prompt.htmlCut) : el("div", { class: "asis", dir: "auto" }, prompt.content));
}

/**
 * @param {Turn} turn
 * @param {import("../core/signals.js").Signal<boolean>} unfolded
 */
function foldButton(turn, unfolded) {
  const seconds = secondsOf(turn);
  return el("button", { class: "sum", "aria-expanded": () => String(unfolded.value), onclick: () => (unfolded.value = !unfolded.peek()) },
    icon("right"), `Worked${seconds ? ` ${duration(seconds)}` : ""} · ${stepsSummary(turn.items)}`);
}

/**
 * @param {Message} message
 * @param {(prompt: string) => void} send
 * @param {import("../core/signals.js").ReadonlySignal<number>} revealed
 */
function messageNode(message, send, revealed) {
  if (message.role === "tool") return stepNode(message, revealed);
  if (message.role === "error") {
    return el("div", { class: "failure", role: "note" }, icon("warning"), el("span", { class: "asis" }, message.content));
  }
  if (message.output) return structured(message.output);
  const { text, buttons } = splitButtons(message.content);
  return [prose(text, message.html, message.htmlCut),
    buttons.length && may("manager")
      ? el("div", { class: "choices" },
        buttons.map(({ label, prompt }) => el("button", { class: "btn small", onclick: () => send(prompt) }, label)))
      : null];
}

/** What the model thinks, folded: most people wait for what it says. @param {ChatData} chat */
function thinkingNode(chat) {
  const thinks = computed(() => chat.growing.value.thinking !== "");
  const open = signal(false);
  return () => thinks.value
    ? el("div", { class: "stepbox thinking" },
        el("button", { class: "step", "aria-expanded": () => String(open.value), onclick: () => (open.value = !open.peek()) },
          icon("spark"), el("span", { class: "what" }, "Thinking"),
          el("span", { class: "out" }, () => words(chat.growing.value.thinking))),
        () => (open.value ? el("div", { class: "output asis", dir: "auto", tabindex: 0 }, () => chat.growing.value.thinking.trim()) : null))
    : null;
}

/** @param {string} text */
function words(text) {
  const number = text.trim().split(/\s+/).length;
  return number === 1 ? "1 word" : `${count(number)} words`;
}

/** @param {ChatData} chat */
function runningNode(chat) {
  const tick = ticking();
  const writes = computed(() => chat.growing.value.text !== "");
  return el("div", { class: "running" },
    thinkingNode(chat),
    () => (writes.value ? growingProse(() => chat.growing.value.text) : null),
    el("div", { class: "ends" }, () => {
      const turn = chat.work.value?.turn;
      if (chat.questions.value.length)
        return el("span", { class: "state need" }, el("span", { class: "dot need" }), "Waits for your answer");
      if (!turn) return el("span", { class: "state run" }, el("span", { class: "dot run beat" }), "At work");
      const tool = turn.lastTool && !chat.growing.value.text ? ` · ${turn.lastTool}` : "";
      return [el("span", { class: "state run" }, el("span", { class: "dot run beat" }), `At work${tool}`),
        el("span", null, duration(Math.max(0, (tick.value - Date.parse(turn.since)) / 1000))),
        turn.model ? el("span", null, turn.model) : null];
    }));
}

/** @param {Turn} turn */
function endsNode(turn) {
  const replies = turn.items.filter((message) => message.role === "assistant");
  if (!replies.length) return null;
  const sum = (/** @type {(message: Message) => number} */ of) => replies.reduce((total, message) => total + of(message), 0);
  const [input, output, cost] = [sum((one) => one.tokens.input), sum((one) => one.tokens.output), sum((one) => one.cost)];
  const seconds = secondsOf(turn);
  return el("div", { class: "ends" },
    input + output ? el("span", null, `${count(input)} in · ${count(output)} out`) : null,
    cost ? el("span", null, usd(cost)) : null,
    seconds ? el("span", null, duration(seconds)) : null,
    el("button", { class: "btn plain icon small", "aria-label": "Copy the reply", title: "Copy the reply",
      onclick: () => void copyText(replies.at(-1)?.content ?? "") }, icon("copy")));
}

/** @param {Turn} turn */
function secondsOf(turn) {
  const last = turn.items.at(-1);
  const seconds = turn.prompt && last ? (Date.parse(last.createdAt) - Date.parse(turn.prompt.createdAt)) / 1000 : 0;
  return seconds < 0.1 ? 0 : seconds;
}

/**
 * A reply without the `[[Label|prompt]]` marks at its end, and these as buttons.
 * @param {string} reply
 */
export function splitButtons(reply) {
  const lines = reply.trimEnd().split("\n");
  /** @type {{ label: string, prompt: string }[]} */
  const buttons = [];
  while (lines.length && /^\s*(?:\[\[[^[\]\n]+\]\]\s*)+$/.test(lines.at(-1) ?? "")) {
    const marks = [...(lines.pop() ?? "").matchAll(/\[\[([^[\]\n]+)\]\]/g)].map(([, mark = ""]) => {
      const [label = "", prompt = label] = mark.split("|", 2);
      return { label, prompt };
    });
    buttons.unshift(...marks);
  }
  return { text: lines.join("\n"), buttons };
}
