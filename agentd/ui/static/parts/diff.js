/** A diff as lines with numbers, added ones green and removed ones red; a line can be commented on. */

import { el, icon } from "../core/el.js";
import { colour } from "./code.js";

/** @typedef {{ kind: " " | "+" | "-", number: number, text: string }} DiffLine */
/** @typedef {{ path: string, lines: DiffLine[], added: number, removed: number, note: string }} FileDiff */
/** @typedef {(line: DiffLine, node: HTMLElement) => void} OnLine */

const MOST_LINES = 400;
let made = 0;

/**
 * Read a unified diff, of one file or of several.
 * @param {string} text
 * @returns {FileDiff[]}
 */
export function parseDiff(text) {
  /** @type {FileDiff[]} */
  const files = [];
  // The number of the next line on either side, and how many lines of the hunk are still to come.
  let [old, fresh, oldLeft, freshLeft] = [0, 0, 0, 0];
  const begin = (path = "") => files.push({ path, lines: [], added: 0, removed: 0, note: "" });
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const file = files.at(-1);
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (file && (oldLeft > 0 || freshLeft > 0)) {
      const content = line.slice(1);
      if (line.startsWith("+")) {
        file.lines.push({ kind: "+", number: fresh++, text: content });
        file.added++;
        freshLeft--;
      } else if (line.startsWith("-")) {
        file.lines.push({ kind: "-", number: old++, text: content });
        file.removed++;
        oldLeft--;
      } else if (!line.startsWith("\\")) {
        file.lines.push({ kind: " ", number: fresh++, text: content });
        old++;
        oldLeft--;
        freshLeft--;
      }
    } else if (hunk) {
      if (!file) begin();
      [old, fresh] = [Number(hunk[1]), Number(hunk[3])];
      [oldLeft, freshLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
    } else if (line.startsWith("diff --git ")) {
      begin(pathOfHead(line));
    } else if (line.startsWith("--- ") && (!file || file.lines.length)) {
      begin(line === "--- /dev/null" ? "" : pathOf(line.slice(4)));
    } else if (file) {
      readHead(file, line);
    }
  }
  return files;
}

/**
 * Read a line between the head of a file and its first hunk.
 * @param {FileDiff} file
 * @param {string} line
 */
function readHead(file, line) {
  if (line.startsWith("+++ ") && line !== "+++ /dev/null") file.path = pathOf(line.slice(4));
  else if (line.startsWith("rename to ")) {
    file.path = unquote(line.slice(10));
    file.note = "Renamed";
  } else if (line.startsWith("copy to ")) {
    file.path = unquote(line.slice(8));
    file.note = "Copied";
  } else if (line.startsWith("Binary files ")) file.note = "Binary file";
  else if (line.startsWith("new mode ")) file.note = "Mode changed";
}

/** @param {string} text behind `---` or `+++` */
function pathOf(text) {
  return unquote(text.replace(/\t[^\t]*$/, "")).replace(/^[ab]\//, "");
}

/**
 * The path in `diff --git a/x b/x`, which stands there twice unless the file was renamed.
 * @param {string} line
 */
function pathOfHead(line) {
  const both = line.slice(11);
  const half = both.slice(0, (both.length - 1) / 2);
  return pathOf(half);
}

/**
 * The name that git put in quotes, with escapes of C and bytes in octal.
 * @param {string} name
 */
export function unquote(name) {
  if (!/^".*"$/.test(name)) return name;
  const escapes = /** @type {Record<string, number>} */ ({ a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 });
  const bytes = [...name.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\]+)/gu)].flatMap(([, octal, sign, plain]) => {
    if (octal) return [parseInt(octal, 8)];
    return sign && sign in escapes ? [escapes[sign] ?? 0] : [...new TextEncoder().encode(sign ?? plain)];
  });
  return new TextDecoder().decode(new Uint8Array(bytes));
}

/**
 * The lines of a file's diff; long ones are cut, and shown whole on demand.
 * @param {FileDiff} file
 * @param {OnLine} [online] called with a line that is clicked, or chosen by keys
 */
export function diffLines(file, online) {
  const what = `Changes of ${file.path || "the file"}`;
  const code = el("div", { class: online ? "code picks" : "code", tabindex: 0, role: "group",
    "aria-label": online ? `${what}. Up and down choose a line, Enter comments on it.` : what });
  const id = `diff${++made}-`;
  const show = (/** @type {DiffLine[]} */ lines) => {
    code.replaceChildren(...lines.map((line, index) => diffLine(line, id + index)));
    colour(code.querySelectorAll(".l > :last-child"), file.path.split(".").at(-1) ?? "");
  };
  show(file.lines.slice(0, MOST_LINES));
  if (file.lines.length > MOST_LINES) {
    code.append(el("button", { class: "btn plain small", onclick: () => show(file.lines) }, `Show all ${file.lines.length} lines`));
  }
  if (online) pickLines(code, file, online);
  return code;
}

/**
 * @param {HTMLElement} code
 * @param {FileDiff} file
 * @param {OnLine} online
 */
function pickLines(code, file, online) {
  const rows = () => /** @type {HTMLElement[]} */ ([...code.querySelectorAll(":scope > .l")]);
  const choose = (/** @type {HTMLElement | undefined} */ row) => {
    if (!row) return;
    code.querySelector(".l.at")?.classList.remove("at");
    row.classList.add("at");
    code.setAttribute("aria-activedescendant", row.id);
    row.scrollIntoView({ block: "nearest" });
  };
  const open = (/** @type {HTMLElement} */ row) => {
    const line = file.lines[rows().indexOf(row)];
    if (line) online(line, row);
  };
  code.addEventListener("click", (event) => {
    const row = event.target instanceof Element ? event.target.closest(".l") : null;
    if (!(row instanceof HTMLElement) || !getSelection()?.isCollapsed) return;
    choose(row);
    open(row);
  });
  code.addEventListener("keydown", (event) => {
    if (event.target !== code) return;
    const all = rows();
    const at = all.findIndex((row) => row.classList.contains("at"));
    if (event.key === "ArrowDown") choose(all[Math.min(all.length - 1, at + 1)]);
    else if (event.key === "ArrowUp") choose(all[Math.max(0, at - 1)]);
    else if (event.key === "Enter" && all[at]) open(/** @type {HTMLElement} */ (all[at]));
    else return;
    event.preventDefault();
  });
}

/**
 * @param {DiffLine} line
 * @param {string} id
 */
function diffLine({ kind, number, text }, id) {
  const name = kind === "+" ? "l add" : kind === "-" ? "l del" : "l";
  return el("div", { class: name, id },
    el("span", null, number), el("span", null, kind === "-" ? "−" : kind.trim()), el("span", null, text));
}

/**
 * A box with a head, for one file of a diff.
 * @param {FileDiff} file
 * @param {(file: FileDiff) => OnLine} [comments] makes what is called with a chosen line
 */
export function diffBox(file, comments) {
  return el("div", { class: "box" },
    el("header", null, icon("file"), el("code", { dir: "ltr", title: file.path }, file.path || "file"), el("span", { class: "grow" }),
      file.note ? el("span", null, file.note) : null, diffCounts(file)),
    file.lines.length ? diffLines(file, comments?.(file)) : el("p", { class: "nothing" }, file.note || "Nothing to show"));
}

/**
 * Boxes with a head for each file of a diff.
 * @param {string} text
 */
export function diffBoxes(text) {
  return parseDiff(text).map((file) => diffBox(file));
}

/** @param {{ added: number, removed: number }} file */
export function diffCounts({ added, removed }) {
  return el("span", { class: "num" }, added ? el("span", { class: "plus" }, `+${added}`) : null, added && removed ? " " : null,
    removed ? el("span", { class: "minus" }, `−${removed}`) : null);
}
