/** The price catalogue beside the models' own prices: what it has, applying it, taking it into a form. */

import { get, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { count } from "../core/counts.js";
import { price } from "../core/money.js";
import { signal } from "../core/signals.js";
import { card } from "../settings/frame.js";
import { readAll } from "./frame.js";
import { act } from "./resource_list.js";

/**
 * @typedef {{ supplier: string, model: string, title: string, prices: import("./models.js").Prices, since: string,
 *   context: number | null, note: string, by: "address" | "name" }} Listed
 * @typedef {{ name: string, prices: import("./models.js").Prices | null, listed: Listed | null, differs: boolean }} Comparison
 * @typedef {{ source: string, problem: string, comparison: Comparison | null }} ModelPrices
 */

const RATES = /** @type {const} */ (["input", "output", "cacheRead", "cacheWrite", "cacheWrite1H", "reasoning"]);

/** The comparisons of all models, by name. @param {AbortSignal} abort @returns {Promise<Record<string, Comparison>>} */
export async function readComparisons(abort) {
  const found = /** @type {Comparison[]} */ (await readAll("prices/models", abort));
  return Object.fromEntries(found.map((one) => [one.name, one]));
}

/**
 * One model's prices in the catalogue.
 * @param {string} name
 * @param {AbortSignal} abort
 * @returns {Promise<ModelPrices>}
 */
export async function readModelPrices(name, abort) {
  let cursor = "";
  do {
    const page = await get("/api/agent/prices/models", { name, limit: 200, cursor }, abort);
    const comparison = page.items.find((/** @type {Comparison} */ one) => one.name === name) ?? null;
    if (comparison || !page.next) return { source: page.source, problem: page.problem, comparison };
    cursor = page.next;
  } while (true);
}

/** @param {string} name @param {() => void} reload */
function applyPrices(name, reload) {
  return act(() => post(`/api/agent/models/${encodeURIComponent(name)}/prices`),
    `${name} has the catalogue's prices; Changes can undo it`, reload);
}

/**
 * What the list of models shows of a model whose own prices differ from the catalogue's.
 * @param {Comparison | undefined} comparison
 * @param {() => void} reload
 */
export function differenceLine(comparison, reload) {
  if (!comparison?.differs || !comparison.listed) return null;
  const { prices } = comparison.listed;
  return el("small", { class: "num need" }, `Catalogue: ${price(prices.input)} in, ${price(prices.output)} out `,
    el("button", { class: "btn small", changes: "administrator", "aria-label": `Apply the catalogue's prices to ${comparison.name}`,
      onclick: () => void applyPrices(comparison.name, reload) }, "Apply"));
}

/** @param {ModelPrices} found @param {string} name @param {() => void} reload */
export function cataloguePricesCard({ source, problem, comparison }, name, reload) {
  const listed = comparison?.listed;
  const refresh = () => void act(() => post("/api/agent/prices/refresh"), "The price catalogue was read", reload);
  const rates = /** @type {const} */ ([
    ["input", "In"], ["output", "Out"], ["cacheRead", "In, from cache"], ["cacheWrite", "In, to cache"],
    ["cacheWrite1H", "In, to cache for 1 h"], ["reasoning", "Reasoning"],
  ]);
  const text = problem
    ? "It knows the prices and context sizes of most models."
    : `From ${source}. The model's own prices are the ones that count.`;
  return card({ title: "Price catalogue", text, actions: [
    problem ? el("button", { class: "btn", changes: "administrator", onclick: refresh }, icon("reload"), "Read it now") : null,
    comparison?.differs
      ? el("button", { class: "btn main", changes: "administrator", onclick: () => void applyPrices(name, reload) }, "Apply")
      : null,
  ] }, el("div", { class: "inside" },
    problem ? el("p", { class: "quiet" }, "There is no price catalogue here yet.")
      : !listed ? el("p", { class: "quiet" }, "It does not list this model at the address of its channel.")
        : [
          el("dl", { class: "pair" }, [
            ["Listed as", `${listed.title || listed.model} (${listed.supplier})`],
            ...rates.filter(([rate]) => listed.prices[rate] !== null).map(([rate, label]) => [label,
              `${price(Number(listed.prices[rate]))} per million tokens${ownWords(comparison.prices, rate, Number(listed.prices[rate]))}`]),
            ...listed.prices.above.map((tier) =>
              [`Above ${count(tier.tokens)} tokens`, `${price(tier.input)} in, ${price(tier.output)} out`]),
            ...(listed.prices.services.length ? [["Service tiers", listed.prices.services.map((tier) => tier.tier).join(", ")]] : []),
            ...(listed.context ? [["Context", `${count(listed.context)} tokens`]] : []),
            ...(listed.since ? [["Since", listed.since]] : []),
          ].map(([label, value]) => [el("dt", null, label ?? ""), el("dd", { class: "num" }, value ?? "")]).flat()),
          el("p", { class: "quiet" }, [
            comparison.differs ? "" : "The model has these prices.",
            listed.by === "name" ? "Found by the name of the model: its supplier may have other prices than its maker." : "",
            listed.note,
          ].filter(Boolean).join(" ")),
        ]));
}

/** @param {import("./models.js").Prices | null} own @param {typeof RATES[number]} rate @param {number} listed */
function ownWords(own, rate, listed) {
  const mine = own?.[rate];
  return mine === null || mine === undefined || Number(mine) === listed ? "" : `, own ${price(Number(mine))}`;
}

/**
 * A button that fills a new model's form from the catalogue.
 * @param {import("./form.js").Form} form
 */
export function catalogueTaker(form) {
  const said = signal("");
  const take = async () => {
    /** @type {Listed | null} */
    let taken = null;
    const channel = form.value("channel");
    const model = form.value("supplierModel").trim() || form.value("name").trim();
    if (!channel || !model) {
      said.value = "Give the model a name and a channel first.";
      return;
    }
    try {
      const page = await get("/api/agent/prices", { channel, model });
      taken = page.items[0] ?? null;
      said.value = page.problem
        || (taken ? [`${taken.title || taken.model}, ${page.source}.`, taken.note].join(" ") : `The catalogue does not list ${model}.`);
    } catch (error) {
      said.value = error instanceof Error ? error.message : String(error);
    }
    if (!taken) return;
    for (const name of /** @type {const} */ ([...RATES, "above", "services"])) form.fill(`prices.${name}`, taken.prices[name]);
    if (taken.context && !form.value("context")) form.set("context", String(taken.context));
  };
  return el("div", { class: "taker" },
    el("button", { class: "btn", type: "button", onclick: () => void take() }, icon("download"), "Take from catalogue"),
    el("small", { role: "status" }, () => said.value));
}
