/** Sums and prices, as people read them. */

/**
 * A sum in USD, with as many digits as it needs: `$0.1413`, `$18.42`, `$1,204`.
 * @param {number} sum
 */
export function usd(sum) {
  if (!sum) return "$0.00";
  const size = Math.abs(sum);
  const digits = size < 1 ? 4 : size < 1000 ? 2 : 0;
  if (size < 0.0001) return "< $0.0001";
  const shown = size.toLocaleString("en-US", { minimumFractionDigits: Math.min(digits, 2), maximumFractionDigits: digits });
  return `${sum < 0 ? "−" : ""}$${shown}`;
}

/** What a field for a sum takes: `12`, `0.5`, `.5`, `1,25`. */
export const SUM = "0?[.,][0-9]+|[0-9]{1,12}([.][0-9]+|,[0-9]{1,2}|,[0-9]{4,})?";

/**
 * A number that was typed, with a point for its decimals: the keyboards of many phones have only a comma. One before three
 * digits may separate thousands, and stays, to be refused.
 * @param {string} typed
 */
export function withPoint(typed) {
  return /^-?(0?,\d+|\d+,(\d{1,2}|\d{4,}))$/.test(typed) ? typed.replace(",", ".") : typed;
}

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
