/** A question of the agent: what it wants to do, until when it waits, and the answers. */

import { ApiError, canChange, may, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { onEnd, signal } from "../core/signals.js";
import { countdown } from "../core/durations.js";
import { now, ticking } from "../core/time.js";
import { questionTitle } from "../agent/chats.js";
import { diffLines, parseDiff } from "./diff.js";
import { menuButton } from "./menu.js";
import { toast, toastError } from "./toast.js";

/** @typedef {import("../agent/chats.js").Approval} Approval */

/** Milliseconds after a question appears, or another goes and it moves, in which no click on it counts. */
const GRACE = 400;
let movedAt = -Infinity;

/**
 * The card of a question.
 * @param {Approval} question
 * @returns {{ node: HTMLElement, answer: (decision: "allow" | "deny") => void }}
 */
export function approvalCard(question) {
  const appeared = performance.now(); // no clock that is set meanwhile
  const busy = signal(false);
  onEnd(() => (movedAt = performance.now()));
  const asks = question.kind === "question";
  const [hint, label] = asks ? ["Your answer", "Your answer"] : ["Tell the agent why (optional)", "A note to the agent"];
  const remark = el("input", { class: "input remark", placeholder: hint, "aria-label": label, maxlength: 1000 });

  /** @param {"allow" | "deny"} decision */
  async function answer(decision, session = false, note = remark.value.trim()) {
    if (busy.peek() || performance.now() - Math.max(appeared, movedAt) < GRACE || !canChange()) return;
    busy.value = true;
    try {
      await post(`/api/chat/${question.chatId}/approvals/${question.id}`, { decision, session, note });
    } catch (error) {
      busy.value = false;
      if (error instanceof ApiError && error.status === 404) toast("This question is no longer open");
      else toastError(error, () => void answer(decision, session, note));
    }
  }

  /** @param {"allow" | "deny"} decision */
  async function answerByRule(decision) {
    const { decideByRule } = await import("./approval_rule.js");
    decideByRule(question, decision, remark.value.trim());
  }

  const allow = () => asks && !remark.value.trim() ? remark.focus() : void answer("allow");
  const disabled = () => busy.value;
  const node = el("section", { class: "ask", "aria-label": "A question of the agent", id: `q${question.id}` },
    el("div", { class: "head" }, icon("warning"),
      el("div", null, el("h2", null, questionTitle(question)), question.reason ? el("p", { class: "asis" }, `“${question.reason}”`) : null),
      deadline(question)),
    body(question),
    !may("manager") ? el("p", { class: "nothing" }, "Your role reads only: a manager may answer.") : asks ? el("div", { class: "acts" },
      question.choices.map((choice) =>
        el("button", { class: "btn", changes: "manager", disabled, onclick: () => void answer("allow", false, choice) }, choice)),
      remark,
      el("button", { class: "btn main", changes: "manager", disabled,
        onclick: () => allow() }, "Answer"),
      el("button", { class: "btn plain", changes: "manager", disabled, onclick: () => void answer("deny") }, "No answer"),
    ) : el("div", { class: "acts" },
      el("button", { class: "btn main", changes: "manager", disabled, onclick: () => void answer("allow") },
        "Allow ", el("kbd", null, "A")),
      el("button", { class: "btn", changes: "manager", disabled, onclick: () => void answer("deny") }, "Deny ", el("kbd", null, "D")),
      question.kind === "budget" ? null : menuButton({ class: "btn plain", changes: "manager", disabled }, ["Always…"], () => [
        { label: "Allow this in this chat", note: "The same question is not asked again here", changes: "manager",
          onselect: () => void answer("allow", true) },
        { label: "Deny this in this chat", note: "The same question is answered with no here", changes: "manager",
          onselect: () => void answer("deny", true) },
        { label: "Allow this everywhere…", note: "By a rule that you see first", changes: "administrator",
          onselect: () => void answerByRule("allow").catch(toastError) },
        { label: "Deny this everywhere…", note: "By a rule that you see first", changes: "administrator",
          onselect: () => void answerByRule("deny").catch(toastError) },
      ]),
      remark));
  remark.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    if (!asks) void answer(event.ctrlKey ? "allow" : "deny");
    else allow();
  });
  return { node, answer: (decision) => decision === "allow" ? allow() : void answer(decision) };
}

/** @param {Approval} question */
function deadline(question) {
  const until = question.deadline ? Date.parse(question.deadline) : NaN;
  if (Number.isNaN(until)) return null;
  const tick = ticking();
  return el("span", { class: "left" }, () => {
    void tick.value;
    const left = until - now();
    return left > 0 ? `Denied in ${countdown(left)}` : "Denied: nobody answered in time";
  });
}

/**
 * The proposed action: the diff or the command if the daemon has it, else its subject.
 * @param {Approval} question
 */
function body(question) {
  const { kind = "", text = "" } = question.detail ?? {};
  const files = kind === "diff" ? parseDiff(revealHidden(text)) : [];
  const isPath = ["write", "outside", "read"].includes(question.kind);
  if (question.kind === "question") {
    const end = question.choices.length ? question.subject.indexOf(`\n\n- ${question.choices[0]}`) : undefined;
    return el("p", { class: "subject asis" }, question.subject.slice(0, end));
  }
  if (question.kind === "budget") return el("p", { class: "subject asis" }, question.subject);
  return el("div", { class: "body" },
    isPath && files.length < 2 ? el("header", null, icon("file"), el("code", null, revealHidden(question.subject))) : null,
    files.map((file) => [files.length > 1 ? el("header", null, icon("file"), el("code", null, file.path)) : null, diffLines(file)]).flat(),
    files.length || isPath ? null : el("pre", { class: "code command", tabindex: 0 },
      el("code", null, revealHidden(kind === "command" ? text : question.subject))));
}

/**
 * Characters that hide others or turn them around, by their numbers: what is allowed is what is seen.
 * @param {string} text
 */
export function revealHidden(text) {
  return text.replace(/(?![\n\r\t])[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu,
    (sign) => `<U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
}
