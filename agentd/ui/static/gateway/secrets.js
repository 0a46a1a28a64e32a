/** The rules by which secrets are found in requests, how often each did, and a dry run. */

import { call, get } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { count } from "../core/counts.js";
import { emptyState } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { card } from "../settings/frame.js";
import { dryRun } from "./dry_run.js";
import { createDialog, editDialog } from "./form.js";
import { forAdministrators, gatewayFrame, requestsLink } from "./frame.js";
import { act, resourceList, usualItems } from "./resource_list.js";

/**
 * @typedef {{ id: string, kind: "built-in" | "pattern" | "value", mode: "hide" | "block" | "report", enabled: boolean, description: string,
 *   regex: string, group: number, keywords: string[], entropy: number, allow: { regexes: string[], stopwords: string[] },
 *   value: string }} Rule
 * @typedef {import("./form.js").Field} Field
 */

const MODES = /** @type {const} */ ([
  ["hide", "hide it: a placeholder goes to the supplier"], ["block", "refuse the request"], ["report", "only report it"],
]);
const WORDS = { hide: "hidden", block: "refused", report: "reported" };

const isPattern = (/** @type {(name: string) => string} */ value) => value("what") !== "value";

/** @type {Field} */
const MODE = { name: "mode", label: "When it is found", kind: "choice", options: MODES, initial: "hide" };
/** @type {readonly Field[]} */
const PATTERN = [
  { name: "regex", label: "Pattern", wide: true, hint: "A regular expression in RE2 syntax.", when: isPattern },
  { name: "group", label: "Group", kind: "number", hint: "The number of the group with the secret; 0 for the whole match.",
    initial: "0", when: isPattern },
  { name: "entropy", label: "Entropy", kind: "number", hint: "Minimum bits per character; 0 for any.", initial: "0", when: isPattern },
  { name: "keywords", label: "Keywords", kind: "lines", wide: true,
    hint: "The text must contain one of them, one per line; empty for no condition.", when: isPattern },
  { name: "allow.stopwords", label: "Allowed words", kind: "lines", wide: true,
    hint: "What contains one of them is no secret, such as example; one per line.", when: isPattern },
  { name: "allow.regexes", label: "Allowed patterns", kind: "lines", wide: true,
    hint: "What one of them is found in is no secret; one per line.", when: isPattern },
];
/** @type {Field} */
const VALUE = { name: "value", label: "Value", kind: "secret", wide: true,
  hint: "At least six characters. Stored, and never shown again.", when: (value) => !isPattern(value) };

export const page = forAdministrators("Secret rules", () => {
  /** @type {Record<string, number>} */
  let hits = {};
  const list = resourceList({
    resource: "secret-rules", noun: "rules", every: 10_000, events: ["gatewayConfigUpdate"], row: ruleRow,
    also: async (abort) => {
      const { items } = await get("/api/agent/leaks", { limit: 1000 }, abort);
      hits = {};
      for (const one of items) hits[one.rule] = (hits[one.rule] ?? 0) + one.count;
      return hits;
    },
    empty: () => emptyState("shield", "No rules", "Rules find secrets in what programs send to suppliers."),
  });
  const sample = dryRun();
  return {
    title: "Secret rules",
    body: gatewayFrame({ title: "Rules and dry run", narrow: true, actions: [
      el("button", { class: "btn main", changes: "administrator", onclick: () => void create() }, icon("plus"), "Add a rule"),
    ] },
      card({
        title: "Dry run", text: "The findings of the rules, marked while you type. Neither this page nor the daemon stores the text.",
      }, el("div", { class: "inside" }, sample.node)),
      card({
        title: "Rules",
        text: "A masked secret never reaches the supplier, and is restored in the reply. Counts are of the last 30 days. " +
          "Your own rules are in secret-rules.yml.",
      }, list.node)),
  };

  /** @param {Rule} rule @returns {HTMLElement} */
  function ruleRow(rule) {
    const many = hits[rule.id] ?? 0;
    return el("li", null,
      el("span", { class: "name" }, dot(rule.enabled ? "good" : "off"), el("b", null, rule.id), el("span", { class: "chip" }, rule.kind),
        rule.enabled ? null : el("span", { class: "chip" }, "disabled")),
      rule.description ? el("small", null, rule.description) : null,
      rule.regex ? el("small", null, el("code", null, rule.regex.length > 160 ? `${rule.regex.slice(0, 160)}…` : rule.regex)) : null,
      el("span", { class: "ends" },
        many
          ? el("a", { class: "num hits", href: requestsLink({ rule: rule.id }),
            "aria-label": `${count(many)} found by ${rule.id}: its requests` }, count(many))
          : null,
        el("span", { class: rule.mode === "block" ? "state bad" : "state" }, WORDS[rule.mode]),
        menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${rule.id}` }, [icon("more")], () => items(rule))));
  }

  /** @param {Rule} rule @returns {import("../parts/menu.js").Items} */
  function items(rule) {
    const path = `/api/agent/secret-rules/${rule.id}`;
    return [
      ...MODES.map(([mode, label]) => /** @type {import("../parts/menu.js").Item} */ ({
        label: label.charAt(0).toUpperCase() + label.slice(1), checked: rule.mode === mode, changes: "administrator",
        onselect: () => void act(() => call("PATCH", path, { body: { mode } }), `${rule.id}: what it finds is ${WORDS[mode]}`, list.reload),
      })),
      null,
      rule.kind !== "built-in" && { label: "Edit", icon: "pencil", changes: "administrator", onselect: () => void edit(rule) },
      ...usualItems({ path, name: rule.id, enabled: rule.enabled, reload: list.reload, copies: false, removable: rule.kind !== "built-in",
        removeText: "What it finds goes to suppliers from the next request on. Changes can undo it." }),
    ];
  }

  function create() {
    return createDialog({
      title: "Add a rule", path: "/api/agent/secret-rules", action: "Add", done: list.reload,
      fields: [
        { name: "id", label: "Id", required: true, hint: "Lower-case letters, digits and dashes." },
        { name: "what", label: "It is found by", kind: "choice", initial: "pattern",
          options: [["pattern", "a pattern"], ["value", "its exact value"]] },
        { name: "description", label: "Purpose", wide: true }, ...PATTERN, VALUE, MODE,
      ],
      finish: ({ what: _, ...rule }) => rule,
      extra: (form) => trial(() => {
        const { what: _, ...rule } = form.all();
        return rule.regex || rule.value ? { id: "tried", ...rule } : null;
      }, form),
    });
  }

  /** @param {Rule} rule */
  function edit(rule) {
    const isValue = rule.kind === "value";
    const fields = [{ name: "description", label: "Purpose", wide: true },
      ...(isValue ? [{ ...VALUE, when: () => true }] : PATTERN.map((field) => ({ ...field, when: () => true }))), MODE];
    return editDialog({
      title: `Edit ${rule.id}`, path: `/api/agent/secret-rules/${rule.id}`, fields, done: list.reload,
      ...(isValue ? {} : { extra: (/** @type {import("./form.js").Form} */ form) => trial(() => ({ id: "tried", ...form.all() }), form) }),
    });
  }
});

/**
 * A rule is tried on a text before it is saved.
 * @param {() => any} rule
 * @param {import("./form.js").Form} form
 */
function trial(rule, form) {
  const run = dryRun({ rule, label: "Text to try the rule on" });
  form.node.addEventListener("input", run.again);
  return el("div", null, el("p", { class: "quiet" }, "Try it first. What this rule finds is marked as “tried”."), run.node);
}
