/** The fields of prices, in the forms of models and of their routes. */

/** @typedef {import("./form.js").Field} Field */
/** @typedef {import("./row_editor.js").Column} Column */

/** @type {readonly Column[]} */
const RATES = [
  { name: "input", label: "Input", kind: "money", required: true }, { name: "output", label: "Output", kind: "money", required: true },
  { name: "cacheRead", label: "From cache", kind: "money", placeholder: "as input" }, { name: "cacheWrite", label: "To cache", kind: "money", placeholder: "as input" },
  { name: "cacheWrite1H", label: "To cache, 1 h", kind: "money", placeholder: "as to cache" }, { name: "reasoning", label: "Reasoning", kind: "money", placeholder: "as output" },
];

/** @type {readonly Field[]} */
export const PRICE_FIELDS = [
  { name: "prices.input", label: "Price of input", kind: "money", hint: "USD per million tokens, as all prices below." },
  { name: "prices.output", label: "Price of output", kind: "money" },
  { name: "prices.cacheRead", label: "Price of input from cache", kind: "money", placeholder: "as input" },
  { name: "prices.cacheWrite", label: "Price of input to cache", kind: "money", placeholder: "as input" },
  { name: "prices.cacheWrite1H", label: "Price of input to cache for 1 h", kind: "money", placeholder: "as to cache" },
  { name: "prices.reasoning", label: "Price of reasoning", kind: "money", placeholder: "as output" },
  { name: "prices.above", label: "Prices of long requests", kind: "rows", wide: true, hint: "Of a whole request with more input tokens than this.",
    rows: { columns: [{ name: "tokens", label: "Above tokens", kind: "number", required: true, placeholder: "200000" }, ...RATES], add: "Add a size" } },
  { name: "prices.services", label: "Prices of service tiers", kind: "rows", wide: true, hint: "Of requests that ask for a tier such as flex or priority, or another field that changes the price, such as speed:fast.",
    rows: { columns: [{ name: "tier", label: "Tier", required: true, placeholder: "flex" }, ...RATES], add: "Add a tier" } },
];
