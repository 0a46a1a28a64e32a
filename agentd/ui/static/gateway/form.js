/** Forms for the gateway's resources, described field by field: what is sent are the fields that were changed. */

import { ApiError, call, callTagged } from "../core/api.js";
import { el } from "../core/el.js";
import { signal } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";
import { checkPairs, readPairs, writePairs } from "../parts/pairs.js";
import { toast, toastError } from "../parts/toast.js";
import { failureLine, labelled, numberOf, sendForm, sumOf } from "../settings/frame.js";
import { describeRows, rowEditor, rowsToText, textToRows } from "./row_editor.js";

/**
 * @typedef {"text" | "number" | "money" | "lines" | "pairs" | "choice" | "set" | "check" | "secret" | "moment" | "long" | "json"
 *   | "rows"} Kind
 * @typedef {{ name: string, label: string, kind?: Kind, hint?: string, required?: boolean, placeholder?: string, wide?: boolean,
 *   options?: readonly (readonly [string, string])[], when?: (value: (name: string) => string) => boolean, suggestions?: readonly string[],
 *   initial?: string, rows?: import("./row_editor.js").RowKind }} Field
 *   `name`: its path, such as `limits.day`; `when`: whether it is shown
 * @typedef {{ node: HTMLElement, changes: () => any, all: () => any, value: (name: string) => string,
 *   set: (name: string, text: string) => void, fill: (name: string, value: unknown) => void, take: (now: any) => Difference[],
 *   typed: () => Draft | undefined, sending: () => () => void, version: import("../core/signals.js").ReadonlySignal<number> }} Form
 *   `set`, `fill`: write a field, as text or as the API has it; `version`: changes with each input; `typed`: what is not saved;
 *   `take`: go on from what it is now, which fields show that were not changed here, and return those that were changed both here and
 *   there; `sending`: returns what tells that the present texts were saved
 * @typedef {{ field: Field, theirs: string, yours: string }} Difference
 * @typedef {{ before: any, texts: readonly (readonly [string, string])[] }} Draft what the texts of some fields were typed over
 */

/** @typedef {{ set: Record<string, unknown>, default: Record<string, unknown>, remove: string[] }} Parameters */

/**
 * What a channel or model changes in requests, as rows of a list.
 * @param {{ headers: Record<string, string>, parameters: Parameters | null }} resource
 * @returns {[string, string][]}
 */
export function requestChanges({ headers, parameters }) {
  const pairs = (/** @type {Record<string, unknown>} */ values) =>
    Object.entries(values).map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(", ");
  return /** @type {[string, string][]} */ ([
    ["Headers", Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join(", ")],
    ["Parameters set", pairs(parameters?.set ?? {})], ["Default parameters", pairs(parameters?.default ?? {})],
    ["Parameters removed", (parameters?.remove ?? []).join(", ")],
  ]).filter(([, text]) => text);
}

/** Objects that the API replaces as a whole, so that all of them is sent when a part is changed. */
const WHOLE = ["prices", "assumed_prices"];

/** @param {any} object @param {string} path */
function at(object, path) {
  return path.split(".").reduce((found, name) => found?.[name], object);
}

/** @param {any} object @param {string} path @param {unknown} value */
function put(object, path, value) {
  const names = path.split(".");
  const last = names.pop() ?? "";
  const inner = names.reduce((found, name) => (found[name] ??= {}), object);
  inner[last] = value;
}

/** @param {Field} field @param {unknown} value */
function toText({ kind, initial = "", rows }, value) {
  if (value === null || value === undefined) return initial;
  if (rows) return rowsToText(rows, value);
  if (kind === "lines") return /** @type {string[]} */ (value).join("\n");
  if (kind === "set") return /** @type {string[]} */ (value).join(",");
  if (kind === "pairs") return writePairs(/** @type {any} */ (value), ": ");
  if (kind === "check") return value ? "true" : "";
  if (kind === "moment") return toLocal(String(value));
  if (kind === "json") return JSON.stringify(value, null, 1);
  return String(value);
}

/** @param {Field} field @param {string} text */
function toValue({ kind, label, rows }, text) {
  if (rows) return textToRows(rows, text);
  if (kind === "check") return text === "true";
  const typed = text.trim();
  if (kind === "lines") return typed ? typed.split("\n").map((line) => line.trim()).filter(Boolean) : null;
  if (kind === "pairs") {
    checkPairs(typed, ":", label);
    return readPairs(typed, ":");
  }
  if (!typed) return null;
  if (kind === "set") return typed.split(",");
  if (kind === "number") return numberOf(typed, label);
  if (kind === "money") return sumOf(typed, label);
  if (kind === "moment") return new Date(typed).toISOString();
  if (kind === "json") return parseJson(typed, label);
  return kind === "long" ? text : typed;
}

/** @param {string} text @param {string} label */
function parseJson(text, label) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(422, "input", `${label}: this is not JSON`);
  }
}

/** @param {string} moment */
function toLocal(moment) {
  const date = new Date(moment);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/**
 * @param {readonly Field[]} fields
 * @param {any} before what it is now; for a new one, what it begins with
 * @returns {Form}
 */
export function resourceForm(fields, before) {
  const version = signal(0);
  /** @type {Map<string, HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>} */
  const inputs = new Map();
  /** @type {Map<string, ReturnType<typeof rowEditor>>} */
  const editors = new Map();
  /** What the fields show of `before`. */
  const first = new Map(fields.map((field) => [field.name, toText(field, at(before, field.name))]));
  const value = (/** @type {string} */ name) => {
    const input = inputs.get(name);
    return input instanceof HTMLInputElement && input.type === "checkbox" ? (input.checked ? "true" : "") : input?.value ?? "";
  };
  const oninput = () => (version.value = version.peek() + 1);
  const node = el("div", { class: "form-grid", oninput, onchange: oninput }, fields.map((field) => {
    const input = makeInput(field, first.get(field.name) ?? "");
    inputs.set(field.name, input);
    const editor = field.rows && input instanceof HTMLInputElement ? rowEditor(input, field.label, field.rows, field.hint) : null;
    if (editor) editors.set(field.name, editor);
    const shown = editor ? editor.node : field.kind === "check"
      ? el("label", { class: "checked" }, input, el("span", null, field.label, field.hint ? el("small", null, field.hint) : null))
      : labelled(field.label, input, field.hint);
    if (!field.when) return field.wide ? wide(shown) : shown;
    const box = el("div", { hidden: () => {
      void version.value;
      const shows = field.when?.(value) ?? true;
      (editor?.node ?? input).disabled = !shows;
      return !shows;
    } }, shown);
    return field.wide ? wide(box) : box;
  }));
  const shows = (/** @type {Field} */ field) => field.when?.(value) ?? true;
  const fill = (/** @type {any} */ target, /** @type {readonly Field[]} */ given) => {
    for (const field of given) put(target, field.name, toValue(field, value(field.name)));
    return target;
  };
  const set = (/** @type {string} */ name, /** @type {string} */ text) => {
    const input = inputs.get(name);
    if (input instanceof HTMLInputElement && input.type === "checkbox") input.checked = text === "true";
    else if (input) input.value = text;
    editors.get(name)?.refresh();
    oninput();
  };
  const take = (/** @type {any} */ now) => {
    before = now;
    return fields.flatMap((field) => {
      const [was, theirs, yours] = [first.get(field.name), toText(field, at(now, field.name)), value(field.name)];
      first.set(field.name, theirs);
      if (theirs === was || theirs === yours) return [];
      if (yours !== was) return [{ field, theirs, yours }];
      set(field.name, theirs);
      return [];
    });
  };
  const sending = () => {
    const sent = fields.map(({ name }) => /** @type {const} */ ([name, value(name)]));
    return () => sent.forEach(([name, text]) => first.set(name, text));
  };
  return {
    node, value, version, set, take, sending,
    typed: () => {
      const texts = fields.map(({ name }) => /** @type {const} */ ([name, value(name)])).filter(([name, text]) => text !== first.get(name));
      return texts.length ? { before, texts } : undefined;
    },
    fill: (name, given) => {
      const field = fields.find((one) => one.name === name);
      if (field) set(name, toText(field, given));
    },
    changes: () => {
      const changed = fields.filter((field) => shows(field) && value(field.name) !== first.get(field.name));
      const result = fill({}, changed);
      for (const name of WHOLE.filter((one) => one in result)) result[name] = wholeOf(fields, name, at(before, name), fill);
      for (const field of changed.filter((one) => one.kind === "pairs" || one.rows?.keyed)) {
        for (const name of Object.keys(at(before, field.name) ?? {})) at(result, field.name)[name] ??= null;
      }
      return result;
    },
    all: () => {
      const result = fill({}, fields.filter((field) =>
        shows(field) && value(field.name) !== "" && !WHOLE.includes(field.name.split(".")[0] ?? "")));
      for (const name of WHOLE) {
        const whole = wholeOf(fields, name, null, fill);
        if (whole) result[name] = whole;
      }
      return result;
    },
  };
}

/**
 * @param {readonly Field[]} fields
 * @param {string} name
 * @param {any} before
 * @param {(target: any, fields: readonly Field[]) => any} fill
 */
function wholeOf(fields, name, before, fill) {
  const parts = fields.filter((field) => field.name.startsWith(`${name}.`));
  const given = fill({}, parts)[name] ?? {};
  if (!Object.values(given).some((one) => one !== null && !(Array.isArray(one) && !one.length))) return null;
  return { ...before, ...given };
}

/** @template {HTMLElement} Node @param {Node} node */
function wide(node) {
  node.classList.add("wide");
  return node;
}

let lists = 0;

/** @param {Field} field @param {string} text */
function makeInput(field, text) {
  const { kind = "text" } = field;
  const common = {
    class: "input", name: field.name, required: field.required ?? false, placeholder: field.placeholder ?? null,
    autocomplete: "off", autocapitalize: "none", spellcheck: "false",
  };
  if (kind === "choice" || kind === "set") {
    const options = field.options ?? [];
    const known = options.some(([value]) => value === text) ? options : [...options, /** @type {const} */ ([text, text])];
    const select = el("select", common, known.map(([value, label]) => el("option", { value }, label)));
    select.value = text;
    return select;
  }
  if (kind === "rows") return el("input", { type: "hidden", name: field.name, value: text });
  if (kind === "check") return el("input", { type: "checkbox", name: field.name, checked: text === "true" });
  if (kind === "lines" || kind === "pairs" || kind === "long" || kind === "json") {
    return el("textarea", { ...common, class: "input mono", rows: kind === "long" ? 4 : 3, value: text });
  }
  const type = kind === "secret" ? "password" : kind === "moment" ? "datetime-local" : "text";
  const input = el("input", { ...common, type, autocomplete: kind === "secret" ? "new-password" : "off", value: text,
    inputmode: kind === "number" || kind === "money" ? "decimal" : null });
  if (kind === "secret" && text) input.addEventListener("focus", () => input.select());
  if (field.suggestions?.length) {
    const id = `suggestions-${lists++}`;
    input.setAttribute("list", id);
    queueMicrotask(() => input.after(el("datalist", { id }, field.suggestions?.map((one) => el("option", { value: one })))));
  }
  return input;
}

/**
 * A dialog that creates a resource.
 * @param {{ title: string, path: string, fields: readonly Field[], initial?: any, action?: string,
 *   intro?: (form: Form) => import("../core/el.js").Single, extra?: (form: Form) => import("../core/el.js").Single,
 *   finish?: (body: any) => any, done: (made: any) => unknown }} options
 */
export function createDialog({ title, path, fields, initial = {}, action = "Create", intro, extra, finish = (body) => body, done }) {
  return openDialog(title, (close) => {
    const form = resourceForm(fields, initial);
    const send = async () => {
      const made = await call("POST", path, { body: finish(form.all()) });
      close();
      await done(made);
    };
    return [sendForm({ action, oncancel: () => close(), send }, intro?.(form) ?? null, form.node, extra?.(form) ?? null)];
  }, { wide: true });
}

/**
 * A dialog that changes a resource. What somebody else changed meanwhile is kept where it was not changed here, and shown
 * beside one's own where it was.
 * @param {{ title: string, path: string, fields: readonly Field[], done: (changed: any) => unknown, finish?: (changes: any) => any,
 *   extra?: (form: Form, before: any) => import("../core/el.js").Single }} options
 */
export async function editDialog({ title, path, fields, done, finish = (changes) => changes, extra }) {
  /** @type {{ body: any, etag: string }} */
  let known;
  try {
    known = await callTagged("GET", path);
  } catch (error) {
    toastError(error);
    return;
  }
  await openDialog(title, (close) => {
    const form = resourceForm(fields, known.body);
    const other = signal(/** @type {Difference[] | null} */ (null));
    const end = async (/** @type {any} */ changed) => {
      close();
      toast("Saved");
      await done(changed);
    };
    /** @returns {Promise<void>} */
    const send = async () => {
      const changes = finish(form.changes());
      if (!Object.keys(changes).length) return close();
      try {
        await end(await call("PATCH", path, { body: changes, ifMatch: known.etag }));
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 412)) throw error;
        known = await callTagged("GET", path);
        const found = form.take(known.body);
        // Two secrets may look the same while they are masked: only the person knows whether theirs was changed.
        const hidden = fields.some((field) => field.kind === "secret" && at(changes, field.name) !== undefined);
        if (!found.length && !hidden) {
          // Nothing is left to send where a try before was carried out without an answer.
          return Object.keys(finish(form.changes())).length ? send() : end(known.body);
        }
        other.value = found;
        queueMicrotask(() => beside.scrollIntoView({ block: "nearest" }));
      }
    };
    const beside = el("div", { role: "alert" }, () => (other.value ? conflict(other.value, form) : null));
    return [sendForm({ action: "Save", oncancel: () => close(), send }, form.node, extra?.(form, known.body) ?? null, beside)];
  }, { wide: true });
}

/**
 * What was changed both here and elsewhere, side by side.
 * @param {readonly Difference[]} found
 * @param {Form} form
 */
export function conflict(found, form) {
  if (!found.length) return failureLine(new Error("Somebody changed it meanwhile, maybe the secret, too. Save again to keep yours."));
  const show = (/** @type {Field} */ { rows }, /** @type {string} */ text) => (rows ? describeRows(rows, text) : text) || "–";
  return el("div", { class: "conflict" }, failureLine(new Error("Somebody changed it meanwhile. Choose, and save again.")),
    el("table", null, el("thead", null, el("tr", null, ["", "Yours", "Theirs"].map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", null, found.map(({ field, theirs, yours }) =>
        el("tr", null, el("th", { scope: "row" }, field.label),
          el("td", null, field.kind === "secret" && yours ? "another one" : show(field, yours)), el("td", null, show(field, theirs), " ",
            el("button", { class: "btn small", type: "button", onclick: () => form.set(field.name, theirs) }, "Take theirs")))))));
}
