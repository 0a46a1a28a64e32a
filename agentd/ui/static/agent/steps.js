/** What the agent did, a line for each step: `Read webhooks/handler.py — 88 lines`. */

import { counted } from "../core/counts.js";
import { el, icon } from "../core/el.js";
import { effect, signal } from "../core/signals.js";
import { duration } from "../core/durations.js";
import { diffBoxes, diffCounts, parseDiff } from "../parts/diff.js";

/** @typedef {import("./chat_data.js").Message} Message */

/** @type {Record<string, [icon: string, verb: string]>} */
const KINDS = {
  read: ["eye", "Read"], list: ["folder", "Listed"], find: ["search", "Looked for"], search: ["search", "Searched"],
  count: ["search", "Counted"], outline: ["rows", "Outlined"], edit: ["pencil", "Edited"], write: ["pencil", "Wrote"],
  run: ["terminal", "Ran"], git: ["branch", "Looked at git"], fetch: ["globe", "Opened"],
  websearch: ["globe", "Searched the web for"], cite: ["link", "Cited"], stop: ["stop", "Stopped"],
  approval: ["shield", "Asked"], plan: ["rows", "Planned"], agent: ["spark", "Started an agent"],
};

/** @type {[RegExp, keyof typeof KINDS][]} */
const NAMES = [
  [/^web_?search$/i, "websearch"], [/^web_citations$/, "cite"],
  [/^stop$/, "stop"], [/^approval$/, "approval"], [/git/i, "git"], [/todo|plan/i, "plan"], [/^(run_task|task|agent)$/i, "agent"],
  [/web|fetch|http|browse/i, "fetch"], [/bash|shell|command|exec|terminal/i, "run"], [/edit|patch|replace|change/i, "edit"],
  [/write|create/i, "write"], [/grep|search/i, "search"], [/glob|find/i, "find"], [/list|^ls$/i, "list"],
  [/count/i, "count"], [/outline/i, "outline"], [/read|view|open|cat/i, "read"],
];

/**
 * Parse a tool's message.
 * @param {Message} message
 */
export function readStep(message) {
  const kind = NAMES.find(([pattern]) => pattern.test(message.tool))?.[1] ?? "";
  const [name, verb] = KINDS[kind] ?? ["wrench", message.tool || "Used a tool"];
  const cut = message.content.indexOf("\n\n");
  const use = message.toolUse;
  const input = use?.input ?? (cut < 0 ? message.content : message.content.slice(0, cut));
  const outcome = use?.outcome ?? (cut < 0 ? "" : message.content.slice(cut + 2));
  return {
    kind, icon: name, verb, subject: subjectOf(input), input, outcome: outcome.trim(),
    ok: use?.ok ?? true, seconds: use?.seconds ?? 0, diff: use?.diff ?? "",
  };
}

/**
 * The part of a tool's arguments that people look for: its command, its path, its words.
 * @param {string} input
 */
export function subjectOf(input) {
  const line = input.trim().split("\n", 1)[0] ?? "";
  const named = /(?:^|\s)(?:command|argv|path|file_path|pattern|text|query|url|file)=(.*?)(?=\s\w+=|$)/.exec(line);
  return (named?.[1] ?? line).trim();
}

/**
 * What was decided about an action, by whom, and why.
 * @param {import("../api.d.ts").DecisionView} decided
 * @param {string} content
 */
function decisionNode(decided, content) {
  const [head = "", ...rest] = content.split("\n\n");
  const good = decided.state === "allowed";
  const action = decided.question ? "" : rest.join("\n\n").replace(decided.note, "").trim();
  return el("div", { class: "step decision" }, icon(good ? "check" : decided.state === "withdrawn" ? "stop" : "shield"),
    el("span", { class: "what" }, head, action ? [" ", el("code", null, action)] : null,
      decided.note ? el("span", { class: "why asis", dir: "auto" }, decided.question ? `“${decided.note}”` : decided.note) : null));
}

/**
 * One step; its button shows what was given and what came of it.
 * @param {Message} message
 * @param {import("../core/signals.js").ReadonlySignal<number>} revealed the message that is to be seen whole
 */
export function stepNode(message, revealed) {
  if (message.decision) return decisionNode(message.decision, message.content);
  const step = readStep(message);
  const open = signal(false);
  effect(() => {
    if (revealed.value === message.id) open.value = true;
  });
  const details = Boolean(step.outcome || step.input.includes("\n"));
  const files = step.diff ? parseDiff(step.diff) : [];
  const bad = !step.ok;
  const line = [icon(bad ? "warning" : step.icon),
    el("span", { class: "what" }, step.verb, " ", step.subject ? el("code", null, step.subject) : null),
    el("span", { class: `out${bad ? " bad" : ""}` }, files[0] ? diffCounts(files[0]) : summary(step))];
  return el("div", { class: "stepbox" },
    details
      ? el("button", { class: "step", "aria-expanded": () => String(open.value), onclick: () => (open.value = !open.peek()) }, line)
      : el("div", { class: "step" }, line),
    () => (open.value
      ? el("pre", { class: "output", tabindex: 0 }, step.input.includes("\n") ? `${step.input}\n\n${step.outcome}` : step.outcome)
      : null),
    step.diff ? diffBoxes(step.diff) : null);
}

/**
 * What a step came to, in a few words.
 * @param {ReturnType<typeof readStep>} step
 */
function summary(step) {
  const time = step.seconds >= 0.5 ? ` · ${duration(step.seconds)}` : "";
  const lines = step.outcome ? step.outcome.split("\n") : [];
  const last = lines.at(-1)?.trim() ?? "";
  if (lines.length === 1 && last.length <= 40) return last + time;
  if (step.kind === "run" && last && last.length <= 40) return last + time;
  return (lines.length ? counted(lines.length, "line") : "") + time;
}

/**
 * All steps of a turn in one line: `14 steps · read 9 files, ran 2 commands`.
 * @param {readonly Message[]} messages
 */
export function stepsSummary(messages) {
  const kinds = messages.filter((message) => message.role === "tool" && !message.decision).map((message) => readStep(message).kind);
  const number = (/** @type {string[]} */ ...wanted) => kinds.filter((kind) => wanted.includes(kind)).length;
  const parts = [
    [number("read", "outline"), "read", "file"], [number("edit", "write"), "changed", "file"],
    [number("run"), "ran", "command"], [number("search", "find", "websearch"), "searched", "time"],
  ].filter(([times]) => times).map(([times, verb, noun]) => `${verb} ${times} ${noun}${times === 1 ? "" : "s"}`);
  return [`${kinds.length} ${kinds.length === 1 ? "step" : "steps"}`, parts.join(", ")].filter(Boolean).join(" · ");
}
