/** The hooks of the native engine: those of hooks.yml, and those that the workspace's files name. */

import { get, may, remove } from "../core/api.js";
import { el } from "../core/el.js";
import { agoTime } from "../core/time.js";
import { confirm } from "../parts/dialog.js";
import { emptyState, loaded } from "../parts/frame.js";
import { loadStyle } from "../parts/stylesheet.js";
import { toastError } from "../parts/toast.js";
import { card, decisionState, failureLine, follow, listView, longList, makerOf, settingsPage, whoMay } from "./frame.js";

await loadStyle("hooks");

/**
 * @typedef {import("../api.d.ts").HooksView} Found
 * @typedef {import("../api.d.ts").HookView} Hook
 * @typedef {import("../api.d.ts").WorkspaceHooksView} File
 */

/** @returns {import("../core/router.js").Page} */
export function page() {
  if (!may("administrator")) return settingsPage("Hooks", card({ title: "Hooks" }, whoMay("administrator")));
  const [view, filesView] = [listView(), listView()];
  const read = loaded(() => get("/api/hooks"), show);
  const reload = () => void read.reload();
  follow(["hooksUpdate", "settingsUpdate"], reload);
  return settingsPage("Hooks", read.node);

  /** @param {Found} found */
  function show({ hooks, problems, workspace }) {
    return [
      card({
        title: "Hooks",
        text: "Command lines of hooks.yml. The native engine runs them before and after tools, with a prompt, and at a turn’s end.",
      },
        problems.map((problem) => el("div", { class: "inside" }, failureLine(new Error(problem)))),
        hooks.length
          ? longList(hooks, textOf, ownRow, "hooks", view)
          : emptyState("play", "No hooks yet", "They are written in hooks.yml of the configuration, in Claude Code’s format.")),
      workspace.files.length || workspace.problems.length ? workspaceCard(workspace) : null,
    ];
  }

  /** @param {Found["workspace"]} workspace */
  function workspaceCard({ ignored, files, problems }) {
    return card({
      title: "Of the workspace",
      text: ignored
        ? "hooks.yml says workspace_hooks: false, so the workspace’s hooks are ignored."
        : "A person is asked before the hooks of a file run for the first time, and again when they change.",
    },
      problems.map((problem) => el("div", { class: "inside" }, failureLine(new Error(problem)))),
      longList(files, (file) => `${file.source} ${file.hooks.map(textOf).join(" ")}`, (file) => fileRow(file, ignored), "files",
        filesView));
  }

  /** @param {File} file @param {boolean} ignored */
  function fileRow(file, ignored) {
    return el("li", null,
      el("span", { class: "name" }, el("b", null, el("bdi", null, file.source))),
      file.isPresent
        ? el("ul", { class: "hooks", "aria-label": `Hooks of ${file.source}` },
          file.hooks.map((hook) => el("li", null, describeHook(hook))))
        : el("small", null, "Not in the file now, or written otherwise there"),
      el("small", null, decided(file, ignored)),
      el("span", { class: "ends" },
        decisionState(file),
        file.decision === "undecided" ? null : el("button", {
          class: "btn small", changes: "administrator", "aria-label": `Withdraw the decision about ${file.source}`,
          onclick: () => void withdraw(file),
        }, "Withdraw")));
  }

  /** @param {File} file */
  async function withdraw(file) {
    const text = "What runs already goes on to the end of its turn; the next turn asks about these hooks again.";
    if (!await confirm({ title: `Withdraw the decision about ${file.source}?`, text, action: "Withdraw" })) return;
    try {
      await remove(`/api/hooks/decisions/${encodeURIComponent(file.id)}`);
    } catch (error) {
      toastError(error);
    }
    reload();
  }
}

/** @param {Hook} hook */
function textOf({ event, matcher, command }) {
  return `${event} ${matcher} ${command}`;
}

/** @param {Hook} hook */
function ownRow(hook) {
  return el("li", null, el("div", { class: "hooks" }, describeHook(hook)),
    el("small", null, `hooks.yml · ended after ${hook.seconds} seconds`));
}

/** @param {Hook} hook */
function describeHook({ event, matcher, command }) {
  return [el("span", { class: "chip" }, event), matcher ? el("bdi", { class: "matcher" }, matcher) : null, el("code", null, command)];
}

/** @param {File} file @param {boolean} ignored */
function decided({ decision, decidedAt, decidedBy }, ignored) {
  if (!decidedAt) return ignored ? "Not asked about" : "Asked about with the next turn";
  const by = decidedBy ? ` by ${makerOf(decidedBy)}` : "";
  return [`${decision === "allowed" ? "Allowed" : "Denied"}${by} `, agoTime(decidedAt)];
}
