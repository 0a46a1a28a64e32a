/** The alerts: what is wrong with the gateway now, who is notified, and the recent alerts. */

import { get, post } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { signal } from "../core/signals.js";
import { agoTime, fullTime } from "../core/time.js";
import { emptyState } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { toastError } from "../parts/toast.js";
import { card } from "../settings/frame.js";
import { createDialog, editDialog } from "./form.js";
import { ALERT_TITLES, following, forAdministrators, gatewayFrame, part, shown } from "./frame.js";
import { resourceList, usualItems } from "./resource_list.js";

/**
 * @typedef {import("../api.d.ts").AlertTargetView} Target
 * @typedef {import("../api.d.ts").AlertView} Alert
 * @typedef {import("../api.d.ts").AlertDeliveryView} Delivery
 * @typedef {import("../api.d.ts").FiringAlertView} Firing
 * @typedef {import("./form.js").Field} Field
 */

const AT_ONCE = 50;
const EVENTS = ["gatewayAlertUpdate", "gatewayConfigUpdate"];
const KINDS = /** @type {Record<string, string>} */ ({
  webhook: "webhook", slack: "Slack", discord: "Discord", text: "plain text", telegram: "Telegram",
});
const COLOURS = /** @type {Record<string, string>} */ ({ pending: "need", delivered: "good", failed: "bad", skipped: "off" });

const isTelegram = (/** @type {(name: string) => string} */ value) => value("kind") === "telegram";
const hasSecret = (/** @type {(name: string) => string} */ value) => ["webhook", "text"].includes(value("kind"));

/** @type {readonly Field[]} */
const FIELDS = [
  { name: "kind", label: "Format", kind: "choice", initial: "webhook", options: [
    ["webhook", "signed JSON (Standard Webhooks)"], ["slack", "Slack, Mattermost"], ["discord", "Discord"],
    ["text", "plain text, such as ntfy"], ["telegram", "Telegram, by a bot of this daemon"],
  ] },
  { name: "url", label: "Address", required: true, wide: true, when: (value) => !isTelegram(value),
    placeholder: "https://example.org/alerts", hint: "Its path is never shown again. With another address, enter the secret again." },
  { name: "secret", label: "Secret", wide: true, when: hasSecret,
    hint: "A webhook is signed with it (whsec_…): give it to the receiver, it is never shown again. " +
      "Plain text sends it as a bearer token." },
  { name: "bot", label: "Bot", required: true, when: isTelegram, hint: "The id of a bot of Settings, Bots." },
  { name: "chat", label: "Conversation", kind: "number", required: true, when: isTelegram,
    hint: "Your user id at Telegram, or the negative id of a group. Write to the bot first." },
  { name: "alerts", label: "Alerts", kind: "lines", wide: true,
    hint: `One per line, empty for all: ${Object.keys(ALERT_TITLES).join(", ")}.` },
  { name: "minInterval", label: "Least pause", kind: "number", initial: "60", hint: "Seconds between two messages about the same thing." },
  { name: "resolved", label: "Also notify when it is over", kind: "check" },
  { name: "local", label: "The address is of this machine or its network", kind: "check", when: (value) => !isTelegram(value) },
];

export const page = forAdministrators("Alerts", () => {
  const list = resourceList({
    resource: "alert-targets", noun: "targets", events: EVENTS, row: targetRow,
    empty: () => emptyState("warning", "No alert targets",
      "A target is notified when a channel fails, a limit is reached or a secret is found. Until there is one, nothing is watched.",
      el("button", { class: "btn main", changes: "administrator", onclick: () => void create() }, icon("plus"), "Add a target")),
  });
  const tests = signal(/** @type {Record<string, import("../api.d.ts").AlertTestView>} */ ({}));
  const most = signal(AT_ONCE);
  const reading = following(async (abort) => {
    /** @type {Alert[]} */
    const items = [];
    let page = await get("/api/agent/alerts", { limit: AT_ONCE }, abort);
    const firing = /** @type {Firing[]} */ (page.firing);
    items.push(...page.items);
    while (page.next && items.length < most.peek()) {
      page = await get("/api/agent/alerts", { limit: AT_ONCE, cursor: page.next }, abort);
      items.push(...page.items);
    }
    return { items, next: page.next, firing };
  }, { every: 10_000, events: EVENTS });
  return {
    title: "Alerts",
    body: gatewayFrame({ title: "Alerts", narrow: true, actions: [
      el("button", { class: "btn main", changes: "administrator", onclick: () => void create() }, icon("plus"), "Add a target"),
    ] },
      shown(reading, (latest) => el("div", { class: "loaded" },
        part(() => latest.value.firing, (firing) =>
          firing.length ? card({ title: "Now" }, el("ul", { class: "rows" }, firing.map(firingRow))) : null))),
      card({
        title: "Targets",
        text: "Who is notified. Each alert is sent until the target accepts it. They are in alerts.yml; " +
          "from when on there is an alert is in Settings.",
      }, list.node),
      card({ title: "Recent alerts", text: "What began and what ended, and who was notified." },
        shown(reading, (latest) => el("div", { class: "loaded" }, part(() => latest.value, ({ items, next }) => [
          items.length ? el("ul", { class: "rows" }, items.map(alertRow)) : el("p", { class: "none" }, "No alert yet."),
          next ? el("button", { class: "btn more-rows", onclick: () => {
            most.value += AT_ONCE;
            void reading.reload();
          } }, `Show ${AT_ONCE} more`) : null,
        ]))))),
  };

  function create() {
    return createDialog({
      title: "Add a target", path: "/api/agent/alert-targets", action: "Add", initial: { resolved: true, secret: makeSecret() },
      fields: [{ name: "name", label: "Name", required: true, hint: "Letters, digits, dots, dashes." }, ...FIELDS],
      finish: (target) => {
        const { secret, ...others } = { ...target, resolved: target.resolved ?? false };
        return target.kind === "text" && secret?.startsWith("whsec_") ? others : { ...others, secret };
      },
      done: (made) => {
        list.reload();
        void test(made.name);
      },
    });
  }

  /** @param {Target} target @returns {HTMLElement} */
  function targetRow(target) {
    const path = `/api/agent/alert-targets/${encodeURIComponent(target.name)}`;
    const wanted = target.alerts.length ? target.alerts.map((kind) => ALERT_TITLES[kind] ?? kind).join(", ") : "all alerts";
    return el("li", null,
      el("span", { class: "name" }, dot(target.enabled ? "good" : "off"), el("b", null, target.name),
        el("span", { class: "chip" }, KINDS[target.kind] ?? target.kind),
        target.enabled ? null : el("span", { class: "chip" }, "disabled")),
      el("small", null, [target.kind === "telegram" ? `${target.bot} to ${target.chat}` : target.url, wanted,
        target.resolved ? "" : "not when it is over"].filter(Boolean).join(" · ")),
      () => testLine(tests.value[target.name]),
      el("span", { class: "ends" },
        el("button", { class: "btn small", changes: "administrator", "aria-label": `Test ${target.name}`,
          onclick: () => void test(target.name) }, "Test"),
        menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${target.name}` }, [icon("more")], () => [
          { label: "Edit", icon: "pencil", changes: "administrator",
            onselect: () => void editDialog({ title: `Edit ${target.name}`, path, fields: FIELDS, done: list.reload }) },
          null,
          ...usualItems({ path, name: target.name, enabled: target.enabled, reload: list.reload, copies: false,
            removeText: "Alerts that it has not received yet are skipped. Changes can undo it." }),
        ])));
  }

  /** Send a test message, and show what the target answered. @param {string} name */
  async function test(name) {
    try {
      const answer = await post(`/api/agent/alert-targets/${encodeURIComponent(name)}/test`);
      tests.value = { ...tests.value, [name]: answer };
    } catch (error) {
      toastError(error);
    }
  }
});

/** What a target answered to a test. @param {import("../api.d.ts").AlertTestView | undefined} result */
function testLine(result) {
  return result
    ? el("small", { role: "status", class: result.ok ? "" : "bad" },
      `${result.ok ? "The test was accepted" : "The test was not accepted"}: ${result.answer}`)
    : null;
}

/** A secret as Standard Webhooks wants it. */
function makeSecret() {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24))))}`;
}

/** @param {Firing} one @returns {HTMLElement} */
function firingRow({ kind, text, since }) {
  return el("li", null, el("span", { class: "name" }, dot("bad"), el("b", null, ALERT_TITLES[kind] ?? kind)), el("small", null, text),
    el("small", { title: fullTime(since) }, `since ${agoTime(since)}`));
}

/** @param {Alert} alert @returns {HTMLElement} */
function alertRow({ kind, state, text, at, deliveries }) {
  return el("li", null,
    el("span", { class: "name" }, dot(state === "resolved" ? "good" : "bad"), el("b", null, ALERT_TITLES[kind] ?? kind),
      state === "resolved" ? el("span", { class: "chip" }, "resolved") : null),
    el("small", null, text),
    el("small", { title: fullTime(at) }, agoTime(at)),
    deliveries.map(deliveryLine));
}

/** @param {Delivery} delivery */
function deliveryLine({ target, state, attempts, nextAttemptAt, answer }) {
  const next = state === "pending" && nextAttemptAt ? `next try ${fullTime(nextAttemptAt)}` : "";
  return el("small", { class: "with-dot" }, dot(COLOURS[state] ?? "off"),
    [`${target}: ${state}`, attempts > 1 ? `${attempts} attempts` : "", next, answer].filter(Boolean).join(" · "));
}
