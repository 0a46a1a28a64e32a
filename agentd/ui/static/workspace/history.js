/** History: the commits, newest first, and what each changed. */

import { ApiError, get } from "../core/api.js";
import { el, icon, skeleton } from "../core/el.js";
import { list } from "../core/list.js";
import * as live from "../core/live.js";
import { link, query, setQuery } from "../core/router.js";
import { computed, onEnd, signal } from "../core/signals.js";
import { fullTime, shortTime } from "../core/time.js";
import { diffBox, diffCounts, parseDiff } from "../parts/diff.js";
import { emptyState, failure, loaded } from "../parts/frame.js";
import { addKeys } from "../parts/keys.js";
import { loadStyle } from "../parts/stylesheet.js";
import { tabs } from "../parts/tabs.js";
import { toast } from "../parts/toast.js";
import { choose } from "./choose.js";

/** @typedef {import("./repository.js").Commit} Commit */

const PAGE = 50;
/** Commits that are listed at a time; older ones replace the newest. */
const MOST = 300;

await loadStyle("workspace");

/** @returns {import("../core/router.js").Page} */
export function page() {
  const path = query.peek().get("path") ?? "";
  const commits = signal(/** @type {readonly Commit[] | null} */ (null));
  const error = signal(/** @type {unknown} */ (null));
  const next = signal("");
  /** Whether newer commits were dropped from the list. */
  const cut = signal(false);
  let reading = false;

  let latest = 0;

  /** Read the newest commits; the older ones that are listed stay, for somebody may be reading them. */
  async function reload() {
    const turn = ++latest;
    try {
      const answer = await get("/api/git/log", { limit: PAGE, path });
      if (turn !== latest) return;
      const known = cut.peek() ? [] : (commits.peek() ?? []);
      const last = known.findIndex((commit) => commit.id === answer.commits.at(-1)?.id);
      commits.value = [...answer.commits, ...(last < 0 ? [] : known.slice(last + 1))];
      if (last < 0) next.value = answer.next;
      cut.value = false;
      error.value = null;
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      if (turn === latest && !commits.peek()) error.value = problem;
    }
  }
  async function older() {
    const before = next.peek();
    if (reading || !before) return;
    reading = true;
    try {
      const answer = await get("/api/git/log", { limit: PAGE, path, before });
      if (next.peek() !== before) return; // the list begins anew
      const all = [...(commits.peek() ?? []), ...answer.commits];
      cut.value ||= all.length > MOST;
      commits.value = all.slice(-MOST);
      next.value = answer.next;
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
    } finally {
      reading = false;
    }
  }
  const fresh = () => !cut.peek() && void reload();
  const ends = [live.on("gitUpdate", fresh), live.onInterruption(fresh)];
  onEnd(() => ends.forEach((end) => end()));
  void reload();

  const wanted = computed(() => query.value.get("commit") ?? "");
  const shown = computed(() => wanted.value || (matchMedia("(min-width: 720.5px)").matches ? (commits.value?.[0]?.id ?? "") : ""));
  const step = (/** @type {1 | -1} */ by) => {
    const all = commits.peek() ?? [];
    const one = all[all.findIndex((commit) => commit.id === shown.peek()) + by];
    if (one) setQuery({ commit: one.id });
  };
  addKeys([{ keys: "[", label: "Newer commit", run: () => step(-1) }, { keys: "]", label: "Older commit", run: () => step(1) }]);

  const rows = el("ul", { class: "commits" });
  list(rows, () => commits.value ?? [], (commit) => commit.id, (commit) => el("li", null, commitRow(commit.peek(), () => shown.value)));
  const sides = el("div", { class: "sides scroll", tabindex: 0, role: "region", "aria-label": "Commits" },
    () => (cut.value ? el("button", { class: "btn plain small more newest", onclick: () => void reload() }, "To the newest") : null), rows,
    () => (next.value ? el("button", { class: "btn plain small more", onclick: () => void older() }, "Older commits") : null));
  sides.addEventListener("scroll", () => {
    if (sides.scrollHeight - sides.scrollTop - sides.clientHeight < 300) void older();
  }, { passive: true });
  const changes = el("div", { class: "scroll shown", tabindex: 0, role: "region", "aria-label": "The commit" },
    () => (shown.value ? [
      el("a", { class: "btn plain small only-phone", href: link(`/workspace/history${path ? `?path=${encodeURIComponent(path)}` : ""}`) },
        icon("back"), "All commits"),
      showCommit(shown.value, commits),
    ] : null));
  // Made once: made anew whenever commits come, it would lose the focus and the places of its lists.
  const panes = el("div", { class: () => (wanted.value ? "panes open" : "panes") }, sides, changes);
  const body = el("div", { class: "frame workspace" },
    el("header", { class: "bar" }, el("h1", { class: "hidden" }, "History"), tabs("/workspace/changes"), el("span", { class: "grow" }),
      path ? el("span", { class: "chip" }, el("bdi", null, path)) : null,
      path ? el("a", { class: "btn plain small", href: link("/workspace/history") }, "All files") : null),
    () => {
      if (error.value) return failure(error.value, () => void reload());
      if (!commits.value) return skeleton();
      if (!commits.value.length && !wanted.value) {
        return emptyState("history", "No commits yet",
          path ? "No commit changed this file." : "Commits of the workspace's repository appear here.",
          el("a", { class: "btn", href: link("/workspace/changes") }, "Show the changes"));
      }
      return panes;
    });
  return { title: "History", body };
}

/**
 * @param {Commit} commit
 * @param {() => string} shown
 */
function commitRow(commit, shown) {
  return el("button", { class: "commit", "data-id": commit.id, "aria-current": () => (shown() === commit.id ? "true" : null),
    onclick: () => choose({ commit: commit.id }) },
    el("span", { class: "subject", dir: "auto" }, commit.subject || "(no message)"),
    el("time", { datetime: commit.at, title: fullTime(commit.at) }, shortTime(commit.at)),
    el("span", { class: "who-did" }, el("bdi", null, commit.author), " · ", el("code", null, commit.id.slice(0, 9))));
}

/**
 * @param {string} id
 * @param {import("../core/signals.js").Signal<readonly Commit[] | null>} commits
 */
function showCommit(id, commits) {
  const known = commits.peek()?.find((commit) => commit.id === id);
  const head = known ? el("header", { class: "commit-head" }, el("h2", { dir: "auto" }, known.subject || "(no message)"),
    el("p", null, el("bdi", null, known.author), ` · ${fullTime(known.at)} · `,
      el("button", { class: "copy-id", title: "Copy", onclick: () => void copy(id) }, el("code", null, id.slice(0, 12)), icon("copy"))),
  ) : el("header", { class: "commit-head" }, el("h2", null, "Commit ", el("code", null, id.slice(0, 12))));
  return el("div", { class: "loaded" }, head, loaded(() => get("/api/git/diff", { commit: id }), (answer) => {
    const files = parseDiff(answer.diff);
    const total = files.reduce((sum, file) => ({ added: sum.added + file.added, removed: sum.removed + file.removed }),
      { added: 0, removed: 0 });
    return el("div", { class: "stack" },
      files.length
        ? el("p", { class: "total" }, `${files.length} ${files.length === 1 ? "file" : "files"} `, diffCounts(total))
        : el("p", { class: "nothing" }, "It changes no file: a merge, or an empty commit."),
      ...files.map((file) => diffBox(file)),
      answer.truncated ? el("p", { class: "nothing" }, "Only the beginning is shown.") : null);
  }).node);
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("The browser does not allow copying here", { details: text });
  }
}
