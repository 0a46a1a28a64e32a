/** How much of the usage limits of a coding agent's sign-in is used, told before they are reached. */

import { dot, el } from "../core/el.js";
import { computed } from "../core/signals.js";
import { comingTime, now, ticking } from "../core/time.js";

/** @typedef {import("../api.d.ts").UsageWindow} UsageWindow */

/** From so many percent on a person should know. */
const TIGHT = 75;

/**
 * The windows that are nearly used up, and do not begin anew by now.
 * @param {readonly UsageWindow[]} windows
 * @param {number} [time]
 */
export function tightWindows(windows, time = now()) {
  return windows.filter((one) => one.usedPercent >= TIGHT && !(Date.parse(one.resetsAt ?? "") <= time));
}

/** @param {readonly UsageWindow[]} windows */
export function windowsText(windows) {
  return windows
    .map(({ name, usedPercent, resetsAt }) => `${name}: ${usedPercent} % used${resetsAt ? `, resets ${comingTime(resetsAt)}` : ""}`)
    .join(" · ");
}

/**
 * What is nearly used up; hidden while nothing is.
 * @param {() => readonly UsageWindow[]} windows
 */
export function limitState(windows) {
  const tick = ticking();
  const text = computed(() => windowsText(tightWindows(windows(), tick.value)));
  return el("span", { class: "state need limits", role: "status", title: () => text.value, hidden: () => !text.value },
    dot("need"), el("span", { class: "clip" }, () => text.value));
}
