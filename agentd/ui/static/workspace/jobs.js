/** What builds and deployments share: a list beside what is chosen of it, read once and followed. */

import { ApiError, get } from "../core/api.js";
import { dot, el, fill, icon, skeleton } from "../core/el.js";
import { list } from "../core/list.js";
import * as live from "../core/live.js";
import { link, query, setQuery } from "../core/router.js";
import { computed, onEnd, signal } from "../core/signals.js";
import { fullTime, shortTime } from "../core/time.js";
import { failure } from "../parts/frame.js";
import { addKeys } from "../parts/keys.js";
import { loadStyle } from "../parts/stylesheet.js";
import { tabs } from "../parts/tabs.js";
import { toast, toastError } from "../parts/toast.js";

await Promise.all([loadStyle("gateway"), loadStyle("workspace"), loadStyle("jobs")]);

/** @typedef {import("../core/el.js").Single} Single */
/** @typedef {{ name: string, state: string, started: string | null, ended: string | null }} Job */
/**
 * @template {Job} T
 * @typedef {{ title: string, path: string, file: string, read: () => Promise<T[]>, event: string, fileEvent: string,
 *   stateOf: (job: T) => { dot: string, why: string, working: boolean },
 *   detail: (name: string, job: import("../core/signals.js").ReadonlySignal<T>, jobs: Jobs<T>) => HTMLElement,
 *   actions?: Single[], empty: () => HTMLElement }} Kind
 */
/**
 * @template {Job} T
 * @typedef {{ put: (job: T) => void, act: (name: string, guess: Partial<T>, request: () => Promise<T>) => Promise<void> }} Jobs
 */

const narrow = matchMedia("(max-width: 720px)");

/**
 * A page of builds or of deployments.
 * @template {Job} T
 * @param {Kind<T>} kind
 * @returns {import("../core/router.js").Page}
 */
export function jobsPage(kind) {
  const jobs = signal(/** @type {ReadonlyMap<string, T>} */ (new Map()));
  const state = signal(/** @type {"loading" | "ready" | { error: unknown }} */ ("loading"));
  const chosen = computed(() => {
    const wanted = query.value.get("name") ?? "";
    if (jobs.value.has(wanted) || (wanted && state.value === "ready" && narrow.matches)) return wanted;
    return narrow.matches ? "" : [...jobs.value.keys()][0] ?? "";
  });

  const events = live.follower();
  let reads = 0;
  async function reload() {
    const read = ++reads;
    try {
      await events.read(kind.read, (found) => {
        if (read !== reads) return; // a later one tells what is newer
        jobs.value = new Map(found.map((job) => [job.name, job]));
        state.value = "ready";
      });
    } catch (error) {
      if (!(error instanceof ApiError)) reportError(error);
      if (read === reads && state.peek() !== "ready") state.value = { error };
    }
  }

  /** @param {T} job */
  function put(job) {
    jobs.value = new Map(jobs.peek()).set(job.name, job);
  }

  /**
   * Show what is asked for at once; take it back if the daemon does not do it.
   * @param {string} name
   * @param {Partial<T>} guess
   * @param {() => Promise<T>} request
   */
  async function act(name, guess, request) {
    const before = jobs.peek().get(name);
    const guessed = before && { ...before, ...guess };
    if (guessed) put(guessed);
    try {
      const answer = await request();
      if (!guessed || jobs.peek().get(name) === guessed) put(answer); // else an event told more
    } catch (error) {
      if (before && jobs.peek().get(name) === guessed) put(before);
      toastError(error, () => void act(name, guess, request));
    }
  }

  /** The file's problem; while there is one, the page shows its last valid content. */
  const problems = signal(/** @type {readonly { where: string, line: number, what: string }[]} */ ([]));
  async function readProblems() {
    try {
      const found = (await get("/api/settings/all")).problems;
      problems.value = found.filter((/** @type {{ where: string }} */ one) => one.where.endsWith(`/${kind.file}`));
    } catch (error) {
      if (!(error instanceof ApiError)) reportError(error);
    }
  }
  const readAll = () => {
    void reload();
    void readProblems();
  };

  readAll();
  const onVisible = () => !document.hidden && void reload();
  document.addEventListener("visibilitychange", onVisible);
  const endings = [events.on(kind.event, put), live.on(kind.fileEvent, readAll), live.onInterruption(readAll),
    () => document.removeEventListener("visibilitychange", onVisible)];
  onEnd(() => endings.forEach((end) => end()));
  addKeys([
    { keys: "J", label: "Next in the list", run: () => step(1) },
    { keys: "K", label: "Previous in the list", run: () => step(-1) },
  ]);

  /** @param {1 | -1} by */
  function step(by) {
    const names = [...jobs.peek().keys()];
    const at = names.indexOf(chosen.peek());
    const next = names[at < 0 ? 0 : at + by];
    if (next) setQuery({ name: next });
  }

  const rows = el("ul", { class: "job-rows" });
  list(rows, () => [...jobs.value.values()], (job) => job.name, (job) => jobRow(kind, job, chosen));

  return {
    title: kind.title,
    body: el("div", { class: () => `frame workspace jobs-page${query.value.get("name") ? " has-chosen" : ""}` },
      el("header", { class: "bar" },
        el("h1", { class: "hidden" }, kind.title), tabs("/workspace/changes"), el("span", { class: "grow" }), kind.actions ?? null),
      () => (problems.value.length ? fileProblems(kind.file, problems.value) : null),
      () => content(state.value)),
  };

  /** @param {"loading" | "ready" | { error: unknown }} now */
  function content(now) {
    if (now === "loading") return skeleton();
    if (now !== "ready") {
      return failure(now.error, () => {
        state.value = "loading";
        void reload();
      });
    }
    const nothing = computed(() => jobs.value.size === 0);
    return el("div", { class: "jobs" }, () => nothing.value ? kind.empty() : [
      el("nav", { class: "job-list", "aria-label": kind.title }, rows),
      el("div", { class: "job-detail", role: "region", "aria-label": "Details", tabindex: -1 },
        el("a", { class: "btn plain small only-phone back", href: link(kind.path) }, icon("back"), `All ${kind.title.toLowerCase()}`),
        () => detail(chosen.value)),
    ]);
  }

  /** @param {string} name */
  function detail(name) {
    if (!name) return null;
    const first = jobs.peek().get(name);
    if (!first) {
      return el("div", { class: "empty" },
        icon("warning"), el("h2", null, "It no longer exists"), el("p", null, name.slice(0, 64)));
    }
    let last = first;
    const job = computed(() => (last = jobs.value.get(name) ?? last));
    return kind.detail(name, job, { put, act });
  }
}

/**
 * @template {Job} T
 * @param {Kind<T>} kind
 * @param {import("../core/signals.js").ReadonlySignal<T>} job
 * @param {import("../core/signals.js").ReadonlySignal<string>} chosen
 */
function jobRow(kind, job, chosen) {
  const { name } = job.peek();
  const state = computed(() => kind.stateOf(job.value));
  const moment = computed(() => job.value.ended ?? job.value.started);
  const choose = (/** @type {MouseEvent} */ event) => {
    if (narrow.matches || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    setQuery({ name });
  };
  return el("li", null, el("a", {
    class: "item", href: `${link(kind.path)}?name=${encodeURIComponent(name)}`, onclick: choose,
    "aria-current": () => (chosen.value === name ? "true" : null),
  },
  () => dot(`${state.value.dot}${state.value.working ? " beat" : ""}`), el("span", { class: "name" }, name),
  () => (moment.value ? el("time", { datetime: moment.value, title: fullTime(moment.value) }, shortTime(moment.value)) : null),
  el("span", { class: () => `why ${state.value.dot}` }, () => state.value.why)));
}

/**
 * @param {string} file
 * @param {readonly { line: number, what: string }[]} problems
 */
function fileProblems(file, problems) {
  return el("div", { class: "failure file-problems", role: "status" }, icon("warning"), el("span", null,
    `${file} has a problem; what it said before stays in force`,
    problems.slice(0, 3).map(({ line, what }) => el("small", null, line ? `Line ${line}: ${what}` : what))));
}

/**
 * The state of a job, in words.
 * @param {import("../core/signals.js").ReadonlySignal<{ dot: string, why: string, working: boolean }>} state
 */
export function stateLine(state) {
  return el("span", { class: () => `state ${state.value.dot}`, role: "status" },
    () => [dot(`${state.value.dot}${state.value.working ? " beat" : ""}`), state.value.why]);
}

/**
 * The facts of a job, in two columns.
 * @param {() => ([string, Single] | null)[]} rows
 */
export function facts(rows) {
  return el("dl", { class: "facts" }, () => rows().filter((row) => row !== null).map(([name, value]) =>
    el("div", null, el("dt", null, name), el("dd", null, value))));
}

/**
 * Where there is nothing: which file it is written in, with an example to begin with.
 * @param {{ icon: string, title: string, text: string, example: string }} options
 */
export function emptyJobs({ icon: name, title, text, example }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(example);
      toast("The example is copied");
    } catch {
      toast("This browser allows no copying here", { details: "Select the example, and copy it by hand." });
    }
  };
  const box = el("pre", { class: "example", tabindex: 0, "aria-label": "Example" });
  fill(box, example);
  return el("div", { class: "empty" }, icon(name), el("h2", null, title), el("p", null, text), box,
    el("button", { class: "btn", onclick: () => void copy() }, icon("copy"), "Copy the example"));
}
