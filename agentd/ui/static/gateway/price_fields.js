/** The fields of prices, in the forms of models and of their routes. */

/** @typedef {import("./form.js").Field} Field */
/** @typedef {import("./row_editor.js").Column} Column */

/** Each rate: as models and as settings spell it, what it is of, its label in a table, and the rate that holds without it. */
const RATES = /** @type {const} */ ([
  ["input", "input", "input", "Input", ""], ["output", "output", "output", "Output", ""],
  ["cacheRead", "cache_read", "input from cache", "From cache", "as input"],
  ["cacheWrite", "cache_write", "input to cache", "To cache", "as input"],
  ["cacheWrite1H", "cache_write_1h", "input to cache for 1 h", "To cache, 1 h", "as to cache"],
  ["reasoning", "reasoning", "reasoning", "Reasoning", "as output"],
]);

/** @type {readonly Column[]} */
const COLUMNS = RATES.map(([name, , , label, placeholder]) => ({ name, label, kind: "money", placeholder, required: !placeholder }));

/**
 * The fields of the rates of one model, or of those that are assumed in the settings.
 * @param {"prices" | "assumed_prices"} place
 * @param {string} label
 * @param {string} hint
 * @returns {Field[]}
 */
export function rateFields(place, label, hint) {
  return RATES.map(([model, setting, of, , placeholder]) => ({
    name: `${place}.${place === "prices" ? model : setting}`, label: `${label} of ${of}`, kind: "money", placeholder,
    ...(model === "input" ? { hint } : {}),
  }));
}

/** @type {readonly Field[]} */
export const PRICE_FIELDS = [
  ...rateFields("prices", "Price", "USD per million tokens, as all prices below."),
  { name: "prices.above", label: "Prices of long requests", kind: "rows", wide: true,
    hint: "Of a whole request with more input tokens than this.",
    rows: { columns: [{ name: "tokens", label: "Above tokens", kind: "number", required: true, placeholder: "200000" }, ...COLUMNS],
      add: "Add a size" } },
  { name: "prices.services", label: "Prices of service tiers", kind: "rows", wide: true,
    hint: "Of requests that ask for a tier such as flex or priority, or another field that changes the price, such as speed:fast.",
    rows: { columns: [{ name: "tier", label: "Tier", required: true, placeholder: "flex" }, ...COLUMNS], add: "Add a tier" } },
];
