/** The command lines in the background of a chat, on top of its queue: what they write, and how to stop them. */

import { ApiError, get, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { list } from "../core/list.js";
import * as live from "../core/live.js";
import { computed, onEnd, signal } from "../core/signals.js";
import { agoTime, fullTime } from "../core/time.js";
import { loadStyle } from "../parts/stylesheet.js";
import { toastError } from "../parts/toast.js";

/** @typedef {import("../api.d.ts").ProcessView} Process */

/** Milliseconds until the output that is shown is read again. */
const AGAIN = 2000;

/** @param {number} chatId */
export async function processList(chatId) {
  await loadStyle("processes");
  return () => makeList(chatId);
}

/** @param {number} chatId */
function makeList(chatId) {
  const path = `/api/chats/${chatId}/processes`;
  const processes = signal(/** @type {readonly Process[]} */ ([]));
  const folded = signal(true);
  /** The process whose output is shown; 0: none. */
  const shown = signal(0);
  const running = computed(() => processes.value.filter((one) => one.running).length);

  let reads = 0;
  async function load() {
    const read = ++reads;
    try {
      const answer = await get(path);
      if (read === reads) processes.value = answer.processes; // else a later one tells what is newer
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }
  void load();
  const isRunning = () => processes.peek().some((one) => one.id === shown.peek() && one.running);
  const timer = setInterval(() => shown.peek() && isRunning() && void load(), AGAIN);
  const ends = [live.on("processesUpdate", (id) => id === chatId && void load()), live.onInterruption(() => void load())];
  onEnd(() => {
    clearInterval(timer);
    ends.forEach((end) => end());
  });

  /** @param {Process} one */
  const stop = (one) => void post(`${path}/${one.id}/stop`).then(load, toastError);

  const rows = el("ul", { "aria-label": "Processes in the background", hidden: () => folded.value });
  list(rows, () => processes.value, (one) => one.id, (one) => {
    const { id, command } = one.peek();
    const open = () => shown.value === id;
    return el("li", { class: () => `process${one.value.running ? "" : " ended"}` },
      el("div", { class: "line" },
        el("span", { class: () => `dot ${one.value.running ? "run" : one.value.exitCode ? "bad" : "off"}` }),
        el("button", { class: "name", "aria-expanded": () => String(open()), title: command,
          onclick: () => (shown.value = shown.peek() === id ? 0 : id) },
          el("code", null, command)),
        el("span", { class: "how", title: () => fullTime(one.value.endedAt ?? one.value.startedAt) }, () => describe(one.value)),
        () => (one.value.running
          ? el("button", { class: "btn plain icon small", changes: "manager", "aria-label": `Stop ${command}`, title: "Stop",
            onclick: () => stop(one.peek()) }, icon("stop"))
          : null)),
      () => (open() ? el("pre", { class: "output", tabindex: 0 }, one.value.output || "It wrote nothing so far.") : null));
  });
  return el("div", { class: "queue processes", hidden: () => !processes.value.length },
    el("button", { class: "cap", "aria-expanded": () => String(!folded.value), onclick: () => (folded.value = !folded.peek()) },
      el("span", { class: () => `dot ${running.value ? "run" : "off"}` }),
      el("b", null, "In the background"),
      el("span", { class: "next" }, () => `${running.value} running`),
      icon("right")),
    rows);
}

/** @param {Process} one */
function describe(one) {
  if (one.running) return `started ${agoTime(one.startedAt)}`;
  if (one.exitCode === null) return "could not be started";
  return one.exitCode < 0 ? "stopped" : `exit code ${one.exitCode}`;
}
