/** What reports are narrowed down to, as the address has it: pills, and the dialog that sets them. */

import { get } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { query, setQuery } from "../core/router.js";
import { computed } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";
import { toastError } from "../parts/toast.js";
import { labelled } from "../settings/frame.js";
import { readAll } from "./frame.js";

/** @typedef {"key" | "owner" | "tag" | "model" | "channel"} FilterName */

const LABELS = /** @type {Record<FilterName, string>} */ ({
  key: "Access key", owner: "Owner", tag: "Tag", model: "Model", channel: "Channel",
});
const GROUPS = /** @type {const} */ (["owner", "tag"]);
const MOST = 1000;

/**
 * What of these the address asks for.
 * @param {readonly FilterName[]} names
 */
export function filtersOf(names) {
  return computed(() => Object.fromEntries(names.flatMap((name) => (query.value.get(name) ? [[name, query.value.get(name) ?? ""]] : []))));
}

/**
 * A pill for each that is set, and the button that adds one.
 * @param {readonly FilterName[]} names
 * @param {import("../core/signals.js").ReadonlySignal<Record<string, string>>} given
 */
export function filterPills(names, given) {
  return [
    () => Object.entries(given.value).map(([name, value]) =>
      el("button", { class: "pill", "aria-label": `Remove the filter ${name} ${value}`, onclick: () => setQuery({ [name]: null }) },
        name, " ", el("b", null, el("bdi", null, value)), icon("close"))),
    el("button", { class: "pill add", onclick: () => void openFilters(names, given.peek()) }, icon("plus"), "Filter"),
  ];
}

/**
 * A field for an owner or a tag, which suggests those of present keys and of past requests.
 * @param {"owner" | "tag"} name
 * @param {string} value
 * @param {readonly string[]} known
 */
export function groupField(name, value, known) {
  const id = `known-${name}s`;
  const field = labelled(LABELS[name],
    el("input", { class: "input", name, value, list: id, autocomplete: "off", spellcheck: "false", placeholder: "any" }));
  field.append(el("datalist", { id }, known.map((one) => el("option", { value: one }))));
  return field;
}

/**
 * The owners and tags that keys have, or had in the requests of late.
 * @param {readonly { owner: string, tags: readonly string[] }[]} keys
 * @returns {Promise<Record<"owner" | "tag", string[]>>}
 */
export async function readGroups(keys) {
  const past = await Promise.all(GROUPS.map((name) => get(`/api/agent/reports/by-${name}`, { limit: MOST })));
  const [owners = [], tags = []] = past.map(({ items }) => items.map((/** @type {{ name: string }} */ row) => row.name));
  const merged = (/** @type {string[]} */ names) => [...new Set(names)].filter(Boolean).sort();
  return { owner: merged([...owners, ...keys.map((key) => key.owner)]), tag: merged([...tags, ...keys.flatMap((key) => key.tags)]) };
}

/** @param {readonly FilterName[]} names @param {Record<string, string>} given */
async function openFilters(names, given) {
  /** @type {Record<string, string[]>} */
  let known = {};
  try {
    const resources = names.filter((name) => name !== "owner" && name !== "tag");
    const [keys, ...others] = await Promise.all([readAll("keys"),
      ...resources.filter((name) => name !== "key").map((name) => readAll(`${name}s`))]);
    const nameOf = (/** @type {any} */ one) => one.name;
    known = { ...(await readGroups(keys)), key: keys.map(nameOf) };
    resources.filter((name) => name !== "key").forEach((name, index) => (known[name] = (others[index] ?? []).map(nameOf)));
  } catch (error) {
    toastError(error);
  }
  await openDialog("Filter the report", (close) => {
    const choice = (/** @type {FilterName} */ name) => {
      const value = given[name] ?? "";
      const options = [...new Set(["", ...(known[name] ?? []), value])];
      const select = el("select", { class: "input", name }, options.map((one) => el("option", { value: one }, one || "any")));
      select.value = value;
      return labelled(LABELS[name], select);
    };
    const form = el("form", { onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const chosen = new FormData(form);
      close();
      setQuery(Object.fromEntries(names.map((name) => [name, String(chosen.get(name) ?? "").trim() || null])));
    } },
    el("div", { class: "form-grid" },
      names.map((name) => (name === "owner" || name === "tag" ? groupField(name, given[name] ?? "", known[name] ?? []) : choice(name)))),
    el("footer", null,
      el("button", { class: "btn", type: "button", onclick: () => {
        close();
        setQuery(Object.fromEntries(names.map((name) => [name, null])));
      } }, "Clear all"),
      el("button", { class: "btn main" }, "Filter")));
    return [form];
  });
}
