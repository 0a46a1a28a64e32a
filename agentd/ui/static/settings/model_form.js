/** The dialog that adds a model to `models.yml`, or changes one. */

import { get, post, put } from "../core/api.js";
import { el } from "../core/el.js";
import { signal } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";
import { toast, toastError } from "../parts/toast.js";
import { beginEdit } from "./edits.js";
import { labelled, numberOf, sendForm, sumOf } from "./frame.js";

/**
 * @typedef {{ name: string, engine: string, model: string, supplier: string, effort: string, context: number | null,
 *   prices: any, default: boolean, available: boolean, problem: string, program: import("../api.d.ts").ProgramStateView }} ListedModel
 */

const ENGINES = /** @type {const} */ ([
  ["native", "built in, with a supplier's model"], ["codex", "Codex"], ["claude-code", "Claude Code"],
  ["acp", "any ACP agent, by its command"], ["offline", "built in, without a model"],
]);

/**
 * @param {string | null} name of the model that is changed; null: a new one
 * @param {() => void} done
 */
export async function editModel(name, done) {
  /** @type {any} */
  const fresh = { engine: "native" };
  try {
    const [{ suppliers }, before] = await Promise.all([get("/api/models"), name ? get(`/api/models/${encodeURIComponent(name)}`) : fresh]);
    await openDialog(name ? `Edit ${name}` : "Add a model", (close) => [form(name, before, suppliers, close, done)], { wide: true });
  } catch (error) {
    toastError(error, () => void editModel(name, done));
  }
}

/**
 * @param {string | null} name
 * @param {any} before
 * @param {readonly string[]} suppliers
 * @param {() => void} close
 * @param {() => void} done
 */
function form(name, before, suppliers, close, done) {
  const engine = signal(String(before.engine));
  const inputs = {
    name: text(before.name, { name: "name", required: true, autofocus: true, maxlength: 100 }),
    engine: choice(ENGINES.map(([value, label]) => [value, `${value}: ${label}`]), before.engine),
    model: text(before.model, { name: "model" }),
    supplier: choice([
      ["", "none: the program's own sign-in"], ["agentd", "agentd: the model gateway"], ...suppliers.map((one) => [one, one]),
    ], before.supplier ?? ""),
    command: el("textarea", { name: "command", class: "input mono", rows: 2, spellcheck: "false",
      value: (before.command ?? []).join("\n") }),
    effort: text(before.effort, { name: "effort", placeholder: "low, medium, high" }),
    context: text(before.context, { name: "context", inputmode: "numeric" }),
    maxOutput: text(before.max_output, { name: "max_output", inputmode: "numeric" }),
    webSearch: el("input", { type: "checkbox", checked: Boolean(before.web_search) }),
    searchPrice: text(before.web_search_price, { name: "web_search_price", inputmode: "decimal", placeholder: "0.01" }),
    input: text(before.prices?.input, { name: "prices.input", inputmode: "decimal" }),
    output: text(before.prices?.output, { name: "prices.output", inputmode: "decimal" }),
  };
  inputs.engine.addEventListener("change", () => (engine.value = inputs.engine.value));
  const when = (/** @type {string[]} */ engines, /** @type {HTMLElement} */ node) => {
    const box = el("div", { hidden: () => !engines.includes(engine.value) }, node);
    return box;
  };
  const modelled = ["native", "codex", "claude-code", "acp"];
  const merge = beginEdit(read(inputs, before), asSent(before));
  const send = async () => {
    const wish = read(inputs, before);
    if (name) {
      const path = `/api/models/${encodeURIComponent(name)}`;
      await put(path, merge(wish, asSent(await get(path))));
    } else await post("/api/models", wish);
    close();
    done();
    toast(name ? `${wish.name} is changed` : `${wish.name} is added`);
  };
  return sendForm({ action: name ? "Save" : "Add", oncancel: close, send },
    el("div", { class: "form-grid" },
      labelled("Name", inputs.name, "The name that people choose it by."),
      labelled("Engine", inputs.engine),
      when(modelled, labelled("Supplier", inputs.supplier, "Suppliers and their keys are in models.yml.")),
      when(modelled, labelled("Model", inputs.model, "The supplier's name for the model; empty for the engine's default.")),
      when(["codex", "claude-code", "acp"], labelled("Command", inputs.command,
        "One argument per line; empty for the command of the settings.")),
      when(modelled, labelled("Effort", inputs.effort)),
      when(modelled, labelled("Context", inputs.context, "The maximum number of input tokens.")),
      when(["native"], labelled("Longest reply", inputs.maxOutput, "The maximum number of tokens, including thinking; empty if unknown.")),
      when(["native"], el("label", { class: "checked" }, inputs.webSearch,
        el("span", null, "Web search", el("small", null, "The supplier's own (Responses and Anthropic), billed beside tokens.")))),
      when(["native"], labelled("Price of a search", inputs.searchPrice, "USD; empty: searches are not in the costs.")),
      when(modelled, labelled("Price of input", inputs.input, "USD per million tokens.")),
      when(modelled, labelled("Price of output", inputs.output, "USD per million tokens."))));
}

/** What the form has of a model; one that is left out is undefined. */
const OPTIONAL = ["model", "supplier", "effort", "command", "context", "max_output", "web_search", "web_search_price", "prices"];

/**
 * What is sent: empty fields are left out, and what the form does not show stays.
 * @param {Record<string, HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>} inputs
 * @param {any} before
 */
function read(inputs, before) {
  const value = (/** @type {string} */ field) => inputs[field]?.value.trim() ?? "";
  const engine = value("engine");
  /** @type {any} */
  const wish = { ...Object.fromEntries(OPTIONAL.map((field) => [field, undefined])), name: value("name"), engine };
  if (engine === "offline") return wish;
  for (const field of ["model", "supplier", "effort"]) if (value(field)) wish[field] = value(field);
  if (engine !== "native" && value("command")) wish.command = value("command").split("\n").map((word) => word.trim()).filter(Boolean);
  if (value("context")) wish.context = numberOf(value("context"), "Context");
  if (value("maxOutput")) wish.max_output = numberOf(value("maxOutput"), "Longest reply");
  const search = inputs["webSearch"];
  if (engine === "native" && search instanceof HTMLInputElement && search.checked) {
    wish.web_search = true;
    if (value("searchPrice")) wish.web_search_price = sumOf(value("searchPrice"), "Price of a search");
  }
  if (value("input") || value("output")) {
    const [input, output] = [sumOf(value("input") || "0", "Price of input"), sumOf(value("output") || "0", "Price of output")];
    wish.prices = { ...tidy(before.prices), input, output };
  }
  return wish;
}

/**
 * A model as the form sends it.
 * @param {any} model
 */
function asSent(model) {
  return { ...model, prices: model.prices ? tidy(model.prices) : null };
}

/** @param {any} prices */
function tidy(prices) {
  return Object.fromEntries(Object.entries(prices ?? {}).filter(([, value]) => value !== null));
}

/**
 * @param {unknown} value
 * @param {import("../core/el.js").Attributes} [more]
 */
function text(value, more = {}) {
  return el("input", { class: "input", value: String(value ?? ""), autocomplete: "off", autocapitalize: "none",
    spellcheck: "false", ...more });
}

/**
 * @param {readonly (readonly string[])[]} options
 * @param {string} chosen
 */
function choice(options, chosen) {
  const select = el("select", { class: "input" }, options.map(([value, label]) => el("option", { value: value ?? "" }, label ?? "")));
  select.value = chosen;
  return select;
}
