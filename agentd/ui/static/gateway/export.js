/** The export of the ledger to an analytics database: its state, a calendar of days, a check, and a backfill that is planned first. */

import { get, post } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { count, counted, size } from "../core/counts.js";
import { link } from "../core/router.js";
import { signal } from "../core/signals.js";
import { duration } from "../core/durations.js";
import { agoTime, fullTime } from "../core/time.js";
import { openDialog } from "../parts/dialog.js";
import { emptyState } from "../parts/frame.js";
import { toast } from "../parts/toast.js";
import { card, failureLine, labelled, sendForm } from "../settings/frame.js";
import { stepRow } from "./check_panel.js";
import { addDays, following, forAdministrators, gatewayFrame, part, shown } from "./frame.js";

/**
 * @typedef {{ day: string, state: "pending" | "partial" | "done" | "changed", rows: number, requested: boolean,
 *   doneAt: string | null, error: string }} Day
 * @typedef {{ phase: string, url: string | null, database: string, table: string, lagDays: number, lagSince: string | null,
 *   checkedAt: string | null, lastSentAt: string | null, lastError: string, failedAt: string | null, retrySeconds: number,
 *   items: Day[], next: string }} State
 * @typedef {{ days: { day: string, state: string, rows: number, bytes: number, exact: boolean }[], rows: number, bytes: number,
 *   started: boolean }} Plan
 */

const DAYS = 200;
const STATES = /** @type {Record<string, string>} */ ({
  pending: "nothing was sent", partial: "a part was sent", done: "all was sent", changed: "changed since, and sent again",
});
const month = new Intl.DateTimeFormat(undefined, { month: "long", year: "numeric", timeZone: "UTC" });

export const page = forAdministrators("Export", () => {
  const reading = following((abort) => get("/api/agent/export", { limit: DAYS }, abort), { every: 3000, events: ["gatewayConfigUpdate"] });
  const reload = () => void reading.reload();
  return {
    title: "Export",
    body: gatewayFrame({ title: "Export", narrow: true }, shown(reading, (latest) => el("div", { class: "loaded" },
      part(() => /** @type {State} */ (latest.value), (state) => stateCard(state, reload)),
      part(() => /** @type {State} */ (latest.value).items, (days) => calendar(days)),
      () => (/** @type {State} */ (latest.value).url ? checkCard() : null)))),
  };
});

/** @param {State} state @param {() => void} reload */
function stateCard(state, reload) {
  if (!state.url) {
    return card({ title: "Export" }, emptyState("export", "The ledger is not exported",
      "With the address of a ClickHouse, each day of the ledger is sent to its table once it is over.",
      el("a", { class: "btn main", href: link("/gateway/settings#export") }, "Set it up")));
  }
  const kind = state.lastError ? "bad" : state.phase === "sending" ? "run" : state.phase === "off" ? "off" : "good";
  const words = /** @type {Record<string, string>} */ ({
    off: "off", idle: "idle", sending: "sending", waiting: `waiting: tries again in ${duration(state.retrySeconds)}`,
  })[state.phase] ?? state.phase;
  /** @type {[string, import("../core/el.js").Single][]} */
  const facts = [
    ["State", el("span", { class: "with-dot" }, dot(kind), words)], ["Database", `${state.url} · ${state.database}.${state.table}`],
    ["Behind", state.lagDays ? `${counted(state.lagDays, "day")}, since ${state.lagSince}` : "nothing to send"],
    ["Last sent", state.lastSentAt ? agoTime(state.lastSentAt) : "never"],
    ["Last compared", state.checkedAt ? agoTime(state.checkedAt) : "never"],
  ];
  return card({ title: "Export", actions: [
    el("a", { class: "btn", href: link("/gateway/settings#export") }, icon("settings"), "Settings"),
    el("button", { class: "btn", changes: "administrator", onclick: () => void backfill(state.items, reload) },
      icon("up"), "Send missed days"),
  ] }, el("div", { class: "inside" }, state.lastError ? failureLine(new Error(state.lastError)) : null,
    el("dl", { class: "pair" }, facts.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]).flat())));
}

/** @param {readonly Day[]} days */
function calendar(days) {
  if (!days.length) return card({ title: "Days" }, el("p", { class: "none" }, "The ledger has no days yet."));
  const known = new Map(days.map((day) => [day.day, day]));
  const months = [...new Set(days.map((day) => day.day.slice(0, 7)))];
  const legend = el("span", { class: "calendar-legend" }, Object.entries(STATES).map(([state, words]) =>
    el("span", null, el("i", { class: `day ${state}`, "aria-hidden": "true" }), `${state}: ${words}`)));
  return card({ title: "Days", text: legend },
    el("div", { class: "inside months" },
      months.map((name) => el("section", { class: "month", "aria-label": month.format(Date.parse(`${name}-01`)) },
        el("h3", null, month.format(Date.parse(`${name}-01`))),
        el("ol", { class: "calendar" },
          Array.from({ length: (new Date(`${name}-01`).getUTCDay() + 6) % 7 }, () => el("li", { "aria-hidden": "true" })),
          daysOf(name).map((day) => cell(day, known.get(day))))))));
}

/** @param {string} name such as `2026-01` */
function daysOf(name) {
  const days = [];
  for (let day = `${name}-01`; day.startsWith(name); day = addDays(day, 1)) days.push(day);
  return days;
}

/** @param {string} day @param {Day | undefined} found */
function cell(day, found) {
  if (!found) return el("li", null, el("span", { class: "day" }, Number(day.slice(8))));
  const words = [
    `${day}: ${found.state}, ${counted(found.rows, "row")} in the database`, found.doneAt ? `, done ${fullTime(found.doneAt)}` : "",
    found.requested ? ", asked for" : "", found.error ? `. ${found.error}` : "",
  ].join("");
  return el("li", null, el("span", { class: `day ${found.state}`, title: words, role: "img", "aria-label": words }, Number(day.slice(8))));
}

function checkCard() {
  const steps = signal(/** @type {any[]} */ ([]));
  const failed = signal(/** @type {unknown} */ (null));
  const busy = signal(false);
  const check = async () => {
    busy.value = true;
    failed.value = null;
    try {
      steps.value = (await post("/api/agent/export/check")).steps
        .map((/** @type {any} */ step) => ({ ...step, state: step.passed ? "passed" : "failed" }));
    } catch (error) {
      failed.value = error;
    }
    busy.value = false;
  };
  return card({ title: "Check", text: "Checks that the database answers, accepts the sign-in and has the table.", actions: [
    el("button", { class: "btn", changes: "administrator", disabled: () => busy.value, onclick: () => void check() },
      icon("play"), "Check"),
  ] }, el("div", { role: "status", class: "loaded" },
    () => (failed.value ? el("div", { class: "inside" }, failureLine(failed.value)) : null),
    () => (steps.value.length ? el("ul", { class: "rows steps" }, steps.value.map(stepRow)) : null)));
}

/**
 * Days are chosen, what would be sent is shown, and sent on a second click.
 * @param {readonly Day[]} days
 * @param {() => void} done
 */
function backfill(days, done) {
  const missed = days.filter((day) => day.state !== "done").map((day) => day.day).sort();
  return openDialog("Send missed days", (close) => {
    const plan = signal(/** @type {Plan | null} */ (null));
    const input = (/** @type {string | undefined} */ value) =>
      el("input", { class: "input", type: "date", required: true, value: value ?? "", onchange: () => (plan.value = null) });
    const from = input(missed[0] ?? days.at(-1)?.day);
    const to = input(missed.at(-1) ?? days[0]?.day);
    const span = () => ({ from: from.value, to: to.value });
    const look = async () => {
      plan.value = await post("/api/agent/export/backfill?dry_run=true", span());
    };
    const send = async () => {
      const sent = await post("/api/agent/export/backfill", span());
      close();
      toast(sent.started
        ? `${counted(sent.days.length, "day")} with ${counted(sent.rows, "row")} are being sent`
        : "There was nothing to send");
      done();
    };
    return [el("div", { class: "loaded" }, sendForm({
      action: () => (plan.value?.days.length ? `Send ${counted(plan.value.days.length, "day")}` : "Plan"),
      oncancel: () => close(), send: () => (plan.peek()?.days.length ? send() : look()),
    }, el("div", { class: "form-grid" }, labelled("First day (UTC)", from), labelled("Last day, included", to)),
    () => (plan.value ? planned(plan.value) : el("p", { class: "quiet" }, "This shows what would be sent, and sends nothing."))))];
  });
}

/** @param {Plan} plan */
function planned({ days, rows, bytes }) {
  if (!days.length) return el("p", { role: "status" }, "All of these days were sent already.");
  const isExact = days.every((day) => day.exact);
  return el("div", { role: "status", class: "plan" },
    el("p", null, el("b", null, `${counted(days.length, "day")} · ${isExact ? "" : "about "}${counted(rows, "row")} · ${size(bytes)}`)),
    el("ul", null, days.slice(0, 40).map((day) => el("li", null, el("span", { class: "num" }, day.day),
      el("small", null, day.state), el("span", { class: "num" }, `${day.exact ? "" : "about "}${count(day.rows)}`))),
      days.length > 40 ? el("li", null, `and ${count(days.length - 40)} more`) : null));
}
