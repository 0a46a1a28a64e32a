/** The rules that decide questions, one below the other, each with its removal. */

import { may, post } from "../core/api.js";
import { el } from "../core/el.js";
import { computed } from "../core/signals.js";
import { toast, toastError } from "../parts/toast.js";
import { listView, longList } from "./frame.js";

/** @typedef {import("./setting_row.js").Setting} Setting */
/** @typedef {import("../api.d.ts").ApprovalRule} Rule */

/** @param {import("../core/signals.js").Signal<readonly Setting[]>} settings */
export function ruleList(settings) {
  const view = listView();
  const rules = computed(() => /** @type {Rule[]} */ (settings.value.find((one) => one.name === "approval_rules")?.next ?? []));

  /** @param {number} at */
  async function remove(at) {
    const before = rules.peek();
    try {
      await save(before.filter((_, other) => other !== at));
      toast("The rule is removed", { action: "Undo", onaction: () => void save(before).catch(toastError) });
    } catch (error) {
      toastError(error);
    }
  }

  return el("div", { class: "rules", "aria-label": "Rules", role: "group" }, () => (rules.value.length ? longList(
    rules.value.map((rule, at) => ({ text: textOf(rule), at })), ({ text }) => text,
    ({ text, at }) => el("li", { class: "item" }, el("code", { class: "grow" }, text),
      may("administrator")
        ? el("button", { class: "btn small", changes: "administrator", "aria-label": `Remove the rule ${text}`,
          onclick: () => void remove(at) }, "Remove")
        : null),
    "rules", view) : null));
}

/** @param {readonly Rule[]} rules */
function save(rules) {
  return post("/api/settings/set", { approval_rules: rules });
}

/**
 * Such as `allow · shell · git status*`.
 * @param {Rule} rule
 */
function textOf({ decision, kind, tool, subject }) {
  const parts = [decision, kind, tool === "*" ? "" : tool, subject ?? "*"];
  return parts.filter(Boolean).join(" · ");
}
