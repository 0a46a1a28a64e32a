/** Prices, and sums in other currencies: what the first page does not need of them. */

import { usd } from "./money.js";

/**
 * A price in USD with all of its digits, as price lists have it: `$15.00`, `$1.875`, `$0.00375`.
 * @param {number | string} amount
 */
export function price(amount) {
  return `$${Number(amount).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 10 })}`;
}

/**
 * A sum in a currency that somebody else tells.
 * @param {number} amount
 * @param {string} currency
 */
export function inCurrency(amount, currency) {
  return currency === "USD" ? usd(amount) : `${amount.toLocaleString("en-US", { maximumFractionDigits: 2 })} ${currency}`;
}
