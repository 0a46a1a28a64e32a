/** One setting: its field by its schema, its source, and what another has written meanwhile. */

import { may } from "../core/api.js";
import { el } from "../core/el.js";
import { computed } from "../core/signals.js";
import { numberOf, sumOf } from "./frame.js";

/**
 * @typedef {{ name: string, value: unknown, next: unknown, waits: boolean, file: unknown, default: unknown, source: string,
 *   restart: boolean, secret: boolean, role: "manager" | "administrator", description: string, schema: any }} Setting
 * @typedef {import("../core/signals.js").Signal<ReadonlyMap<string, { text: string, base: string }>>} Drafts
 */

/** @typedef {"choice" | "number" | "money" | "lines" | "json" | "text"} Kind */

/** @param {Setting} setting @returns {Kind} */
function kindOf({ schema }) {
  const types = [schema.type, ...(schema.anyOf ?? []).map((/** @type {any} */ one) => (one.$ref ? "object" : one.type))].flat();
  if (schema.enum) return "choice";
  if (types.includes("array")) return schema.items?.type === "string" ? "lines" : "json";
  if (types.includes("number") && types.includes("string")) return "money";
  if (types.includes("integer") || types.includes("number")) return "number";
  return types.includes("object") ? "json" : "text";
}

/**
 * What is in the field for what the next start has in force.
 * @param {Setting} setting
 */
export function textOf(setting) {
  const value = setting.next;
  if (value === null || value === undefined) return "";
  const kind = kindOf(setting);
  if (kind === "lines") return /** @type {string[]} */ (value).join("\n");
  if (kind === "json") return Array.isArray(value) && !value.length ? "" : JSON.stringify(value, null, 1);
  return String(value);
}

/**
 * What is to be saved for what was typed.
 * @param {Setting} setting
 * @param {string} text
 */
export function valueOf(setting, text) {
  const kind = kindOf(setting);
  const typed = text.trim();
  if (kind === "lines") return typed ? typed.split("\n").map((line) => line.trim()).filter(Boolean) : [];
  if (kind === "number") return typed === "" ? null : numberOf(typed, setting.name);
  if (kind === "money") return typed === "" ? null : sumOf(typed, setting.name);
  if (kind !== "json") return typed; // keyboards of phones add a blank
  if (!typed) return setting.default;
  try {
    return JSON.parse(typed);
  } catch {
    throw new Error(`${setting.name}: this is no JSON`);
  }
}

/**
 * @param {string} name
 * @param {import("../core/signals.js").Signal<readonly Setting[]>} settings
 * @param {Drafts} drafts
 * @param {(name: string) => Promise<void>} clear takes it out of the file
 */
export function settingRow(name, settings, drafts, clear) {
  const first = /** @type {Setting} */ (settings.peek().find((one) => one.name === name));
  const now = computed(() => settings.value.find((one) => one.name === name) ?? first);
  const draft = computed(() => drafts.value.get(name));
  const id = `setting-${name}`;
  const allowed = may(first.role);

  /** @param {string} text */
  function type(text) {
    const saved = textOf(now.peek());
    const next = new Map(drafts.peek());
    if (text === saved) next.delete(name);
    else next.set(name, { text, base: next.get(name)?.base ?? saved });
    drafts.value = next;
  }

  const shown = () => draft.value?.text ?? textOf(now.value);
  const isElsewhere = () => draft.value !== undefined && draft.value.base !== textOf(now.value);
  return el("div", { class: () => `setting${draft.value ? " changed" : ""}` },
    el("div", { class: "told" },
      el("label", { for: id }, title(name)),
      el("p", { id: `${id}-about` }, first.description),
      el("div", { class: "facts" }, () => facts(now.value))),
    el("div", { class: "entry" },
      field(first, { id, disabled: !allowed, "aria-describedby": `${id}-about` }, shown, type),
      () => isElsewhere()
        ? el("div", { class: "other", role: "status" }, `Changed elsewhere meanwhile, to: ${textOf(now.value) || "nothing"}`,
          el("button", { class: "btn small", onclick: () => type(textOf(now.peek())) }, "Take that"))
        : null,
      () => allowed && now.value.file !== null && now.value.source.startsWith("agentd.yml")
        ? el("button", { class: "textlink", changes: first.role, onclick: () => void clear(name) },
          `Back to the default${defaultText(now.value)}`)
        : null,
      allowed ? null : el("small", { class: "textlink" }, "Only an administrator may change this.")));
}

/** @param {string} name */
function title(name) {
  const words = name.replaceAll("_", " ").replace(/\b(api|acp)\b/g, (word) => word.toUpperCase());
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {Setting} setting */
function facts(setting) {
  return [
    el("code", null, setting.name),
    el("span", null, setting.source === "default" ? "default" : `from ${setting.source}`),
    setting.waits
      ? el("b", { class: "waits" },
        setting.secret ? "Changed: waits for a restart" : `Waits for a restart; now ${nowText(setting)}`)
      : setting.restart ? el("span", null, "takes effect with a restart") : null,
  ];
}

/** @param {Setting} setting */
function nowText(setting) {
  if (setting.value === null) return "nothing";
  return textOf({ ...setting, next: setting.value }).replaceAll("\n", " ") || "empty";
}

/** @param {Setting} setting */
function defaultText(setting) {
  const text = textOf({ ...setting, next: setting.default }).replaceAll("\n", " ");
  return text && text.length <= 40 ? `: ${text}` : "";
}

/** @param {Setting} setting */
function placeholderOf({ schema }) {
  if (schema.type === "array") return schema.items?.type === "string" ? "One a line" : "[]";
  const parts = Object.values(schema.$defs ?? {}).flatMap((/** @type {any} */ one) => Object.keys(one.properties ?? {}));
  return `{${parts.map((name) => `"${name}": …`).join(", ")}}`;
}

/**
 * @param {Setting} setting
 * @param {import("../core/el.js").Attributes} attributes
 * @param {() => string} shown
 * @param {(text: string) => void} type
 */
function field(setting, attributes, shown, type) {
  const kind = kindOf(setting);
  const value = { class: "input", ...attributes, oninput: (/** @type {any} */ event) => type(event.target.value) };
  if (kind === "choice") {
    return el("select", value, () => setting.schema.enum.map((/** @type {string} */ one) =>
      el("option", { value: one, selected: one === shown() }, one)));
  }
  if (kind === "lines" || kind === "json") {
    return el("textarea", { ...value, value: shown, rows: 3, spellcheck: "false", placeholder: placeholderOf(setting) });
  }
  return el("input", {
    ...value, value: shown, type: setting.secret ? "password" : "text", inputmode: kind === "number" || kind === "money" ? "decimal" : null,
    autocomplete: setting.secret ? "new-password" : "off", spellcheck: "false", placeholder: kind === "money" ? "any sum" : "",
  });
}
