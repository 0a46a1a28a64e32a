/** Changes: what is not committed, file by file; lines commented on, files staged, commits made. */

import { canChange } from "../core/api.js";
import { el, icon, skeleton } from "../core/el.js";
import { link, query } from "../core/router.js";
import { computed } from "../core/signals.js";
import { emptyState, failure } from "../parts/frame.js";
import { addKeys } from "../parts/keys.js";
import { tabs } from "../parts/tabs.js";
import { branchChip, commitDialog, fileChanges, fileSection } from "./changed_files.js";
import { choose } from "./choose.js";
import { allRows, followRepository, keyOf } from "./repository.js";

/** @typedef {import("./repository.js").Row} Row */

/** @returns {import("../core/router.js").Page} */
export function page() {
  const repository = followRepository();
  const wanted = computed(() => query.value.get("file") ?? "");
  const rows = computed(() => (repository.status.value ? allRows(repository.status.value) : []));
  /** What is shown: what was chosen; staged meanwhile, its other side; on a desk else the first. */
  const shown = computed(() => {
    const key = wanted.value;
    const path = key.slice(key.indexOf(" ") + 1);
    const found = rows.value.find((row) => keyOf(row) === key) ?? (key ? rows.value.find((row) => row.path === path) : undefined);
    return found ? keyOf(found) : !key && matchMedia("(min-width: 720.5px)").matches && rows.value[0] ? keyOf(rows.value[0]) : "";
  });
  const sought = () => (wanted.value ? shown.value : "");
  const choice = { chosen: () => shown.value, sought, choose: (/** @type {Row} */ row) => choose({ file: keyOf(row) }) };
  const step = (/** @type {1 | -1} */ by) => {
    const at = rows.peek().findIndex((row) => keyOf(row) === shown.peek());
    const next = rows.peek()[at + by];
    if (next) choice.choose(next);
  };
  const toggle = () => {
    const row = rows.peek().find((one) => keyOf(one) === shown.peek());
    if (row && canChange()) void repository.move(row.side === "staged" ? "unstage" : "stage", [row]);
  };
  const commit = () => canChange() && rows.peek().length && void commitDialog(repository);
  addKeys([
    { keys: "[", label: "Previous file", run: () => step(-1) },
    { keys: "]", label: "Next file", run: () => step(1) },
    { keys: "S", label: "Stage or unstage this file", changes: "manager", run: toggle },
    { keys: "C", label: "Commit", changes: "manager", run: () => void commit() },
  ]);

  const sides = el("div", { class: "sides scroll", tabindex: 0, role: "region", "aria-label": "Changed files" },
    fileSection(repository, "conflicts", "Conflicts", choice), fileSection(repository, "staged", "Staged", choice),
    fileSection(repository, "changed", "Changed", choice), fileSection(repository, "untracked", "New, not tracked", choice),
    () => (repository.status.value?.truncated ? el("p", { class: "nothing" }, "Not all changes are listed.") : null));
  const changes = el("div", { class: "scroll shown", tabindex: 0, role: "region", "aria-label": "What is changed" }, () => {
    const row = rows.value.find((one) => keyOf(one) === shown.value);
    return row ? [
      el("a", { class: "btn plain small only-phone", href: link("/workspace/changes") }, icon("back"), "All changes"),
      fileChanges(repository, row),
    ] : null;
  });
  // Made once: made anew whenever something changes, it would lose the focus and the places of its lists.
  const panes = el("div", { class: () => (wanted.value && shown.value ? "panes open" : "panes") }, sides, changes);
  const body = el("div", { class: "frame workspace" },
    el("header", { class: "bar" }, el("h1", { class: "hidden" }, "Changes"), tabs("/workspace/changes"),
      el("span", { class: "grow" }), branchChip(repository),
      el("button", { class: "btn plain icon", "aria-label": "Read again", title: "Read again", onclick: () => void repository.reload() },
        icon("reload")),
      () => (rows.value.length
        ? el("button", { class: "btn main", changes: "manager", onclick: () => void commit() }, icon("check"), "Commit…")
        : null)),
    () => {
      if (repository.error.value) return failure(repository.error.value, () => void repository.reload());
      if (!repository.status.value) return skeleton();
      if (!rows.value.length) {
        return emptyState("branch", "Nothing is changed",
          "What the agent or you change in the workspace appears here until it is committed.",
          el("a", { class: "btn", href: link("/workspace/history") }, "Show the history"));
      }
      return panes;
    });
  return { title: "Changes", body };
}
