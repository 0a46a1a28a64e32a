/** Auto-fix: failed builds are given to the agent, in a chat, a few times in a row. */

import { ApiError, get, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { link } from "../core/router.js";
import { computed, onEnd, signal } from "../core/signals.js";
import { unansweredChanges } from "../core/unanswered.js";
import { toast, toastError } from "../parts/toast.js";
import { chats } from "../agent/chats.js";

/** @typedef {{ build: string, on: boolean, chatId: number, tries: number, tried: number }} BuildFix */
/** @typedef {{ on: boolean, builds: BuildFix[] }} Status */
/**
 * @typedef {{ status: import("../core/signals.js").ReadonlySignal<Status | null>,
 *   change: (path: string, wanted: object, apply: (told: Status) => Status) => void }} Autofix
 */

const TRIES = 3;
const MOST_TRIES = 20;
/** Chats that are offered. */
const OFFERED = 100;

/**
 * The status of auto-fix, null until it is known, and what changes it.
 * @returns {Autofix}
 */
export function followAutofix() {
  const known = signal(/** @type {Status | null} */ (null));
  const take = (/** @type {Status} */ status) => (known.value = status);
  const events = live.follower();
  const reload = () => void events.read(() => get("/api/autofix/status"), take)
    .catch((error) => error instanceof ApiError || reportError(error));
  reload();
  const endings = [events.on("autofixUpdate", take), live.onInterruption(reload)];
  onEnd(() => endings.forEach((end) => end()));
  const unanswered = /** @type {typeof unansweredChanges<Status | null>} */ (unansweredChanges)("autofix");
  return {
    status: computed(() => unanswered.over(known.value)),
    change: (path, wanted, apply) =>
      void unanswered.send((status) => status && apply(status), () => post(path, wanted), take).catch(toastError),
  };
}

/**
 * The switch over all builds.
 * @param {Autofix} autofix
 */
export function autofixSwitch({ status, change }) {
  return el("label", { class: "switch-row", hidden: () => status.value === null },
    el("span", null, "Auto-fix"), toggle("Auto-fix over all builds", () => Boolean(status.value?.on),
      (on) => change("/api/autofix/toggle", { on }, (status) => ({ ...status, on }))));
}

/**
 * How one build is fixed.
 * @param {string} build
 * @param {Autofix} autofix
 */
export function autofixPanel(build, { status, change: send }) {
  const fix = computed(() =>
    status.value?.builds.find((one) => one.build === build) ?? { build, on: false, chatId: 0, tries: TRIES, tried: 0 });
  // Each by itself: what one types in a field outlives an event that does not change it.
  const isOn = computed(() => fix.value.on);
  const chatId = computed(() => fix.value.chatId);
  const tries = computed(() => fix.value.tries);
  /** @param {Partial<BuildFix>} changes */
  const change = (changes) => {
    if (!status.peek()) return;
    const next = { ...fix.peek(), ...changes };
    const wanted = { on: next.on, tries: next.tries, ...(next.chatId ? { chatId: next.chatId } : {}) };
    send(`/api/autofix/toggle/${encodeURIComponent(build)}`, wanted,
      (status) => ({ ...status, builds: [...status.builds.filter((one) => one.build !== build), next] }));
  };
  const switchOn = (/** @type {boolean} */ on) => {
    const chatId = fix.peek().chatId || newest();
    if (on && !chatId) return void toast("Auto-fix needs a chat", { details: "Begin a chat first: the agent fixes the build there." });
    change({ on, chatId });
    return undefined;
  };
  return el("section", { class: "box autofix", "aria-label": "Auto-fix of this build", hidden: () => status.value === null },
    el("label", { class: "switch-row" }, el("span", null, el("b", null, "Auto-fix"),
      el("small", null, () => describe(fix.value, Boolean(status.value?.on)))),
    toggle(`Auto-fix of ${build}`, () => fix.value.on, switchOn)),
    () => (isOn.value
      ? el("div", { class: "autofix-options" }, () => chatChoice(chatId.value, change), () => triesChoice(tries.value, change),
        el("a", { class: "btn plain small", href: () => link(`/${chatId.value}`) }, "Open the chat"))
      : null));
}

/**
 * @param {BuildFix} fix
 * @param {boolean} overAll
 */
function describe({ on, tried, tries }, overAll) {
  if (!on) return "The agent is not asked when this build fails";
  if (!overAll) return "Off for all builds: turn it on above";
  if (tried >= tries) return `Gave up after ${tried} ${tried === 1 ? "try" : "tries"}; a successful build resets this`;
  return tried ? `Tried ${tried} of ${tries} times` : `The agent is asked when it fails, up to ${tries} times in a row`;
}

/**
 * @param {number} chatId
 * @param {(changes: Partial<BuildFix>) => void} change
 */
function chatChoice(chatId, change) {
  const offered = [...chats.peek().values()].sort((one, other) => other.updatedAt.localeCompare(one.updatedAt)).slice(0, OFFERED);
  const rows = offered.some((chat) => chat.chatId === chatId)
    ? offered
    : [...offered, { chatId, title: chats.peek().get(chatId)?.title ?? `Chat ${chatId}` }];
  return el("label", { class: "labelled" }, el("span", null, "In the chat"),
    el("span", { class: "picker" }, el("select", { class: "input", changes: "manager",
      onchange: (/** @type {Event} */ event) => change({ chatId: Number(/** @type {HTMLSelectElement} */ (event.target).value) }) },
      rows.map((chat) => el("option", { value: String(chat.chatId), selected: chat.chatId === chatId },
        chat.title || `Chat ${chat.chatId}`))), icon("down")));
}

/**
 * @param {number} tries
 * @param {(changes: Partial<BuildFix>) => void} change
 */
function triesChoice(tries, change) {
  return el("label", { class: "labelled tries" }, el("span", null, "Tries in a row"),
    el("input", { class: "input", type: "number", min: 1, max: MOST_TRIES, value: String(tries), changes: "manager",
      onchange: (/** @type {Event} */ event) => {
        const input = /** @type {HTMLInputElement} */ (event.target);
        if (input.checkValidity() && input.value) change({ tries: input.valueAsNumber });
        else input.reportValidity();
      } }));
}

/** The chat that was used last. */
function newest() {
  return [...chats.peek().values()].sort((one, other) => other.updatedAt.localeCompare(one.updatedAt))[0]?.chatId ?? 0;
}

/**
 * @param {string} label
 * @param {() => boolean} isOn
 * @param {(on: boolean) => void} change
 */
function toggle(label, isOn, change) {
  return el("input", {
    type: "checkbox", role: "switch", class: "switch", "aria-label": label, checked: isOn,
    changes: "manager",
    onchange: (/** @type {Event} */ event) => {
      const input = /** @type {HTMLInputElement} */ (event.target);
      const wanted = input.checked;
      input.checked = isOn();
      change(wanted);
    },
  });
}
