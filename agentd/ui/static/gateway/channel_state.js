/** How one channel is: its cooldowns, its last failure, its last calls, and the balance of its account. */

import { post } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { count, counted } from "../core/counts.js";
import { inCurrency } from "../core/money.js";
import { signal } from "../core/signals.js";
import { agoTime, fullTime } from "../core/time.js";
import { shortSeconds } from "../parts/figures.js";
import { toastError } from "../parts/toast.js";
import { card } from "../settings/frame.js";
import { part } from "./frame.js";

/**
 * @typedef {import("../api.d.ts").ChannelStateView} State
 * @typedef {import("../api.d.ts").ChannelBalanceView} Balance
 * @typedef {import("../api.d.ts").KeyBalanceView} KeyBalance
 * @typedef {import("../core/el.js").Single} Single
 */

/** The colour of a channel's state. @param {State} state */
export function stateColour({ state, lastFailure, modelCooldowns, recent }) {
  if (state !== "ok") return state === "cooldown" ? "need" : "off";
  return modelCooldowns.length ? "need" : lastFailure && recent.successRate === 0 ? "bad" : "good";
}

/** A channel's state in a few words. @param {State} state */
export function stateWords({ state, cooldownUntil, cooldownReason, modelCooldowns, recent }) {
  if (state === "disabled") return "disabled";
  if (state === "cooldown" && cooldownUntil) return `cooling down until ${fullTime(cooldownUntil)} · ${cooldownReason}`;
  if (modelCooldowns.length) return "in order, but not for every model";
  return recent.successRate === 0 ? "its last calls failed" : "in order";
}

/** @param {State} state */
export function stateCard(state) {
  const { modelCooldowns, lastFailure: failure, succeeded, failed, recent } = state;
  /** @type {[string, Single][]} */
  const facts = [
    ["Left out", modelCooldowns.length
      ? el("ul", null, modelCooldowns.map((one) => el("li", null, el("bdi", null, one.supplierModel),
        el("small", { class: "need" }, ` until ${fullTime(one.until)} · ${one.reason}`))))
      : null],
    ["Last failure", failure
      ? el("span", null, [fullTime(failure.at), failure.error].join(" · "),
        failure.detail ? el("small", { class: "bad" }, el("bdi", null, ` ${failure.detail}`)) : null)
      : "none"],
    ["Last calls", recent.successRate === null ? "none" : `${percent(recent.successRate)} of ${count(recent.calls)} succeeded`],
    ["Until an answer begins", times(recent.headMsP50, recent.headMsP95)],
    ["Until the first token", times(recent.firstTokenMsP50, recent.firstTokenMsP95)],
    ["Since the start", `${counted(succeeded, "call")} succeeded, ${count(failed)} failed`],
  ];
  return card({ title: "State", text: "Known since the daemon started; times are of the last calls that succeeded." },
    el("div", { class: "inside" }, pairs(facts.filter(([, value]) => value))));
}

/**
 * The balance, where the supplier tells it. Called once, so that a reading under way is kept.
 * @param {string} path of the channel
 * @param {() => Balance | null} read
 * @param {() => void} done
 */
export function balanceCard(path, read, done) {
  const busy = signal(false);
  const readNow = async () => {
    busy.value = true;
    try {
      await post(`${path}/balance`);
      done();
    } catch (error) {
      toastError(error);
    }
    busy.value = false;
  };
  return part(read, (balance) => {
    if (!balance) return null;
    const alert = balance.low === null ? "There is no alert when it is low." : `Less than ${balance.low} is an alert.`;
    return card({ title: "Balance", text: `What is left of the account, as its supplier says. ${alert}`, actions: [
      el("button", { class: "btn", changes: "administrator", disabled: () => busy.value, onclick: () => void readNow() },
        icon("reload"), () => (busy.value ? "Reading…" : "Read now")),
    ] }, el("ul", { class: "rows" }, balance.keys.map((one) => balanceRow(one, balance.keys.length > 1))));
  });
}

/** @param {KeyBalance} one @param {boolean} several */
function balanceRow({ key, amount, currency, readAt, error, low }, several) {
  return el("li", null,
    el("span", { class: "name" }, dot(error ? "bad" : low ? "need" : amount === null ? "off" : "good"),
      el("b", null, amount === null ? "not read yet" : inCurrency(amount, currency)),
      several ? el("code", null, key) : null, low ? el("span", { class: "chip" }, "low") : null),
    readAt ? el("small", { title: fullTime(readAt) }, `read ${agoTime(readAt)}`) : null,
    error ? el("small", { class: "bad" }, `It could not be read: ${error}`) : null);
}

/** @param {number} share */
function percent(share) {
  return `${+(share * 100).toFixed(1)} %`;
}

/** @param {number | null} median @param {number | null} most */
function times(median, most) {
  if (median === null) return "";
  return `${shortSeconds(median / 1000)}${most === null ? "" : `, ${shortSeconds(most / 1000)} at the 95th percentile`}`;
}

/** @param {readonly [string, Single][]} facts */
function pairs(facts) {
  return el("dl", { class: "pair" }, facts.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]).flat());
}
