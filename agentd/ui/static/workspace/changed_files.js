/** The changed files of the repository, what one of them changed, and committing: parts of pages. */

import { get, may, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { list } from "../core/list.js";
import { link } from "../core/router.js";
import { computed, effect, signal } from "../core/signals.js";
import { diffBox, diffCounts, parseDiff } from "../parts/diff.js";
import { openDialog } from "../parts/dialog.js";
import { keepFocus } from "../parts/focus.js";
import { failure, loaded } from "../parts/frame.js";
import { loadStyle } from "../parts/stylesheet.js";
import { toast } from "../parts/toast.js";
import { commentOn } from "./comments.js";
import { keyOf, letterOf, rowsOf } from "./repository.js";

/** @typedef {import("./repository.js").Repository} Repository */
/** @typedef {import("./repository.js").Row} Row */
/** @typedef {import("./repository.js").Side} Side */

const MOST_ROWS = 300;
await loadStyle("workspace");

/**
 * The files of one side, under a heading with what can be done to all.
 * @param {Repository} repository
 * @param {Side} side
 * @param {string} title
 * @param {{ chosen: () => string, sought?: () => string, choose: (row: Row) => void }} choice `sought`: what is to come into sight
 */
export function fileSection(repository, side, title, { chosen, sought = chosen, choose }) {
  const rows = computed(() => (repository.status.value ? rowsOf(repository.status.value, side) : []));
  const most = signal(MOST_ROWS);
  const deed = side === "staged" ? "unstage" : "stage";
  const label = deed === "stage" ? "Stage" : "Unstage";
  const all = () =>
    el("button", { class: "btn plain small", changes: "manager", onclick: () => void repository.move(deed, rows.peek()) }, `${label} all`);
  let revealed = "";
  effect(() => { // what was chosen, by its address or a key
    const key = sought();
    const at = key === revealed ? -1 : rows.value.findIndex((row) => keyOf(row) === key);
    if (at < 0) return;
    revealed = key;
    if (at >= most.peek()) most.value = at + MOST_ROWS;
    queueMicrotask(() => files.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }));
  });
  const files = el("ul", { class: "changed-files" });
  effect(() => { // before the rows: that of a file which is staged goes
    void rows.value;
    keepFocus(files);
  });
  list(files, () => rows.value.slice(0, most.value), keyOf, (row) => el("li", null,
    el("button", { class: "file", "data-id": keyOf(row.peek()), "aria-current": () => (chosen() === keyOf(row.value) ? "true" : null),
      title: row.peek().before ? `${row.peek().before} → ${row.peek().path}` : row.peek().path,
      onclick: () => choose(row.peek()) },
    el("span", { class: () => `st ${letterOf(row.value).toLowerCase()}`, "aria-label": () => row.value.change }, () => letterOf(row.value)),
    el("span", { class: "p" }, splitPath(row.peek().path)),
    () => {
      const found = repository.counts.value.get(keyOf(row.value));
      return found ? el("span", { class: "d" }, diffCounts(found)) : null;
    }),
    el("button", { class: "btn plain icon small act", changes: "manager", "aria-label": `${label} ${row.peek().path}`, title: label,
      onclick: () => void repository.move(deed, [row.peek()]) }, deed === "stage" ? icon("plus") : minus())));
  return el("section", { class: "side-section", hidden: () => !rows.value.length, "aria-label": title },
    el("h2", { class: "group" }, title, " ", el("span", { class: "num" }, () => rows.value.length), el("span", { class: "grow" }), all()),
    files,
    () => (rows.value.length > most.value
      ? el("button", { class: "btn plain small more", onclick: () => (most.value += MOST_ROWS) },
        `${rows.value.length - most.value} more files`)
      : null));
}

/** An icon that the sprite has upright only. */
function minus() {
  return el("span", { class: "minus-sign", "aria-hidden": "true" }, "−");
}

/**
 * A path with its folder dimmed, cut in the folder when there is no room.
 * @param {string} path
 */
export function splitPath(path) {
  const at = path.replace(/\/$/, "").lastIndexOf("/") + 1;
  return [at ? el("span", { class: "folder" }, path.slice(0, at)) : null, el("bdi", null, path.slice(at))];
}

/**
 * What a file changed, read again when it may have changed.
 * @param {Repository} repository
 * @param {Row} row
 * @param {import("./comments.js").Insert} [insert]
 */
export function fileChanges(repository, row, insert) {
  const { node, reload } = loaded(() => readChanges(row), (answer) => {
    if (answer instanceof HTMLElement) return answer;
    const files = parseDiff(answer.diff);
    const comments = (/** @type {{ path: string }} */ file) => commentOn(file.path, insert);
    return files.length
      ? el("div", { class: "stack" }, files.map((file) => diffBox(file, may("manager") ? comments : undefined)),
        answer.truncated ? el("p", { class: "nothing" }, "Only the beginning is shown.") : null)
      : el("p", { class: "nothing" }, "Nothing is changed in the text of this file.");
  });
  let first = true;
  effect(() => {
    void repository.version.value;
    const busy = node.querySelector(".comment");
    if (!first && !busy) void reload();
    first = false;
  });
  return node;
}

/**
 * @param {Row} row
 * @returns {Promise<{ diff: string, truncated: boolean } | HTMLElement>} a diff, or what to show in its place
 */
async function readChanges({ path, side }) {
  if (side !== "untracked") {
    return get("/api/git/diff", { path, staged: side === "conflicts" ? null : side === "staged" });
  }
  if (path.endsWith("/")) {
    return el("div", { class: "empty" },
      icon("folder"), el("h2", null, "A new folder"), el("p", null, "Git tracks none of its files yet."),
      el("a", { class: "btn", href: link(`/workspace/files?path=${encodeURIComponent(path)}`) }, "Look into it"));
  }
  const file = await get("/api/workspace/file", { path });
  if (file.kind !== "text") {
    return el("div", { class: "empty" }, icon("file"), el("h2", null, file.kind === "image" ? "A new image" : "A new binary file"),
      el("a", { class: "btn", href: link(`/workspace/files?path=${encodeURIComponent(path)}`) }, "Show it"));
  }
  if (!file.text) return el("p", { class: "nothing" }, "A new file, which is empty.");
  return { diff: asAdded(path, file.text), truncated: file.truncated };
}

/**
 * A new file as the diff that adds it.
 * @param {string} path
 * @param {string} text
 */
function asAdded(path, text) {
  const lines = text.replace(/\n$/, "").split("\n");
  const quoted = JSON.stringify(`b/${path}`);
  const name = quoted === `"b/${path}"` ? `b/${path}` : quoted;
  return `--- /dev/null\n+++ ${name}\n@@ -0,0 +1,${lines.length} @@\n${lines.map((line) => `+${line}`).join("\n")}\n`;
}

/**
 * Ask for a message, and commit what is staged, or everything when nothing is.
 * @param {Repository} repository
 */
export async function commitDialog(repository) {
  const status = repository.status.peek();
  if (!status) return;
  const all = !status.staged.length;
  const number = all ? status.changed.length + status.untracked.length : status.staged.length;
  const failed = signal(/** @type {unknown} */ (null));
  await openDialog("Commit", (close) => {
    const message = el("textarea", { class: "input", rows: 4, required: true, autofocus: true, maxlength: 65536,
      placeholder: "What changed, and why" });
    const hooks = el("input", { type: "checkbox" });
    const busy = signal(false);
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      if (!message.value.trim() || busy.peek()) return;
      busy.value = true;
      failed.value = null;
      try {
        const made = await post("/api/git/commit", { message: message.value.trim(), all, runHooks: hooks.checked });
        close("done");
        toast(`Committed ${made.id.slice(0, 9)}`);
        void repository.reload();
      } catch (error) {
        failed.value = error;
      } finally {
        busy.value = false;
      }
    };
    return [el("form", { class: "commit-form", onsubmit: submit, onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit(event);
    } },
    el("p", { class: "about-commit" },
      all ? `Nothing is staged: all ${number} changed files are committed` : `${number} staged ${number === 1 ? "file" : "files"}`,
      status.branch ? [" on ", el("code", null, status.branch)] : ""),
    el("label", { class: "labelled" }, el("span", null, "Message"), message),
    status.hooks.length
      ? el("label", { class: "check" }, hooks, el("span", null, `Run the repository's hooks (${status.hooks.join(", ")})`))
      : null,
    el("div", { class: "commit-failure" }, () => (failed.value ? failure(failed.value) : null)),
    el("footer", null, el("button", { class: "btn", type: "button", onclick: () => close() }, "Cancel"),
      el("button", { class: "btn main", changes: "manager", disabled: () => busy.value },
        icon("check"), () => (busy.value ? "Committing…" : "Commit"))))];
  });
}

/**
 * The branch, and how far it is from the one that it follows.
 * @param {Repository} repository
 */
export function branchChip(repository) {
  return () => {
    const status = repository.status.value;
    if (!status) return null;
    return el("span", { class: "chip branch", title: status.upstream ? `follows ${status.upstream}` : status.branch },
      icon("branch"), el("bdi", null, status.branch || "no branch"),
      status.ahead ? el("span", { title: "Commits that the other branch lacks" }, `↑${status.ahead}`) : null,
      status.behind ? el("span", { title: "Commits that this branch lacks" }, `↓${status.behind}`) : null);
  };
}
