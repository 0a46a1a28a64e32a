/** Beside a chat: what is changed, what it spent and how it is set, and an outline of its prompts. */

import { remove } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { computed, detached, effect, onEnd } from "../core/signals.js";
import { usd } from "../core/money.js";
import { fullTime } from "../core/time.js";
import { revealHidden } from "../parts/approval.js";
import { toast, toastError } from "../parts/toast.js";
import { decisionState, makerOf } from "../settings/frame.js";

/** @typedef {import("./chat_data.js").ChatData} ChatData */

const TABS = [["changes", "Changes"], ["details", "Details"], ["outline", "Outline"]];

/**
 * @param {ChatData} chat
 * @param {string} which
 * @param {(which: string) => void} show
 * @param {(text: string) => void} insert puts text into the draft
 */
export function chatPanel(chat, which, show, insert) {
  return el("aside", { class: "panel", "aria-label": "This chat" },
    el("nav", { class: "tabs", "aria-label": "Panel" },
      TABS.map(([name = "", label]) => el("button", { "aria-current": name === which ? "true" : null, onclick: () => show(name) }, label)),
      el("span", { class: "grow" }),
      el("button", { class: "btn plain icon small", "aria-label": "Close the panel", onclick: () => show("none") }, icon("close"))),
    which === "outline" ? outline(chat) : which === "changes" ? changes(chat, insert) : [details(chat), decisions(chat)]);
}

/**
 * What is changed in the workspace, or in the chat's own work tree; the module is loaded once it is wanted.
 * @param {ChatData} chat
 * @param {(text: string) => void} insert
 */
function changes(chat, insert) {
  const holder = el("div", { class: "changes-holder" });
  /** Whether the chat has a work tree; null: not known yet. */
  const apart = computed(() => chat.work.value?.settings.worktree ?? null);
  let ended = false;
  let end = () => {};
  onEnd(() => {
    ended = true;
    end();
  });
  /** @param {boolean} wanted */
  async function show(wanted) {
    const make = wanted
      ? await import("../workspace/worktree_panel.js").then(({ worktreePanel }) => () => worktreePanel(chat, insert))
      : await import("../workspace/changes_panel.js").then(({ changesPanel }) => () => changesPanel(insert));
    if (ended || apart.peek() !== wanted) return;
    end();
    const [panel, finish] = detached(make);
    end = finish;
    holder.replaceChildren(panel);
  }
  effect(() => {
    if (apart.value !== null) void show(apart.value);
  });
  return holder;
}

/** @param {ChatData} chat */
function details(chat) {
  return el("section", { class: "sect" }, el("h2", null, "This chat"), () => {
    const work = chat.work.value;
    if (!work) return null;
    const rows = [
      ["Spent", usd(work.chat.totalCost)], ["Messages", String(work.chat.messageCount)],
      ["Engine", work.turn?.engine ?? ""], ["Model", work.turn?.model || work.settings.model || "default"],
      ["Mode", work.settings.mode],
      ["Skill", work.settings.skill === "none" ? "" : work.settings.skill],
      ["Questions", work.settings.approvals || "as the settings say"],
      ["Works in", work.settings.worktree ? "its own work tree" : "the workspace"],
      ["Processes", work.settings.keepProcesses ? "go on after a turn" : ""],
      ["Created", fullTime(work.chat.createdAt)],
    ];
    return el("dl", { class: "kv" },
      rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
  });
}

/**
 * What a person allowed or denied for the whole chat.
 * @param {ChatData} chat
 */
function decisions(chat) {
  const known = computed(() => chat.work.value?.standingDecisions ?? []);
  /** @param {import("../api.d.ts").ApprovalView} decided */
  async function withdraw(decided) {
    try {
      await remove(`/api/chat/${decided.chatId}/approvals/${decided.id}`);
      toast("Withdrawn: it no longer holds for this chat");
    } catch (error) {
      toastError(error, () => void withdraw(decided));
    }
  }
  return () => known.value.length === 0 ? null : el("section", { class: "sect" }, el("h2", null, "Decided for this chat"),
    el("ul", { class: "standing" }, known.value.map((decided) => el("li", null,
      decisionState({ decision: decided.state === "allowed" ? "allowed" : "denied" }),
      el("button", { class: "btn small", changes: "manager", "aria-label": `Withdraw the decision about ${decided.subject.slice(0, 100)}`,
        onclick: () => void withdraw(decided) }, "Withdraw"),
      el("code", { class: "asis", dir: "auto" }, revealHidden(decided.subject)),
      el("span", { class: "by" }, `${decided.tool}, by ${makerOf(decided.answeredBy)}, ${fullTime(decided.answeredAt ?? "")}`)))));
}

/** @param {ChatData} chat */
function outline(chat) {
  return el("section", { class: "sect" }, el("h2", null, "Prompts"),
    () => el("ol", { class: "outline" }, chat.turns.value.filter((turn) => turn.prompt).map((turn) => el("li", null,
      el("button", { dir: "auto", onclick: () => document.getElementById(`m${turn.key}`)?.scrollIntoView({ block: "start" }) },
        turn.prompt?.content.split("\n", 1)[0])))));
}
