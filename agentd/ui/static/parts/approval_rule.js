/** Answers a question by a rule of the settings, which is shown, and can be edited, before it is stored. */

import { ApiError, post } from "../core/api.js";
import { el } from "../core/el.js";
import { navigate } from "../core/router.js";
import { signal } from "../core/signals.js";
import { openDialog } from "./dialog.js";
import { failureNote } from "./fields.js";
import { toast } from "./toast.js";

/** @typedef {import("../agent/chats.js").Approval} Approval */

/**
 * @param {Approval} question
 * @param {"allow" | "deny"} decision
 * @param {string} note to the agent
 */
export function decideByRule(question, decision, note) {
  const title = decision === "allow" ? "Always allow" : "Always deny";
  void openDialog(title, (close) => {
    const subject = signal(subjectOf(question));
    const failure = signal(/** @type {unknown} */ (null));
    const busy = signal(false);
    const rule = () => makeRule(question, decision, subject.value);

    /** @param {Event} event */
    async function send(event) {
      event.preventDefault();
      if (busy.peek()) return;
      busy.value = true;
      failure.value = null;
      try {
        await post(`/api/chat/${question.chatId}/approvals/${question.id}`, { decision, note, rule: rule() });
        close();
        toast("The rule is stored", { action: "Show the rules", onaction: () => void navigate("/settings/agent") });
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) {
          close();
          toast("This question is no longer open");
        }
        failure.value = error;
      }
      busy.value = false;
    }

    return [el("form", { onsubmit: (/** @type {Event} */ event) => void send(event) },
      el("p", null, "This rule is added to the settings with your answer. It decides in all chats, until it is removed there."),
      el("label", { class: "labelled" }, el("span", null, "What it matches"),
        el("textarea", { class: "input", rows: 2, autofocus: true, required: true, spellcheck: "false", autocapitalize: "none",
          oninput: (/** @type {any} */ event) => (subject.value = event.target.value) }, subject.peek()),
        el("small", null, "* stands for anything, ? for one character, [*] for the character.")),
      el("pre", { class: "code command", tabindex: 0, "aria-label": "The rule" }, el("code", null, () => showRule(rule()))),
      failureNote(failure),
      el("footer", null,
        el("button", { class: "btn", type: "button", onclick: () => close() }, "Cancel"),
        el("button", { class: "btn main", changes: "administrator", disabled: () => busy.value }, title)))];
  });
}

/**
 * The pattern that matches this action and no other; of an MCP server's tool, whatever its arguments.
 * @param {Approval} question
 */
function subjectOf({ kind, tool, subject }) {
  return kind === "other" && tool.startsWith("mcp__") ? "*" : escapePattern(subject);
}

/** @param {string} text */
function escapePattern(text) {
  return text.replace(/[*?[]/g, "[$&]");
}

/**
 * The kind says enough, whatever the engine calls its tools, but of other tools.
 * @param {Approval} question
 * @param {"allow" | "deny"} decision
 * @param {string} subject
 */
function makeRule({ kind, tool }, decision, subject) {
  return { decision, kind, ...(kind === "other" ? { tool: escapePattern(tool) } : {}), subject };
}

/**
 * As it is written in `agentd.yml`.
 * @param {Record<string, string>} rule
 */
function showRule(rule) {
  return Object.entries(rule).map(([name, value]) => `${name}: ${value}`).join("\n");
}
