/** Beside a chat with a work tree: its branch, what it changed, and merging, rebasing, keeping, dropping. */

import { ApiError, get, may, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { effect, onEnd, signal } from "../core/signals.js";
import { diffBox, diffCounts, parseDiff } from "../parts/diff.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { failure, loaded } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { toast } from "../parts/toast.js";
import { splitPath } from "./changed_files.js";
import { commentOn } from "./comments.js";
import { readSoon } from "./follow.js";

/** @typedef {import("../api.d.ts").WorktreeView} Worktree */
/** @typedef {import("../parts/diff.js").FileDiff} FileDiff */
/** @typedef {{ tree: Worktree, diff: string, truncated: boolean }} Seen */

/**
 * @param {import("../agent/chat_data.js").ChatData} chat
 * @param {(text: string) => void} insert puts text into the draft
 */
export function worktreePanel(chat, insert) {
  const path = `/api/chat/${chat.chatId}/worktree`;
  const busy = signal("");
  const refusal = signal(/** @type {unknown} */ (null));

  async function read() {
    const [tree, answer] = await Promise.all([get(path), get(`${path}/diff`)]);
    return /** @type {Seen} */ ({ tree, diff: answer.diff, truncated: answer.truncated });
  }

  /**
   * Do one thing at a time, and show what the daemon says against it.
   * @param {string} deed
   * @param {object} body
   * @param {(answer: any) => string} tell
   */
  async function act(deed, body, tell) {
    if (busy.peek()) return false;
    busy.value = deed;
    refusal.value = null;
    try {
      toast(tell(await post(`${path}/${deed}`, body)));
      return true;
    } catch (error) {
      refusal.value = error;
      return false;
    } finally {
      busy.value = "";
      void seen.reload();
      void chat.refresh();
    }
  }

  /** @param {Worktree} tree */
  const merge = (tree) => act("merge", { into: tree.into }, () => `Merged into ${tree.into}`);
  const rebase = () => act("rebase", {}, (after) => `On top of ${after.into || "the workspace"} now`);
  async function keep() {
    const yes = await confirm({
      title: "Keep the branch only?", action: "Keep the branch",
      text: "What is changed is committed, the branch stays in the repository, and its folder is removed. " +
        "The chat goes on in the workspace.",
    });
    if (yes) await act("keep", {}, (answer) => `${answer.branch} is kept`);
  }
  async function drop() {
    const text = "Its branch and its folder are removed, unless work would be lost. The chat goes on in the workspace.";
    const dropped = (/** @type {any} */ answer) => `${answer.branch} is dropped`;
    if (!await confirm({ title: "Drop the work tree?", text, action: "Drop", danger: true }) || await act("drop", {}, dropped)) return;
    const why = refusal.peek();
    if (!(why instanceof ApiError) || why.status !== 409 || !why.message.includes("would be lost")) return;
    const sure = await confirm({ title: "Lose its changes?", text: `${why.message}.`, action: "Drop with its changes", danger: true });
    if (sure) await act("drop", { force: true }, dropped);
  }

  /** @param {FileDiff} file */
  const showFile = (file) => openDialog(file.path, (close) => {
    const comment = (/** @type {{ path: string }} */ one) => commentOn(one.path, (text) => {
      close();
      insert(text);
    });
    return [el("div", { class: "file-dialog" }, diffBox(file, may("manager") ? comment : undefined))];
  }, { wide: true });

  /** @param {Worktree} tree */
  const buttons = (tree) => el("div", { class: "acts" },
    el("button", { class: "btn main small", changes: "manager",
      disabled: () => Boolean(busy.value) || chat.working.value || !(tree.ahead || tree.uncommitted) || !tree.into,
      onclick: () => void merge(tree) }, icon("branch"), () => (busy.value === "merge" ? "Merging…" : `Merge into ${tree.into || "…"}`)),
    tree.behind
      ? el("button", { class: "btn small", changes: "manager", disabled: () => Boolean(busy.value) || chat.working.value,
        onclick: () => void rebase() }, () => (busy.value === "rebase" ? "Rebasing…" : "Rebase"))
      : null,
    el("span", { class: "grow" }),
    menuButton({ class: "btn plain icon small", changes: "manager", "aria-label": "More about the work tree",
      disabled: () => chat.working.value }, [icon("more")], () => [
        { label: "Keep the branch only", icon: "pin", disabled: tree.step === "planned", changes: "manager", onselect: () => void keep() },
        { label: "Drop", icon: "trash", danger: true, changes: "manager", onselect: () => void drop() },
      ]));

  /** @param {Seen} answer */
  function show({ tree, diff, truncated }) {
    const files = parseDiff(diff);
    const total = files.reduce((sum, one) => ({ added: sum.added + one.added, removed: sum.removed + one.removed }),
      { added: 0, removed: 0 });
    return el("div", { class: "stack" },
      el("div", { class: "panel-head" },
        el("span", { class: "chip branch", title: tree.folder || tree.branch }, icon("branch"), el("bdi", null, tree.branch)),
        el("span", { class: "grow" }), diffCounts(total)),
      el("p", { class: "tree-state" }, describe(tree)),
      tree.problem ? el("p", { class: "tree-problem", role: "alert" }, tree.problem) : null,
      may("manager") ? buttons(tree) : null,
      () => (refusal.value ? failure(refusal.value) : null),
      files.length
        ? el("ul", { class: "changed-files", "aria-label": `Changed against ${tree.into || "the workspace"}` },
          files.map((file) => el("li", null,
            el("button", { class: "file", title: file.path, onclick: () => void showFile(file) },
              el("span", { class: "st" }, icon("file")),
              el("span", { class: "p" }, splitPath(file.path)), el("span", { class: "d" }, diffCounts(file))))))
        : el("p", { class: "nothing" }, "Nothing is changed."),
      truncated ? el("p", { class: "nothing" }, "There are more changes than are listed.") : null);
  }

  const seen = loaded(async () => {
    try {
      return await read();
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) void chat.refresh(); // somebody took it away
      throw error;
    }
  }, show);

  const soon = readSoon(seen.reload);
  const ends = [live.on("gitUpdate", soon), live.on("chatUpdate", soon), live.on("messageUpdate", soon), live.onInterruption(soon)];
  addEventListener("focus", soon);
  onEnd(() => {
    ends.forEach((end) => end());
    removeEventListener("focus", soon);
  });
  effect(() => {
    void chat.working.value;
    soon();
  });
  return el("section", { class: "sect changes-panel", "aria-label": "Work tree" }, seen.node);
}

/**
 * How a work tree stands, in a sentence.
 * @param {Worktree} tree
 */
function describe(tree) {
  if (tree.step === "planned") return "Made with the next prompt, from what is checked out in the workspace.";
  const into = tree.into || "the workspace's commit";
  const parts = [
    tree.ahead ? `${count(tree.ahead, "commit")} ahead of ${into}` : "",
    tree.behind ? `${count(tree.behind, "commit")} behind ${tree.ahead ? "it" : into}` : "",
    tree.uncommitted ? `${count(tree.uncommitted, "file")} not committed` : "",
  ].filter(Boolean);
  return parts.length ? parts.join(", ") : `Nothing that ${into} lacks`;
}

/** @param {number} number @param {string} noun */
function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
