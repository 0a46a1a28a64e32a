/** The working repository as pages show it: what is changed, staged optimistically, kept current. */

import { ApiError, get, post } from "../core/api.js";
import { onEnd, signal } from "../core/signals.js";
import { toastError } from "../parts/toast.js";
import { parseDiff } from "../parts/diff.js";
import { onFilesChange } from "./follow.js";

/**
 * @typedef {{ path: string, change: string, before: string }} ChangedFile
 * @typedef {{ branch: string, upstream: string, ahead: number, behind: number, staged: readonly ChangedFile[],
 *   changed: readonly ChangedFile[], untracked: readonly string[], conflicts: readonly string[], hooks: readonly string[],
 *   truncated: boolean }} Status
 * @typedef {{ id: string, at: string, author: string, subject: string }} Commit
 * @typedef {"staged" | "changed" | "untracked" | "conflicts"} Side
 * @typedef {{ path: string, change: string, before: string, side: Side }} Row
 * @typedef {{ added: number, removed: number }} Counts
 */

/** So many paths a request may have. */
const MOST_PATHS = 1000;

/** Follow what is changed while what is being made now lasts. */
export function followRepository() {
  const status = signal(/** @type {Status | null} */ (null));
  const error = signal(/** @type {ApiError | null} */ (null));
  const counts = signal(/** @type {ReadonlyMap<string, Counts>} */ (new Map()));
  /** Grows whenever differences may have changed. */
  const version = signal(0);
  let reads = 0;

  async function reload() {
    const ours = ++reads;
    try {
      const answer = await get("/api/git/status");
      if (ours !== reads) return;
      status.value = answer;
      error.value = null;
      version.value++;
      await countLines(ours);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      if (ours === reads && (!status.peek() || problem.status)) error.value = status.peek() && problem.passing ? null : problem;
    }
  }

  /** @param {number} ours */
  async function countLines(ours) {
    const [staged, changed] = await Promise.all([get("/api/git/diff", { staged: true }), get("/api/git/diff", { staged: false })]);
    if (ours !== reads) return;
    /** @type {Map<string, Counts>} */
    const found = new Map();
    for (const [side, answer] of /** @type {const} */ ([["staged", staged], ["changed", changed]])) {
      const files = parseDiff(answer.diff);
      if (answer.truncated) files.pop(); // the last one is not whole
      for (const file of files) found.set(`${side} ${file.path}`, file);
    }
    counts.value = found;
  }

  /**
   * Stage or unstage files; shown at once, and taken back when the daemon refuses.
   * @param {"stage" | "unstage"} deed
   * @param {readonly Row[]} rows
   */
  async function move(deed, rows) {
    const before = status.peek();
    if (!before || !rows.length) return;
    const ours = ++reads;
    status.value = moved(before, deed, rows);
    try {
      const paths = rows.flatMap((row) => (row.change === "renamed" ? [row.path, row.before] : [row.path]));
      /** @type {Status} */
      let answer = before;
      for (let at = 0; at < paths.length; at += MOST_PATHS) {
        answer = await post(`/api/git/${deed}`, { paths: paths.slice(at, at + MOST_PATHS) });
      }
      if (ours !== reads) return;
      status.value = answer;
      version.value++;
      await countLines(ours);
    } catch (problem) {
      if (ours === reads) status.value = before;
      void reload(); // some of them may have been moved, or others before that are refused, too
      toastError(problem, () => void move(deed, rows));
    }
  }

  onFilesChange(reload);
  onEnd(() => reads++);
  void reload();
  return { status, error, counts, version, reload, move };
}

/** @typedef {ReturnType<typeof followRepository>} Repository */

/**
 * The rows of a side.
 * @param {Status} status
 * @param {Side} side
 * @returns {Row[]}
 */
export function rowsOf(status, side) {
  if (side === "untracked") return status.untracked.map((path) => ({ path, change: "new", before: "", side }));
  if (side === "conflicts") return status.conflicts.map((path) => ({ path, change: "conflict", before: "", side }));
  return status[side].map((file) => ({ ...file, side }));
}

/** @param {Status} status */
export function allRows(status) {
  return /** @type {Side[]} */ (["conflicts", "staged", "changed", "untracked"]).flatMap((side) => rowsOf(status, side));
}

/** @param {Row} row */
export function keyOf(row) {
  return `${row.side} ${row.path}`;
}

/** The letter by which git calls a change. @param {Row} row */
export function letterOf({ change }) {
  return change === "conflict" ? "!" : change === "new" || change === "added" ? "A" : (change[0] ?? "?").toUpperCase();
}

/**
 * @param {Status} before
 * @param {"stage" | "unstage"} deed
 * @param {readonly Row[]} rows
 * @returns {Status}
 */
function moved(before, deed, rows) {
  const paths = new Set(rows.map((row) => row.path));
  const stays = (/** @type {ChangedFile} */ file) => !paths.has(file.path);
  const files = rows.map(({ path, change, before: former }) => ({
    path, change: change === "new" || change === "conflict" ? "added" : change, before: former,
  }));
  const merge = (/** @type {readonly ChangedFile[]} */ list) =>
    [...list.filter(stays), ...files].sort((one, other) => (one.path < other.path ? -1 : 1));
  if (deed === "stage") {
    return {
      ...before, staged: merge(before.staged), changed: before.changed.filter(stays),
      conflicts: before.conflicts.filter((path) => !paths.has(path)),
      untracked: before.untracked.filter((path) => !paths.has(path)),
    };
  }
  const isNew = (/** @type {ChangedFile} */ file) => file.change === "added" || file.change === "copied";
  const added = files.filter(isNew);
  return { ...before, staged: before.staged.filter(stays), untracked: [...before.untracked, ...added.map((file) => file.path)].sort(),
    changed: [...before.changed.filter(stays), ...files.filter((file) => !isNew(file))] };
}
