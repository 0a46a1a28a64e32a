/** The models that callers can name: their routes, prices and check. */

import { get } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { count } from "../core/counts.js";
import { price } from "../core/money.js";
import { link, navigate, query, setQuery } from "../core/router.js";
import { signal } from "../core/signals.js";
import { emptyState } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { card } from "../settings/frame.js";
import { checkPanel } from "./check_panel.js";
import { createDialog, editDialog, requestChanges } from "./form.js";
import { following, forAdministrators, gatewayFrame, part, readAll, requestsLink, shown } from "./frame.js";
import { PRICE_FIELDS } from "./price_fields.js";
import { cataloguePricesCard, catalogueTaker, differenceLine, readComparisons, readModelPrices } from "./prices.js";
import { resourceList, usualItems } from "./resource_list.js";
import { routesCard } from "./route_list.js";

/**
 * @typedef {{ input: number, output: number, cacheRead: number | null, cacheWrite: number | null, cacheWrite1H: number | null,
 *   reasoning: number | null, above: any[], services: any[] }} Prices
 * @typedef {{ name: string, enabled: boolean, routes: import("./route_list.js").Route[], prices: Prices | null,
 *   maxOutput: number | null, context: number | null, fallbacks: string[], contextFallbacks: string[], contentFallbacks: string[],
 *   headers: Record<string, string>, parameters: import("./form.js").Parameters | null }} Model
 */

/** @type {readonly import("./form.js").Field[]} */
const FIELDS = [
  { name: "name", label: "Name", required: true, hint: "The name that callers send." },
  { name: "context", label: "Context", kind: "number", hint: "The maximum number of input tokens." },
  { name: "maxOutput", label: "Longest reply", kind: "number",
    hint: "The maximum number of tokens; reserved for requests without a limit." },
  ...PRICE_FIELDS,
  { name: "fallbacks", label: "Fallbacks", kind: "lines", hint: "Models to try when all routes have failed, one per line." },
  { name: "contextFallbacks", label: "Fallbacks for long requests", kind: "lines",
    hint: "When a supplier refuses because the request is too long." },
  { name: "contentFallbacks", label: "Fallbacks for refused content", kind: "lines", hint: "When a supplier’s content filter refuses." },
  { name: "headers", label: "Headers", kind: "pairs", wide: true, placeholder: "Name: value",
    hint: "Sent with its requests, one per line, in place of the channel’s. No credentials." },
  { name: "parameters", label: "Parameters", kind: "json", wide: true,
    placeholder: '{"set": {"temperature": 0.2}, "default": {"top_p": 0.9}, "remove": ["user"]}',
    hint: "Set, default or remove parameters of requests, named as in the supplier’s format. They come after the channel’s." },
];

const FALLBACKS = /** @type {const} */ ([
  ["fallbacks", "When all routes failed"], ["contextFallbacks", "When it is too long"],
  ["contentFallbacks", "When the content is refused"],
]);

const RATES = /** @type {const} */ ([
  ["input", "In"], ["output", "Out"], ["cacheRead", "In, from cache"], ["cacheWrite", "In, to cache"],
  ["cacheWrite1H", "In, to cache for 1 h"], ["reasoning", "Reasoning"],
]);

const EVENTS = ["modelsUpdate", "gatewayConfigUpdate"];

const listPage = forAdministrators("Models", () => {
  /** @type {Record<string, import("./prices.js").Comparison>} */
  let compared = {};
  const list = resourceList({
    resource: "models", noun: "models", events: EVENTS, row: modelRow, batch: {
      noun: "model", id: (/** @type {any} */ one) => one.name, title: (/** @type {any} */ one) => one.name,
    },
    also: async (abort) => (compared = await readComparisons(abort)),
    empty: () => emptyState("cube", "No models yet", "A model is a name that callers use, with the channels that serve it.", addButton()),
  });
  const go = (/** @type {string} */ name) => void navigate(`/gateway/models/${encodeURIComponent(name)}`);
  async function create() {
    const channels = (await readAll("channels").catch(() => [])).map((one) => one.name);
    await createDialog({
      title: "Add a model", path: "/api/agent/models", action: "Add", done: (made) => go(made.name),
      fields: [
        ...FIELDS.slice(0, 1),
        { name: "channel", label: "Channel", kind: "choice", options: channels.map((name) => [name, name]), initial: channels[0] ?? "",
          required: true, hint: channels.length ? "More routes can be added afterwards." : "Add a channel first." },
        { name: "supplierModel", label: "The supplier's name for it", hint: "Leave empty if it is the same." },
        ...FIELDS.slice(1),
      ],
      extra: catalogueTaker,
      finish: ({ channel, supplierModel, ...body }) => ({
        ...body, routes: [{ channel, ...(supplierModel ? { model: supplierModel } : {}) }],
      }),
    });
  }
  if (query.peek().get("new")) {
    setQuery({ new: null });
    queueMicrotask(() => void create());
  }
  function addButton() {
    return el("button", { class: "btn main", changes: "administrator", onclick: () => void create() }, icon("plus"), "Add a model");
  }
  return {
    title: "Models",
    body: gatewayFrame({ title: "Models", narrow: true, actions: [addButton()] },
      card({
        title: "Models",
        text: "The models that callers of the gateway can use. Requests for a model without prices are refused or estimated, " +
          "depending on the settings. Models are in models.yml.",
      }, list.node)),
  };

  /** @param {Model} model @returns {HTMLElement} */
  function modelRow(model) {
    return el("li", null,
      el("span", { class: "name" }, dot(model.enabled ? "good" : "off"),
        el("a", { href: link(`/gateway/models/${encodeURIComponent(model.name)}`) }, el("b", null, el("bdi", null, model.name))),
        model.enabled ? null : el("span", { class: "chip" }, "disabled")),
      el("small", null, model.routes.map((route) => (route.model ? `${route.channel} (${route.model})` : route.channel)).join(", ")),
      model.prices
        ? el("small", { class: "num" }, `${price(model.prices.input)} in, ${price(model.prices.output)} out per million tokens`)
        : el("small", { class: "need" }, "No prices"),
      differenceLine(compared[model.name], list.reload),
      el("span", { class: "ends" }, menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${model.name}` }, [icon("more")],
        () => modelItems(model, list.reload, list.reload))));
  }
});

const onePage = forAdministrators("Model", (params) => {
  const name = params["name"] ?? "";
  const at = `/api/agent/models/${encodeURIComponent(name)}`;
  const reading = following(async (abort) => {
    const [model, channels, prices] = await Promise.all([get(at, {}, abort), readAll("channels", abort), readModelPrices(name, abort)]);
    return { prices, model: /** @type {Model} */ (model), channels: /** @type {string[]} */ (channels.map((one) => one.name)) };
  }, { events: EVENTS });
  const reload = () => void reading.reload();
  const unsaved = signal(false);
  const again = () => {
    unsaved.value = false;
    reading.value.value = null;
    reload();
  };
  return {
    title: name,
    body: gatewayFrame({ title: name, back: "/gateway/models", narrow: true }, shown(reading, (latest) => el("div", { class: "loaded" },
      part(() => latest.value.model, (model) => aboutCard(model, reload)),
      part(() => latest.value.model.routes, (routes) => routesCard(at, routes, () => latest.value.channels, unsaved, again),
        () => unsaved.value),
      part(() => latest.value.prices, (prices) => cataloguePricesCard(prices, name, reload)),
      checkPanel({ path: `${at}/check`, channel: () => firstChannel(latest.peek().model), paid: true,
        text: "The first route, step by step. Only “with a paid request” costs something." })))),
  };
});

export const page = (/** @type {Record<string, string>} */ params) => (params["name"] ? onePage : listPage)(params);

/** @param {Model} model */
function firstChannel({ routes }) {
  return [...routes].sort((one, other) => one.priority - other.priority || other.weight - one.weight)[0]?.channel ?? "";
}

/** @param {string} name @param {() => void} reload */
function editModel(name, reload) {
  return editDialog({ title: `Edit ${name}`, path: `/api/agent/models/${encodeURIComponent(name)}`, fields: FIELDS,
    done: (changed) => (changed.name === name ? reload() : void navigate(`/gateway/models/${encodeURIComponent(changed.name)}`)) });
}

/** @param {Model} model @param {() => void} reload @param {() => void} gone @returns {import("../parts/menu.js").Items} */
function modelItems(model, reload, gone) {
  return [
    { label: "Edit and set prices", icon: "pencil", changes: "administrator", onselect: () => void editModel(model.name, reload) },
    { label: "Its requests", icon: "rows", onselect: () => void navigate(`/gateway/requests?model=${encodeURIComponent(model.name)}`) },
    null,
    ...usualItems({ path: `/api/agent/models/${encodeURIComponent(model.name)}`, name: model.name, enabled: model.enabled, reload, gone,
      copied: (name) => void navigate(`/gateway/models/${encodeURIComponent(name)}`),
      removeText: "Requests for it are refused from then on. It can be undone in Changes." }),
  ];
}

/** @param {readonly string[]} names */
function fallbackLinks(names) {
  return el("span", null, names.map((name, index) =>
    [index ? ", " : "", el("a", { href: link(`/gateway/models/${encodeURIComponent(name)}`) }, el("bdi", null, name))]).flat());
}

/** @param {Model} model @param {() => void} reload */
function aboutCard(model, reload) {
  const { prices } = model;
  return card({ title: "Model", actions: [
    el("a", { class: "btn", href: requestsLink({ model: model.name }) }, icon("rows"), "Its requests"),
    el("button", { class: "btn", changes: "administrator", onclick: () => void editModel(model.name, reload) }, icon("pencil"), "Edit"),
    menuButton({ class: "btn plain icon", "aria-label": `Actions for ${model.name}` }, [icon("more")],
      () => modelItems(model, reload, () => void navigate("/gateway/models"))),
  ] }, el("div", { class: "inside" },
    el("dl", { class: "pair" }, [
      ["State", el("span", { class: "with-dot" }, dot(model.enabled ? "good" : "off"), model.enabled ? "can be called" : "disabled")],
      ["Context", model.context === null ? "not known" : `${count(model.context)} tokens`],
      ["Longest reply", model.maxOutput === null ? "not known" : `${count(model.maxOutput)} tokens`],
      ...FALLBACKS.filter(([kind]) => model[kind].length).map(([kind, label]) => [label, fallbackLinks(model[kind])]),
      ...requestChanges(model),
    ].map(([name, value]) => [el("dt", null, name ?? ""), el("dd", null, value ?? "")]).flat()),
    prices
      ? el("dl", { class: "pair" }, RATES.filter(([rate]) => prices[rate] !== null).map(([rate, label]) =>
        [el("dt", null, label), el("dd", { class: "num" }, `${price(Number(prices[rate]))} per million tokens`)]).flat(),
        prices.above.map((tier) => [el("dt", null, `Above ${count(tier.tokens)} tokens`),
          el("dd", { class: "num" }, `${price(tier.input)} in, ${price(tier.output)} out`)]).flat(),
        prices.services.map((tier) => [el("dt", null, `Tier ${tier.tier}`),
          el("dd", { class: "num" }, `${price(tier.input)} in, ${price(tier.output)} out`)]).flat())
      : el("p", { class: "failure" }, icon("warning"), el("span", null, "It has no prices",
        el("small", null, "Its requests are refused or estimated, depending on the gateway's settings.")))));
}
