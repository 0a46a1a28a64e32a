/** A connection check, step by step as it goes; the step that costs something only on demand. */

import { post } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { usd } from "../core/money.js";
import { onEnd, signal } from "../core/signals.js";
import { shortSeconds } from "../parts/figures.js";
import { card, failureLine } from "../settings/frame.js";

/** @typedef {{ name: string, state: "passed" | "failed" | "skipped", ms: number, detail: string }} Step */

const STEPS = /** @type {Record<string, string>} */ ({
  secret: "Read its secret", name: "Resolve the name", connect: "Connect", tls: "Negotiate TLS",
  models: "Sign in and list models", request: "Send a small request, which is billed",
  settings: "Read the settings", reach: "Reach the database", sign_in: "Sign in", table: "Find the table",
});

/**
 * @param {{ path: string, channel: () => string, paid: boolean, text: string, atOnce?: boolean, done?: () => void }} options
 *   `channel`: whose steps the events of this check are
 */
export function checkPanel({ path, channel, paid, text, atOnce = false, done }) {
  const steps = signal(/** @type {Step[]} */ ([]));
  const running = signal("");
  const failed = signal(/** @type {unknown} */ (null));
  const cost = signal(/** @type {number | null} */ (0));
  const expected = () => ["secret", "name", "connect", "tls", "models", ...(running.value === "paid" ? ["request"] : [])];
  onEnd(live.on("checkStep", (ended) => {
    const isShown = steps.peek().some((step) => step.name === ended.step.name);
    if (running.peek() && ended.channel === channel() && !isShown) steps.value = [...steps.peek(), ended.step];
  }));
  const check = async (/** @type {boolean} */ isPaid) => {
    if (running.peek()) return;
    steps.value = [];
    failed.value = null;
    running.value = isPaid ? "paid" : "free";
    try {
      const found = await post(isPaid ? `${path}?paid=true` : path);
      steps.value = found.steps;
      cost.value = found.cost;
      done?.();
    } catch (error) {
      failed.value = error;
    }
    running.value = "";
  };
  if (atOnce) queueMicrotask(() => void check(false));
  const wait = () => expected().filter((name) => !steps.value.some((step) => step.name === name));
  return card({ title: "Check", text, actions: [
    el("button", { class: "btn", changes: "administrator", disabled: () => Boolean(running.value), onclick: () => void check(false) },
      icon("play"), "Check"),
    paid
      ? el("button", { class: "btn", changes: "administrator", disabled: () => Boolean(running.value),
        title: "Ends with a small model request, which is billed", onclick: () => void check(true) }, "With a paid request")
      : null,
  ] },
  el("div", { role: "status", class: "loaded" },
    () => (failed.value ? el("div", { class: "inside" }, failureLine(failed.value)) : null),
    () => (steps.value.length || running.value ? el("ul", { class: "rows steps" },
      steps.value.map(stepRow),
      running.value
        ? wait().map((name, index) => el("li", { class: "waits" },
          el("span", { class: "name" }, dot(index ? "off" : "run beat"), el("b", null, STEPS[name] ?? name))))
        : null) : null),
    () => (!running.value && steps.value.some((step) => step.name === "request" && step.state === "passed")
      ? el("p", { class: "none" },
        cost.value === null ? "The request's price is not known." : `The request cost ${usd(cost.value)}.`)
      : null)));
}

/** @param {Step} step */
export function stepRow(step) {
  const kind = { passed: "good", failed: "bad", skipped: "off" }[step.state];
  return el("li", null,
    el("span", { class: "name" }, dot(kind), el("b", null, STEPS[step.name] ?? step.name), el("span", { class: "hidden" }, step.state)),
    step.detail ? el("small", { class: step.state === "failed" ? "bad" : "" }, step.detail) : null,
    el("span", { class: "ends num" }, step.state === "skipped" ? "skipped" : step.ms === undefined ? "" : shortSeconds(step.ms / 1000)));
}
