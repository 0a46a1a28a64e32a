/** Rows of several small fields within a form, such as the limits of each model or the prices above a size. */

import { ApiError } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { signal } from "../core/signals.js";
import { numberOf, sumOf } from "../settings/frame.js";

/**
 * @typedef {{ name: string, label: string, kind?: "text" | "number" | "money", placeholder?: string, required?: boolean }} Column
 * @typedef {{ columns: readonly Column[], add: string, keyed?: boolean }} RowKind
 *   `add`: what the button says; `keyed`: the API has an object by the first column, not a list
 * @typedef {Record<string, string>} Cells by the columns' names; what is empty is absent
 */

/**
 * The rows of a value of the API, as the form keeps them: JSON, or empty if there are none.
 * @param {RowKind} kind
 * @param {any} value
 */
export function rowsToText({ columns, keyed }, value) {
  const [first] = columns;
  const rows = keyed ? Object.entries(value).map(([name, one]) => ({ ...one, [first?.name ?? ""]: name })) : value;
  const cells = rows.map((/** @type {any} */ row) => Object.fromEntries(columns
    .filter(({ name }) => row[name] !== null && row[name] !== undefined).map(({ name }) => [name, String(row[name])])));
  return cells.length ? JSON.stringify(cells) : "";
}

/**
 * The value for the API.
 * @param {RowKind} kind
 * @param {string} text
 */
export function textToRows({ columns, keyed }, text) {
  const rows = /** @type {Cells[]} */ (text ? JSON.parse(text) : []);
  const values = rows.map((row) =>
    Object.fromEntries(columns.filter(({ name }) => row[name]).map((column) => [column.name, toCell(column, row[column.name] ?? "")])));
  if (!keyed) return values;
  const key = columns[0]?.name ?? "";
  const names = rows.map((row) => row[key] ?? "");
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new ApiError(422, "input", `${columns[0]?.label ?? ""}: ${twice} is there twice`);
  return Object.fromEntries(values.map(({ [key]: name, ...others }) => [String(name), others]));
}

/**
 * The rows in words, a line each, such as `gpt-5: USD a day 5`.
 * @param {RowKind} kind
 * @param {string} text
 */
export function describeRows({ columns: [first, ...others] }, text) {
  return (/** @type {Cells[]} */ (text ? JSON.parse(text) : [])).map((row) => {
    const cells = others.filter(({ name }) => row[name]).map(({ name, label }) => `${label} ${row[name]}`);
    return `${row[first?.name ?? ""] ?? ""}: ${cells.join(", ")}`;
  }).join("\n");
}

/** @param {Column} column @param {string} text */
function toCell({ kind, label }, text) {
  if (kind === "number") return numberOf(text, label);
  return kind === "money" ? sumOf(text, label) : text;
}

/**
 * The editor of rows; `input` has them as text for the form.
 * @param {HTMLInputElement} input
 * @param {string} label
 * @param {RowKind} kind
 * @param {string} [hint]
 */
export function rowEditor(input, label, { columns, add }, hint) {
  let ids = 0;
  const parse = () => /** @type {Cells[]} */ (input.value ? JSON.parse(input.value) : []).map((cells) => ({ id: ++ids, cells }));
  const rows = signal(parse());
  let written = input.value;
  const write = (/** @type {typeof rows.value} */ next) => {
    written = next.length ? JSON.stringify(next.map(({ cells }) => cells)) : "";
    input.value = written;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const focusRow = (/** @type {number} */ index) => queueMicrotask(() => {
    const found = node.querySelectorAll(".row")[index]?.querySelector("input");
    (found ?? node.querySelector("button"))?.focus();
  });
  const node = el("fieldset", { class: "row-editor" }, el("legend", null, label), hint ? el("small", null, hint) : null,
    el("div", { class: "loaded" },
      () => rows.value.map((row, index) => el("div", { class: "row", role: "group", "aria-label": `${label}, ${index + 1}` },
        columns.map((column) => el("label", null, el("small", null, column.label), el("input", {
          class: "input", value: row.cells[column.name] ?? "", required: column.required ?? false, placeholder: column.placeholder ?? null,
          autocomplete: "off", spellcheck: "false",
          inputmode: column.kind === "number" || column.kind === "money" ? "decimal" : null,
          oninput: (/** @type {Event} */ event) => {
            event.stopPropagation();
            const text = /** @type {HTMLInputElement} */ (event.target).value.trim();
            if (text) row.cells[column.name] = text;
            else delete row.cells[column.name];
            write(rows.peek());
          },
        }))),
        el("button", { class: "btn plain icon small", type: "button",
          "aria-label": `Remove ${row.cells[columns[0]?.name ?? ""] ?? "the row"}`, onclick: () => {
            rows.value = rows.peek().filter((one) => one !== row);
            write(rows.peek());
            focusRow(Math.min(index, rows.peek().length - 1));
          } }, icon("close"))))),
    el("button", { class: "btn small", type: "button", onclick: () => {
      rows.value = [...rows.peek(), { id: ++ids, cells: {} }];
      write(rows.peek());
      focusRow(rows.peek().length - 1);
    } }, icon("plus"), add), input);
  return {
    node,
    /** Show what somebody else wrote into the input. */
    refresh: () => {
      if (input.value === written) return;
      written = input.value;
      rows.value = parse();
    },
  };
}
