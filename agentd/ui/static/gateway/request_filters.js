/** The filters of the request log: those that are set as pills, and the dialog that sets them. */

import { el, icon } from "../core/el.js";
import { SUM, withPoint } from "../core/money.js";
import { setQuery } from "../core/router.js";
import { computed, effect, onEnd, signal } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";
import { toastError } from "../parts/toast.js";
import { labelled } from "../settings/frame.js";
import { OUTCOMES, readAll } from "./frame.js";
import { groupField, readGroups } from "./report_filters.js";
import { FILTERS } from "./request_log.js";

/** @typedef {import("./request_log.js").Filters} Filters */

const WORDS = /** @type {Record<string, (value: string) => [string, string]>} */ ({
  id: (value) => ["id", value],
  ok: (value) => ["outcome", value === "true" ? "ok" : "not ok"],
  minCost: (value) => ["cost", `≥ $${value}`],
  hidden: (value) => ["secrets", value === "true" ? "found" : "none"],
  rule: (value) => ["found by", value],
  from: (value) => ["since", value.replace("T", " ").slice(0, 16)],
  to: (value) => ["until", value.replace("T", " ").slice(0, 16)],
});

/**
 * The bar: a field for the id, a pill for each filter, and the button that adds one.
 * @param {import("../core/signals.js").ReadonlySignal<Filters>} filters
 * @param {(key: string) => string} nameOf the name of a key's id
 */
export function filterBar(filters, nameOf) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  const typed = signal(filters.peek()["id"] ?? "");
  const find = (/** @type {Event} */ event) => {
    typed.value = /** @type {HTMLInputElement} */ (event.target).value;
    clearTimeout(soon);
    soon = setTimeout(() => setQuery({ id: typed.peek().trim(), open: null }), 250);
  };
  onEnd(() => clearTimeout(soon)); // the address is another page's then
  const id = computed(() => filters.value["id"] ?? "");
  effect(() => {
    const given = id.value; // another one after "Clear all"
    if (typed.peek().trim() !== given) typed.value = given;
  });
  return el("div", { class: "filters", role: "search", "aria-label": "Filters" },
    el("label", { class: "field" }, icon("search"), el("input", {
      class: "bare", type: "search", placeholder: "Request id…", "aria-label": "Part of the request id", value: () => typed.value,
      spellcheck: "false", oninput: find,
    })),
    () => Object.entries(filters.value).filter(([name]) => name !== "id").map(([name, value]) => {
      const [label, shown] = WORDS[name]?.(value) ?? [name, name === "key" ? nameOf(value) : value];
      return el("button", { class: "pill", "aria-label": `Remove the filter ${label} ${shown}`,
        onclick: () => setQuery({ [name]: null, open: null }) },
        label, " ", el("b", null, el("bdi", null, shown)), icon("close"));
    }),
    el("button", { class: "pill add", onclick: () => void openFilters(filters.peek()) }, icon("plus"), "Filter"));
}

/** @param {Filters} filters */
async function openFilters(filters) {
  let [keys, models, channels] = /** @type {[any[], any[], any[]]} */ ([[], [], []]);
  /** @type {Awaited<ReturnType<typeof readGroups>>} */
  let groups = { owner: [], tag: [] };
  try {
    [keys, models, channels] = await Promise.all([readAll("keys"), readAll("models"), readAll("channels")]);
    groups = await readGroups(keys);
  } catch (error) {
    toastError(error);
  }
  await openDialog("Filter the requests", (close) => {
    const input = (/** @type {string} */ name, /** @type {import("../core/el.js").Attributes} */ more = {}) =>
      el("input", { class: "input", name, value: filters[name] ?? "", autocomplete: "off", spellcheck: "false", ...more });
    const choice = (/** @type {string} */ name, /** @type {[string, string][]} */ options) => {
      const given = filters[name] ?? "";
      const known = options.some(([value]) => value === given) ? options : [...options, /** @type {[string, string]} */ ([given, given])];
      const select = el("select", { class: "input", name }, known.map(([value, label]) => el("option", { value }, label)));
      select.value = given;
      return select;
    };
    const named = (/** @type {any[]} */ items) =>
      /** @type {[string, string][]} */ ([["", "any"], ...items.map((one) => [one.id ?? one.name, one.name])]);
    const read = (/** @type {string} */ name, /** @type {string} */ typed) => (name === "minCost" ? withPoint(typed) : typed);
    const form = el("form", { onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const given = new FormData(form);
      close();
      setQuery({ open: null, ...Object.fromEntries(FILTERS.filter((name) => name !== "id")
        .map((name) => [name, read(name, String(given.get(name) ?? "").trim()) || null])) });
    } },
    el("div", { class: "form-grid" },
      labelled("Access key", choice("key", named(keys))), labelled("Model", choice("model", named(models))),
      labelled("Channel", choice("channel", named(channels))),
      groupField("owner", filters["owner"] ?? "", groups.owner), groupField("tag", filters["tag"] ?? "", groups.tag),
      labelled("Outcome",
        choice("outcome", [["", "any"], ...Object.keys(OUTCOMES).map((one) => /** @type {[string, string]} */ ([one, one]))])),
      labelled("Successful", choice("ok", [["", "any"], ["true", "only ok"], ["false", "only others"]])),
      labelled("Kind of error", input("error", { placeholder: "such as rate_limit" })),
      labelled("Status", input("status", { inputmode: "numeric", pattern: "[1-5][0-9][0-9]", placeholder: "such as 429" })),
      labelled("Cost at least", input("minCost", { inputmode: "decimal", pattern: SUM, placeholder: "USD" })),
      labelled("Secrets", choice("hidden", [["", "any"], ["true", "found"], ["false", "none"]])),
      labelled("Secret rule", input("rule")),
      labelled("Since", input("from", { type: /T/.test(filters["from"] ?? "") ? "text" : "date" })),
      labelled("Until, included", input("to", { type: /T/.test(filters["to"] ?? "") ? "text" : "date" }))),
    el("footer", null,
      el("button", { class: "btn", type: "button", onclick: () => {
        close();
        setQuery(Object.fromEntries([...FILTERS, "open"].map((name) => [name, null])));
      } }, "Clear all"),
      el("button", { class: "btn main" }, "Filter")));
    return [form];
  }, { wide: true });
}
