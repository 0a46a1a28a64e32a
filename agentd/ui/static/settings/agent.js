/** The settings of `agentd.yml`: what is in force, whose word it is, and what waits; saved by card. */

import { get, may, post } from "../core/api.js";
import { el } from "../core/el.js";
import { computed, effect, signal } from "../core/signals.js";
import { loaded } from "../parts/frame.js";
import { toast } from "../parts/toast.js";
import { ruleList } from "./approval_rules.js";
import { cardDrafts } from "./drafts.js";
import { card, failureLine, follow, settingsPage } from "./frame.js";
import { settingRow, textOf, valueOf } from "./setting_row.js";

/**
 * @typedef {import("./setting_row.js").Setting} Setting
 * @typedef {ReadonlyMap<string, { text: string, base: string }>} Drafts
 */

/** @type {readonly { title: string, text: string, names: readonly string[] }[]} */
const CARDS = [
  { title: "Who answers", text: "The engine of chats that name no model, and how the programs are started.",
    names: ["engine", "codex_command", "claude_command", "acp_command", "opencode_project"] },
  { title: "Questions", text: "The actions that the agent asks a person about first.",
    names: ["approvals", "approval_seconds", "approval_rules"] },
  { title: "Budgets", text: "What chats may cost before they pause and ask.", names: ["budget_per_chat", "budget_per_day", "turn_cost"] },
  { title: "Turns", text: "How long a turn may take, and how many run at once.",
    names: ["turn_steps", "turn_seconds", "silence_seconds", "on_interrupted", "max_parallel_turns", "drain_seconds"] },
  { title: "Address and folders", text: "The address that it listens on, and its workspace.",
    names: ["host", "port", "hosts", "trusted_proxies", "tls", "workspace", "state"] },
  { title: "Sign-in", text: "Besides the people and keys of Configuration.",
    names: ["agent_api_key", "admin_user", "admin_password_hash", "proxy_app_hash"] },
];

const draftsOf = /** @type {typeof cardDrafts<Drafts>} */ (cardDrafts)();

/** @returns {import("../core/router.js").Page} */
export function page() {
  const read = loaded(() => get("/api/settings/all"), ({ settings }) => show(settings));
  return settingsPage("Agent", read.node);
}

/** @param {readonly Setting[]} first */
function show(first) {
  const settings = signal(first);
  follow(["settingsUpdate"], (view) => {
    if (view) settings.value = view.settings;
    else void get("/api/settings/all").then((answer) => (settings.value = answer.settings), () => {});
  });
  const named = new Set(CARDS.flatMap((one) => one.names));
  const others = first.map((one) => one.name).filter((name) => !named.has(name));
  const cards = [...CARDS, ...(others.length ? [{ title: "More", text: "", names: others }] : [])];
  return el("div", { class: "loaded" }, cards.map((one) => settingsCard(one, settings)));
}

/**
 * @param {{ title: string, text: string, names: readonly string[] }} about
 * @param {import("../core/signals.js").Signal<readonly Setting[]>} settings
 */
function settingsCard({ title, text, names }, settings) {
  const known = names.filter((name) => settings.peek().some((one) => one.name === name));
  /** What was typed, and what the setting was when one began: by name. */
  const { draft, keep } = draftsOf(title);
  const drafts = signal(/** @type {Drafts} */ (draft ?? new Map()));
  effect(() => keep(drafts.value));
  const failed = signal(/** @type {unknown} */ (null));
  const busy = signal(false);
  const changed = computed(() => drafts.value.size);
  const canSave = settings.peek().some((one) => known.includes(one.name) && may(one.role));

  async function save() {
    /** @type {Record<string, unknown>} */
    const changes = {};
    failed.value = null;
    busy.value = true;
    const sent = drafts.peek();
    try {
      for (const [name, draft] of sent) {
        const setting = settings.peek().find((one) => one.name === name);
        if (setting) changes[name] = valueOf(setting, draft.text);
      }
      await send(changes, sent);
    } catch (error) {
      failed.value = error;
    }
    busy.value = false;
  }

  /**
   * @param {Record<string, unknown>} changes
   * @param {Drafts} sent what was typed of them until now; what is typed from now on is kept
   */
  async function send(changes, sent) {
    const answer = await post("/api/settings/set", changes);
    settings.value = settings.peek().map((one) => answer.settings.find((/** @type {Setting} */ next) => next.name === one.name) ?? one);
    const isSaved = (/** @type {string} */ name, /** @type {string} */ text) => name in changes && sent.get(name)?.text === text;
    drafts.value = new Map([...drafts.peek()].filter(([name, { text }]) => !isSaved(name, text)).map(([name, draft]) => {
      const setting = name in changes ? settings.peek().find((one) => one.name === name) : undefined;
      return [name, setting ? { ...draft, base: textOf(setting) } : draft];
    }));
    const waits = answer.settings.filter((/** @type {Setting} */ one) => one.waits).map((/** @type {Setting} */ one) => one.name);
    toast(waits.length ? `Saved; ${waits.join(", ")} waits for a restart` : "Saved");
  }

  /** @param {string} name */
  async function clear(name) {
    failed.value = null;
    try {
      await send({ [name]: null }, drafts.peek());
    } catch (error) {
      failed.value = error;
    }
  }

  return card({ title, text },
    known.map((name) => settingRow(name, settings, drafts, clear)),
    known.includes("approval_rules") ? ruleList(settings) : null,
    el("div", { role: "alert" }, () => (failed.value ? el("div", { class: "inside" }, failureLine(failed.value)) : null)),
    canSave ? el("footer", null,
      el("span", { class: "grow" }, () => (changed.value ? `${changed.value} not saved` : "Saved to agentd.yml; its comments are kept")),
      () => (changed.value ? el("button", { class: "btn plain", onclick: () => (drafts.value = new Map()) }, "Discard") : null),
      el("button", { class: "btn main", changes: "manager", disabled: () => !changed.value || busy.value, onclick: () => void save() },
        "Save")) : null);
}
