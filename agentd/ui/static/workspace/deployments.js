/** Deployments: what runs, since when, what went wrong, and what it says. */

import { canChange, get, may, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { computed } from "../core/signals.js";
import { duration } from "../core/durations.js";
import { agoTime, fullTime, ticking } from "../core/time.js";
import { addKeys } from "../parts/keys.js";
import { jobOutput } from "./job_output.js";
import { emptyJobs, facts, jobsPage, stateLine } from "./jobs.js";

/** @typedef {import("../core/signals.js").ReadonlySignal<Deployment>} DeploymentSignal */
/**
 * @typedef {{ name: string, state: "stopped" | "starting" | "running" | "unhealthy" | "stopping" | "waiting" | "failed" | "unknown",
 *   wanted: boolean, pid: number, started: string | null, ended: string | null, exitCode: number | null,
 *   failures: number, restarts: number, crashLoop: boolean, message: string }} Deployment
 */

const WORDS = /** @type {const} */ ({
  stopped: ["off", "Stopped"],
  starting: ["run", "Starting"],
  running: ["good", "Running"],
  unhealthy: ["bad", "Unhealthy"],
  stopping: ["run", "Stopping"],
  waiting: ["need", "Waits to be started again"],
  failed: ["bad", "Failed"],
  unknown: ["off", "Not defined"],
});

const EXAMPLE = `deployments:
  web:
    command: [python, -m, http.server, "8000"]
    health:
      url: http://127.0.0.1:8000/
    restart: on-failure
`;

/** @returns {import("../core/router.js").Page} */
export function page() {
  return jobsPage({
    title: "Deployments",
    path: "/workspace/deployments",
    file: "deployments.yml",
    event: "deploymentUpdate",
    fileEvent: "deploymentsUpdate",
    read: async () => (await get("/api/deploy/status")).deployments,
    stateOf,
    detail: deploymentDetail,
    empty: () => emptyJobs({
      icon: "rocket", title: "No deployments yet", example: EXAMPLE,
      text: "Deployments are programs that agentd keeps running. They are written in deployments.yml in the configuration folder, " +
        "and appear here as soon as the file is saved.",
    }),
  });
}

/** @param {Deployment} deployment */
function stateOf({ state, crashLoop, failures }) {
  const [kind, word] = WORDS[state];
  const again = crashLoop ? "crash loop" : failures ? `${failures} ${failures === 1 ? "failure" : "failures"} in a row` : "";
  const why = [word, again].filter(Boolean).join(" · ");
  return { dot: crashLoop ? "bad" : kind, why, working: state === "starting" || state === "stopping" };
}

/**
 * @param {string} name
 * @param {DeploymentSignal} deployment
 * @param {import("./jobs.js").Jobs<Deployment>} jobs
 */
function deploymentDetail(name, deployment, jobs) {
  const url = encodeURIComponent(name);
  const isUp = computed(() => ["starting", "running", "unhealthy", "waiting"].includes(deployment.value.state));
  /**
   * @param {"start" | "stop" | "restart"} verb
   * @param {Deployment["state"]} guess
   */
  const send = (verb, guess) => jobs.act(name, { state: guess }, () => post(`/api/deploy/${verb}/${url}`));
  const start = () => void send("start", "starting");
  const stop = () => void send("stop", "stopping");
  const restart = () => void send("restart", "stopping");
  addKeys([{ keys: "R", label: "Start or restart the deployment", changes: "manager",
    run: () => canChange() && (isUp.peek() ? restart() : start()) }]);
  return el("article", { class: "job" },
    el("header", { class: "job-head" },
      el("div", { class: "titles" }, el("h2", null, name), stateLine(computed(() => stateOf(deployment.value)))),
      el("span", { class: "grow" }),
      () => (!may("manager") ? el("small", { class: "note-role" }, "Managers start and stop deployments") : isUp.value
        ? [el("button", { class: "btn", changes: "manager", onclick: restart }, icon("reload"), "Restart"),
          el("button", { class: "btn stop", changes: "manager", onclick: stop }, icon("stop"), "Stop")]
        : el("button", { class: "btn main", changes: "manager", disabled: () => deployment.value.state === "stopping", onclick: start },
          icon("play"), "Start", el("kbd", null, "R")))),
    facts(() => {
      const { started, ended, pid, exitCode, restarts } = deployment.value;
      return [
        started ? ["Started", el("time", { datetime: started, title: fullTime(started) }, agoTime(started))] : null,
        pid && started ? ["Runs for", uptime(started)] : null,
        !pid && ended ? ["Ended", el("time", { datetime: ended, title: fullTime(ended) }, agoTime(ended))] : null,
        pid ? ["Process", String(pid)] : null,
        exitCode === null ? null : [exitCode < 0 ? "Last signal" : "Last exit code", String(Math.abs(exitCode))],
        restarts ? ["Restarts", restarts.toLocaleString("en")] : null,
      ];
    }),
    () => (deployment.value.message ? el("p", { class: "failure" }, icon("warning"), el("span", null, deployment.value.message)) : null),
    jobOutput({ name, path: "/api/deploy/output", event: "deploymentOutput", resumes: true }).node);
}

/** @param {string} started */
function uptime(started) {
  const tick = ticking();
  return el("span", { class: "num" }, () => duration((tick.value - Date.parse(started)) / 1000));
}
