/** Beside a chat: what is changed in the workspace, with comments that join this chat's draft. */

import { el, icon } from "../core/el.js";
import { link } from "../core/router.js";
import { computed } from "../core/signals.js";
import { diffCounts } from "../parts/diff.js";
import { openDialog } from "../parts/dialog.js";
import { failure } from "../parts/frame.js";
import { branchChip, commitDialog, fileChanges, fileSection } from "./changed_files.js";
import { allRows, followRepository } from "./repository.js";

/** @typedef {import("./repository.js").Row} Row */

/** @param {(text: string) => void} insert puts text into the draft */
export function changesPanel(insert) {
  const repository = followRepository();
  const rows = computed(() => (repository.status.value ? allRows(repository.status.value) : []));
  const total = computed(() => [...repository.counts.value.values()]
    .reduce((sum, one) => ({ added: sum.added + one.added, removed: sum.removed + one.removed }), { added: 0, removed: 0 }));
  const choice = { chosen: () => "", choose: (/** @type {Row} */ row) => void showFile(row) };
  /** @param {Row} row */
  function showFile(row) {
    return openDialog(row.path, (close) => [el("div", { class: "file-dialog" }, fileChanges(repository, row, (text) => {
      close();
      insert(text);
    }))], { wide: true });
  }
  return el("section", { class: "sect changes-panel", "aria-label": "Changes" },
    el("div", { class: "panel-head" }, branchChip(repository), el("span", { class: "grow" }), () => diffCounts(total.value)),
    () => (repository.error.value ? failure(repository.error.value, () => void repository.reload()) : null),
    () => (repository.status.value && !rows.value.length && !repository.error.value
      ? el("p", { class: "nothing" }, "Nothing is changed.")
      : null),
    fileSection(repository, "conflicts", "Conflicts", choice), fileSection(repository, "staged", "Staged", choice),
    fileSection(repository, "changed", "Changed", choice), fileSection(repository, "untracked", "New, not tracked", choice),
    el("div", { class: "acts" },
      () => (rows.value.length
        ? el("button", { class: "btn small", changes: "manager", onclick: () => void commitDialog(repository) }, icon("check"), "Commit…")
        : null),
      el("a", { class: "btn plain small", href: link("/workspace/changes") }, "Review all")));
}
