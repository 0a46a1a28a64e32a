/** Builds: their last runs, what was wrong, what they say, and whether the agent fixes them. */

import { ApiError, canChange, get, may, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { computed, effect, onEnd, signal } from "../core/signals.js";
import { duration } from "../core/durations.js";
import { agoTime, fullTime, now, ticking } from "../core/time.js";
import { addKeys } from "../parts/keys.js";
import { autofixPanel, autofixSwitch, followAutofix } from "./autofix.js";
import { jobOutput } from "./job_output.js";
import { emptyJobs, facts, jobsPage, stateLine } from "./jobs.js";
import { problemList } from "./problems.js";

/** @typedef {import("../core/signals.js").ReadonlySignal<Build>} BuildSignal */
/**
 * @typedef {{ name: string, state: "none" | "running" | "succeeded" | "failed" | "timedOut" | "stopped" | "interrupted",
 *   run: string, startedBy: string, started: string | null, ended: string | null, exitCode: number | null,
 *   errors: number, warnings: number, size: number, omitted: number, message: string }} Build
 */

const WORDS = /** @type {const} */ ({
  none: ["off", "Never run"],
  running: ["run", "Running"],
  succeeded: ["good", "Succeeded"],
  failed: ["bad", "Failed"],
  timedOut: ["bad", "Took too long"],
  stopped: ["off", "Stopped"],
  interrupted: ["need", "Interrupted: agentd stopped"],
});

const EXAMPLE = `builds:
  app:
    command: [make, all]
    folder: .
    timeout: 600
`;

/** @returns {import("../core/router.js").Page} */
export function page() {
  const autofix = followAutofix();
  return jobsPage({
    title: "Builds",
    path: "/workspace/builds",
    file: "builds.yml",
    event: "buildUpdate",
    fileEvent: "buildsUpdate",
    read: async () => (await get("/api/build/status")).builds,
    stateOf,
    detail: (name, build, jobs) => buildDetail(name, build, jobs, autofix),
    actions: [autofixSwitch(autofix)],
    empty: () => emptyJobs({
      icon: "build", title: "No builds yet", example: EXAMPLE,
      text: "Builds are commands that build and test the workspace. They are written in builds.yml in the configuration folder, " +
        "and appear here as soon as the file is saved.",
    }),
  });
}

/** @param {Build} build */
function stateOf(build) {
  const [kind, word] = WORDS[build.state];
  const counts = [counted(build.errors, "error"), counted(build.warnings, "warning")].filter(Boolean);
  return { dot: kind, why: [word, ...counts].join(" · "), working: build.state === "running" };
}

/**
 * @param {number} count
 * @param {string} noun
 */
function counted(count, noun) {
  return count ? `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}` : "";
}

/**
 * @param {string} name
 * @param {BuildSignal} build
 * @param {import("./jobs.js").Jobs<Build>} jobs
 * @param {import("./autofix.js").Autofix} autofix
 */
function buildDetail(name, build, jobs, autofix) {
  const running = computed(() => build.value.state === "running");
  const url = encodeURIComponent(name);
  const run = () => jobs.act(name, {
    state: "running", started: new Date(now()).toISOString(), ended: null, errors: 0, warnings: 0, message: "",
  }, () => post(`/api/build/trigger/${url}`));
  const stop = () => jobs.act(name, {}, () => post(`/api/build/stop/${url}`));
  const output = jobOutput({ name, path: "/api/build/output", event: "buildOutput", resumes: false });
  reloadWith(build, output.reload);
  addKeys([{ keys: "R", label: "Run the build", changes: "manager", run: () => canChange() && !running.peek() && void run() }]);
  return el("article", { class: "job" },
    el("header", { class: "job-head" },
      el("div", { class: "titles" }, el("h2", null, name), stateLine(computed(() => stateOf(build.value)))),
      el("span", { class: "grow" }),
      () => (!may("manager") ? el("small", { class: "note-role" }, "Managers run builds") : running.value
        ? el("button", { class: "btn stop", changes: "manager", onclick: () => void stop() }, icon("stop"), "Stop")
        : el("button", { class: "btn main", changes: "manager", onclick: () => void run() }, icon("play"), "Run", el("kbd", null, "R")))),
    facts(() => {
      const { started, ended, startedBy, exitCode, size, omitted } = build.value;
      return [
        started ? ["Started", el("time", { datetime: started, title: fullTime(started) }, agoTime(started))] : null,
        started
          ? ["Took", running.value ? elapsed(started) : ended ? duration((Date.parse(ended) - Date.parse(started)) / 1000) : "–"]
          : null,
        startedBy ? ["By", startedBy] : null,
        exitCode === null ? null : [exitCode < 0 ? "Signal" : "Exit code", String(Math.abs(exitCode))],
        size ? ["Output", `${bytes(size)}${omitted ? `, ${bytes(omitted)} not kept` : ""}`] : null,
      ];
    }),
    () => (build.value.message ? el("p", { class: "failure" }, icon("warning"), el("span", null, build.value.message)) : null),
    problems(name, build), autofixPanel(name, autofix), output.node);
}

/** @param {string} started */
function elapsed(started) {
  const tick = ticking();
  return el("span", { class: "num" }, () => duration((tick.value - Date.parse(started)) / 1000));
}

/**
 * Read the output again when another run begins, and when a run ends of which some output was skipped.
 * @param {BuildSignal} build
 * @param {() => void} reload
 */
function reloadWith(build, reload) {
  let { run, state } = build.peek();
  effect(() => {
    const next = build.value;
    if ((next.run && next.run !== run) || (state === "running" && next.state !== "running")) reload();
    ({ run, state } = next);
  });
}

/**
 * @param {string} name
 * @param {BuildSignal} build
 */
function problems(name, build) {
  const found = signal(/** @type {import("./problems.js").Problem[]} */ ([]));
  /** Grows when what could not be read may be there now. */
  const again = signal(0);
  let missed = false;
  onEnd(live.onInterruption(() => missed && again.value++));
  const key = computed(() => `${again.value} ${build.value.run} ${build.value.errors} ${build.value.warnings} ${build.value.state}`);
  effect(() => {
    void key.value;
    if (!build.peek().errors && !build.peek().warnings) {
      found.value = [];
      return undefined;
    }
    const abort = new AbortController();
    const failed = (/** @type {unknown} */ error) => {
      missed = !abort.signal.aborted;
      if (missed && !(error instanceof ApiError)) reportError(error);
    };
    missed = false;
    const timer = setTimeout(() => void get(`/api/build/status/${encodeURIComponent(name)}`, {}, abort.signal)
      .then((answer) => (found.value = answer.problems), failed), 200);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  });
  return () => (found.value.length ? problemList(found.value, build.peek().errors + build.peek().warnings) : null);
}

/** @param {number} count */
function bytes(count) {
  if (count < 1000) return `${count} B`;
  return count < 1e6 ? `${(count / 1000).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}
