/** The channels: the gateway's connections to suppliers, how each is, and one of them with its check. */

import { get } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { count } from "../core/counts.js";
import { link, navigate, query, setQuery } from "../core/router.js";
import { duration } from "../core/durations.js";
import { fullTime } from "../core/time.js";
import { emptyState } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { card } from "../settings/frame.js";
import { balanceCard, stateCard, stateColour, stateWords } from "./channel_state.js";
import { createChannel, editChannel } from "./channel_dialogs.js";
import { checkPanel } from "./check_panel.js";
import { requestChanges } from "./form.js";
import { following, forAdministrators, gatewayFrame, part, requestsLink, shown } from "./frame.js";
import { offeredCard } from "./offered.js";
import { resourceList, usualItems } from "./resource_list.js";

/**
 * @typedef {{ name: string, dialects: string[], url: string, key: string, keys: string[], enabled: boolean,
 *   autoDisabled: { at: string, reason: string } | null, local: boolean, transport: { kind: string, url: string, server: string },
 *   headers: Record<string, string>, parameters: import("./form.js").Parameters | null, onLeave: string, coolDown: number,
 *   timeout: number, balance: { source: string, low: number | null }, models: string[] }} Channel
 * @typedef {{ name: string, state: string, cooldownSeconds: number, error: string, secondsSinceFailure: number,
 *   succeeded: number, failed: number, modelCooldowns: Record<string, number> }} Health
 * @typedef {import("../api.d.ts").KeyStateView} KeyState
 * @typedef {import("../api.d.ts").ChannelStateView} State
 */

const AGAIN = 3000;
const WAYS = /** @type {Record<string, string>} */ ({ direct: "direct", http: "HTTP proxy", socks5: "SOCKS5", vpn: "VPN" });
const EVENTS = ["gatewayConfigUpdate", "modelsUpdate"];

/** How channels are that are not in order, by name. @param {AbortSignal} abort @returns {Promise<Record<string, Health>>} */
async function readHealth(abort) {
  const { channels } = await get("/api/agent/summary", {}, abort);
  return Object.fromEntries(channels.unhealthy.map((/** @type {Health} */ one) => [one.name, one]));
}

const listPage = forAdministrators("Channels", () => {
  /** @type {Record<string, Health>} */
  let health = {};
  const list = resourceList({
    resource: "channels", noun: "channels", every: AGAIN, events: EVENTS, row: channelRow, batch: {
      noun: "channel", id: (/** @type {any} */ one) => one.name, title: (/** @type {any} */ one) => one.name,
    },
    also: async (abort) => (health = await readHealth(abort)),
    empty: () => emptyState("plug", "No channels yet",
      "A channel is a connection to a supplier of models, with its key: " +
        "OpenAI, Anthropic, Google, or any compatible server.",
      el("span", null, el("button", { class: "btn main", changes: "administrator", onclick: create }, icon("plus"), "Add a channel"), " ",
        el("a", { class: "btn", href: link("/gateway/import") }, "Import from LiteLLM or new-api"))),
  });
  const go = (/** @type {string} */ name) => void navigate(`/gateway/channels/${encodeURIComponent(name)}?check=1`);
  function create() {
    void createChannel(go);
  }
  if (query.peek().get("new")) {
    setQuery({ new: null });
    queueMicrotask(create);
  }
  return {
    title: "Channels",
    body: gatewayFrame({ title: "Channels", narrow: true, actions: [
      el("button", { class: "btn main", changes: "administrator", onclick: create }, icon("plus"), "Add a channel"),
    ] },
      card({ title: "Channels",
        text: "Connections to suppliers. A channel that fails cools down while others answer. They are in channels.yml." }, list.node)),
  };

  /** @param {Channel} channel @returns {HTMLElement} */
  function channelRow(channel) {
    const at = `/gateway/channels/${encodeURIComponent(channel.name)}`;
    const ill = health[channel.name];
    return el("li", null,
      el("span", { class: "name" }, dot(kindOf(channel, ill)), el("a", { href: link(at) }, el("b", null, el("bdi", null, channel.name))),
        channel.enabled ? null : el("span", { class: "chip" }, "disabled")),
      el("small", null, [channel.dialects.join(", "), hostOf(channel.url), WAYS[channel.transport.kind],
        channel.models.length ? channel.models.join(", ") : "no model uses it"].filter(Boolean).join(" · ")),
      channel.autoDisabled ? el("small", { class: "bad" }, disabledWords(channel.autoDisabled)) : null,
      ill ? el("small", { class: ill.state === "cooldown" ? "need" : "bad" }, healthWords(ill)) : null,
      el("span", { class: "ends" }, menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${channel.name}` },
        [icon("more")], () => channelItems(channel, list.reload, list.reload))));
  }
});

const onePage = forAdministrators("Channel", (params) => {
  const name = params["name"] ?? "";
  const at = `/api/agent/channels/${encodeURIComponent(name)}`;
  const reading = following(async (abort) => {
    const [channel, state] = await Promise.all([get(at, {}, abort), get(`${at}/state`, {}, abort)]);
    return { channel: /** @type {Channel} */ (channel), state: /** @type {State} */ (state) };
  }, { every: AGAIN, events: EVENTS });
  const reload = () => void reading.reload();
  const atOnce = query.peek().get("check") === "1";
  if (atOnce) setQuery({ check: null });
  return {
    title: name,
    body: gatewayFrame({ title: name, back: "/gateway/channels", narrow: true }, shown(reading, (latest) => el("div", { class: "loaded" },
      part(() => latest.value, ({ channel, state }) => aboutCard(channel, state, reload)),
      part(() => latest.value.state, stateCard),
      balanceCard(at, () => latest.value.state.balance, reload),
      checkPanel({ path: `${at}/check`, channel: () => name, paid: true, atOnce, done: reload,
        text: "Step by step, as requests go. Only “with a paid request” costs something." }),
      offeredCard(name, reload)))),
  };
});

export const page = (/** @type {Record<string, string>} */ params) => (params["name"] ? onePage : listPage)(params);

/** @param {Channel} channel @param {Health | null | undefined} ill */
function kindOf(channel, ill) {
  return !channel.enabled ? "off" : !ill ? "good" : ill.state === "cooldown" ? "need" : ill.error ? "bad" : "need";
}

/** @param {string} url */
function hostOf(url) {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

/** @param {Health} ill */
function healthWords({ state, cooldownSeconds, error, modelCooldowns, failed, succeeded, secondsSinceFailure }) {
  const models = Object.entries(modelCooldowns).map(([model, seconds]) => `${model} is left out for ${duration(Number(seconds))}`);
  return [
    state === "cooldown"
      ? `Cooling down for ${duration(cooldownSeconds)}`
      : error ? `The last call failed ${duration(secondsSinceFailure)} ago` : "",
    error, ...models, `${count(failed)} of ${count(failed + succeeded)} calls failed since the start`,
  ].filter(Boolean).join(" · ");
}

/** @param {Channel} channel @param {() => void} reload @param {() => void} gone @returns {import("../parts/menu.js").Items} */
function channelItems(channel, reload, gone) {
  const at = (/** @type {string} */ name) => void navigate(`/gateway/channels/${encodeURIComponent(name)}`);
  return [
    { label: "Edit", icon: "pencil", changes: "administrator",
      onselect: () => void editChannel(channel.name, (name) => (name === channel.name ? reload() : at(name))) },
    { label: "Check", icon: "play", onselect: () => void navigate(`/gateway/channels/${encodeURIComponent(channel.name)}?check=1`) },
    { label: "Its requests", icon: "rows", onselect: () => void navigate(`/gateway/requests?channel=${encodeURIComponent(channel.name)}`) },
    null,
    ...usualItems({ path: `/api/agent/channels/${encodeURIComponent(channel.name)}`, name: channel.name, enabled: channel.enabled,
      reload, gone, copied: at, removeText: "It is refused while a model or a key names it. Changes can undo it." }),
  ];
}

/** Why agentd disabled a channel. @param {{ at: string, reason: string }} note */
function disabledWords({ at, reason }) {
  return `Disabled automatically ${fullTime(at)} · ${reason}`;
}

/** Each key of several, and how it is. @param {readonly KeyState[]} keys */
function keyList(keys) {
  return el("ul", null, keys.map((one) => {
    const out = [
      one.state === "cooldown" && one.cooldownUntil
        ? `cooling down until ${fullTime(one.cooldownUntil)} · ${one.cooldownReason}`
        : "",
      ...one.modelCooldowns.map((model) => `${model.supplierModel} is left out until ${fullTime(model.until)} · ${model.reason}`),
    ].filter(Boolean);
    return el("li", null, el("span", { class: "with-dot" }, dot(one.state === "cooldown" ? "need" : "good"), el("code", null, one.key)),
      out.length ? el("small", { class: "need" }, out.join(" · ")) : null);
  }));
}

/** How its balance is read, if that is set. @param {Channel} channel @returns {[string, string][]} */
function balanceFacts({ balance: { source, low } }) {
  const words = [
    source === "auto" ? "" : source === "off" ? "not read" : `as ${source} tells it`, low === null ? "" : `an alert below ${low}`,
  ].filter(Boolean);
  return words.length ? [["Balance", words.join(" · ")]] : [];
}

/** @param {Channel} channel @param {State} state @param {() => void} reload */
function aboutCard(channel, state, reload) {
  const { transport } = channel;
  const { keys } = state;
  /** @type {[string, import("../core/el.js").Single][]} */
  const facts = [
    ["State", el("span", { class: "with-dot" }, dot(stateColour(state)),
      channel.autoDisabled ? disabledWords(channel.autoDisabled) : stateWords(state))],
    ["Dialects", channel.dialects.join(", ")], ["Address", channel.url + (channel.local ? " (local)" : "")],
    keys.length
      ? ["Keys", keyList(keys)]
      : ["Key", channel.key || channel.keys[0] ? el("code", null, channel.key || channel.keys[0] || "") : "none"],
    ["Reached", [WAYS[transport.kind] ?? transport.kind, transport.url, transport.server].filter(Boolean).join(" · ")],
    ["Models", channel.models.length
      ? el("span", null, channel.models.map((model, index) =>
        [index ? ", " : "", el("a", { href: link(`/gateway/models/${encodeURIComponent(model)}`) }, model)]).flat())
      : "none"],
    ...requestChanges(channel),
    ["Timeout", `${channel.timeout} s until an answer begins`], ["Cooldown", `${channel.coolDown} s after its failures`],
    ...balanceFacts(channel),
    ["When a caller leaves", channel.onLeave === "cut" ? "the call is ended" : "the answer is heard out for its count"],
  ];
  const changed = (/** @type {string} */ name) =>
    (name === channel.name ? reload() : void navigate(`/gateway/channels/${encodeURIComponent(name)}`));
  return card({ title: "Channel", actions: [
    el("a", { class: "btn", href: requestsLink({ channel: channel.name }) }, icon("rows"), "Its requests"),
    el("button", { class: "btn", changes: "administrator", onclick: () => void editChannel(channel.name, changed) },
      icon("pencil"), "Edit"),
    menuButton({ class: "btn plain icon", "aria-label": `Actions for ${channel.name}` }, [icon("more")],
      () => channelItems(channel, reload, () => void navigate("/gateway/channels"))),
  ] }, el("div", { class: "inside" },
    el("dl", { class: "pair" }, facts.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]).flat())));
}
