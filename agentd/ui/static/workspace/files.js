/** Files: the workspace's folders, its text files and images, and a search over both. */

import { address, ApiError, get } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { count, size } from "../core/counts.js";
import { link, query, setQuery } from "../core/router.js";
import { computed, onEnd, signal } from "../core/signals.js";
import { textLines } from "../parts/text_lines.js";
import { emptyState, failure, loaded } from "../parts/frame.js";
import { addKeys } from "../parts/keys.js";
import { tabs } from "../parts/tabs.js";
import { splitPath } from "./changed_files.js";
import { choose } from "./choose.js";
import { onFilesChange } from "./follow.js";

/**
 * @typedef {{ path: string, kind: "file" | "folder" | "link" | "other", size: number }} Entry
 * @typedef {{ files: string[], lines: { path: string, line: number, text: string }[], truncated: boolean }} Found
 */

const MOST_ROWS = 300;
const DELAY = 200;

/** @returns {import("../core/router.js").Page} */
export function page() {
  /** A folder ends with a slash, and the workspace itself is empty. */
  const path = computed(() => query.value.get("path") ?? "");
  const file = computed(() => (path.value && !path.value.endsWith("/") ? path.value : ""));
  const folder = computed(() => path.value.slice(0, path.value.lastIndexOf("/") + 1));

  const input = el("input", { class: "input", type: "search", value: query.peek().get("q") ?? "", "aria-label": "Find files and text",
    placeholder: "Find files and text…", spellcheck: "false", autocomplete: "off" });
  const sought = signal(input.value.trim());
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      sought.value = input.value.trim();
      setQuery({ q: sought.peek() });
    }, DELAY);
  });
  onEnd(() => clearTimeout(timer));
  addKeys([{ keys: "F", label: "Find in files", run: () => input.focus() }]);

  const sides = el("div", { class: "sides scroll", tabindex: 0, role: "region", "aria-label": "Folder" },
    el("div", { class: "side-search" }, input),
    () => (sought.value ? searchResults(sought.value) : [crumbs(folder.value), folderList(folder.value, file)]));
  const shown = el("div", { class: "scroll shown", tabindex: 0, role: "region", "aria-label": "File" }, () => (file.value ? [
    el("a", { class: "btn plain small only-phone", href: to(folder.value) }, icon("back"), "The folder"),
    fileView(file.value),
  ] : el("div", { class: "empty not-phone" }, icon("file"), el("h2", null, "Choose a file"),
    el("p", null, "Text and images are shown here. Protected files and git's own folder are not."))));
  const body = el("div", { class: "frame workspace" },
    el("header", { class: "bar" }, el("h1", { class: "hidden" }, "Files"), tabs("/workspace/changes"), el("span", { class: "grow" })),
    el("div", { class: () => (file.value ? "panes open" : "panes") }, sides, shown));
  return { title: () => file.value.split("/").at(-1) || "Files", body };
}

/**
 * The address of a file or folder.
 * @param {string} path
 * @param {number} [line]
 */
function to(path, line = 0) {
  return link(`/workspace/files?path=${encodeURIComponent(path)}${line ? `&line=${line}` : ""}`);
}

/** @param {MouseEvent} event @param {string} path @param {number} [line] */
function visit(event, path, line = 0) {
  if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  choose({ path, line: line ? String(line) : null });
}

/** @param {string} folder */
function crumbs(folder) {
  const steps = folder.split("/").filter(Boolean);
  return el("nav", { class: "crumbs", "aria-label": "Folder" },
    el("a", { href: to(""), onclick: (/** @type {MouseEvent} */ event) => visit(event, "") }, "Workspace"),
    steps.map((step, index) => {
      const path = `${steps.slice(0, index + 1).join("/")}/`;
      return [el("span", { "aria-hidden": "true" }, "/"),
        el("a", { href: to(path), "aria-current": path === folder ? "true" : null,
          onclick: (/** @type {MouseEvent} */ event) => visit(event, path) }, el("bdi", null, step))];
    }).flat());
}

/**
 * @param {string} folder
 * @param {import("../core/signals.js").ReadonlySignal<string>} file
 */
function folderList(folder, file) {
  const most = signal(MOST_ROWS);
  const { node, reload } = loaded(() => get("/api/workspace/folder", { path: folder }), (answer) => {
    const entries = /** @type {Entry[]} */ (answer.entries);
    if (!entries.length) return emptyState("folder", "An empty folder", "Files that the agent or you put here appear here.");
    return el("div", { class: "loaded" },
      el("ul", { class: "entries" }, () => entries.slice(0, most.value).map((entry) => entryRow(entry, file))),
      () => (entries.length > most.value
        ? el("button", { class: "btn plain small more", onclick: () => (most.value += MOST_ROWS) },
          `${count(entries.length - most.value)} more`)
        : null),
      answer.truncated ? el("p", { class: "nothing" }, "Not all entries are listed.") : null);
  });
  onFilesChange(reload);
  return node;
}

/**
 * @param {Entry} entry
 * @param {import("../core/signals.js").ReadonlySignal<string>} file
 */
function entryRow(entry, file) {
  const name = entry.path.slice(entry.path.lastIndexOf("/") + 1);
  const path = entry.kind === "folder" ? `${entry.path}/` : entry.path;
  if (entry.kind === "other") return el("li", null, el("span", { class: "entry" }, icon("plug"), el("bdi", { class: "p" }, name)));
  return el("li", null, el("a", { class: "entry", "data-id": path, href: to(path),
    "aria-current": () => (file.value === path ? "true" : null), onclick: (/** @type {MouseEvent} */ event) => visit(event, path) },
    icon(entry.kind === "folder" ? "folder" : entry.kind === "link" ? "link" : "file"), el("bdi", { class: "p" }, name),
    entry.kind === "file" ? el("span", { class: "d" }, size(entry.size)) : null));
}

/** @param {string} text */
function searchResults(text) {
  const most = signal(MOST_ROWS);
  const abort = new AbortController();
  onEnd(() => abort.abort());
  return loaded(() => get("/api/workspace/search", { text }, abort.signal), (answer) => {
    const found = /** @type {Found} */ (answer);
    if (!found.files.length && !found.lines.length) return el("p", { class: "nothing" }, "Nothing found.");
    return el("div", { class: "loaded" },
      found.files.length ? el("h2", { class: "group" }, "Files ", el("span", { class: "num" }, found.files.length)) : null,
      el("ul", { class: "entries" }, () => found.files.slice(0, most.value).map((path) => el("li", null,
        el("a", { class: "entry", "data-id": path, href: to(path), title: path,
          onclick: (/** @type {MouseEvent} */ event) => visit(event, path) },
          icon("file"), el("span", { class: "p" }, splitPath(path)))))),
      found.lines.length ? el("h2", { class: "group" }, "Lines ", el("span", { class: "num" }, found.lines.length)) : null,
      el("ul", { class: "entries" }, () => found.lines.slice(0, most.value).map((hit) => el("li", null,
        el("a", { class: "entry hit", "data-id": `${hit.path}:${hit.line}`, href: to(hit.path, hit.line),
          onclick: (/** @type {MouseEvent} */ event) => visit(event, hit.path, hit.line) },
          el("span", { class: "p" }, splitPath(hit.path), `:${hit.line}`), el("code", null, hit.text.trim()))))),
      () => (Math.max(found.files.length, found.lines.length) > most.value
        ? el("button", { class: "btn plain small more", onclick: () => (most.value += MOST_ROWS) }, "More")
        : null),
      found.truncated ? el("p", { class: "nothing" }, "There are more results: search for something longer.") : null);
  }).node;
}

/**
 * @param {string} path
 */
function fileView(path) {
  const at = computed(() => Number(query.value.get("line") ?? 0));
  let last = 0;
  const lines = (/** @type {string} */ text) => {
    const line = at.value;
    const stays = line === last; // the file was read again: where somebody reads stays in sight
    last = line;
    return textLines(text, { language: path.split(".").at(-1) ?? "", label: `Content of ${path}`, line, stays });
  };
  const { node, reload } = loaded(() => get("/api/workspace/file", { path }), (answer) => el("div", { class: "box file-box" },
    el("header", null, icon("file"), el("code", { title: path }, el("bdi", null, path)),
      el("span", { class: "grow" }), el("span", { class: "num" }, size(answer.size)),
      el("a", { class: "btn plain small", "aria-label": "History of this file",
        href: link(`/workspace/history?path=${encodeURIComponent(path)}`) },
        icon("history"), el("span", { class: "not-phone" }, "History"))),
    content(answer, path, lines)));
  onFilesChange(reload);
  return node;
}

/**
 * @param {{ kind: "text" | "image" | "binary", text: string, truncated: boolean }} answer
 * @param {string} path
 * @param {(text: string) => HTMLElement} lines
 */
function content(answer, path, lines) {
  if (answer.kind === "image") {
    const broken = signal(false);
    return () => (broken.value ? failure(new ApiError(0, "image", "The image cannot be shown", "It is damaged, or larger than 16 MiB."))
      : el("div", { class: "picture" },
        el("img", { src: address("/api/workspace/image", { path }), alt: path, onerror: () => (broken.value = true) })));
  }
  if (answer.kind === "binary") return el("p", { class: "nothing" }, "A binary file, which is not shown.");
  if (!answer.text) return el("p", { class: "nothing" }, "An empty file.");
  return [() => lines(answer.text),
    answer.truncated ? el("p", { class: "nothing" }, "Only the beginning of this file is shown.") : null];
}
