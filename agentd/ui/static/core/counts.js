/** Counts and sizes, as people read them. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/**
 * A count with separators: `41,206`.
 * @param {number} number
 */
export function count(number) {
  return whole.format(number);
}

/**
 * A count with its noun: `1 prompt`, `3 prompts`.
 * @param {number} number
 * @param {string} noun
 * @param {string} [many]
 */
export function counted(number, noun, many = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : many}`;
}

/**
 * The beginning of a text, without half a character at its end.
 * @param {string} text
 * @param {number} most
 */
export function beginningOf(text, most) {
  return text.slice(0, most).replace(/[\uD800-\uDBFF]$/, "");
}

/**
 * Bytes: `812 B`, `4.1 MB`.
 * @param {number} bytes
 */
export function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let amount = bytes;
  for (; amount >= 1000 && unit < units.length - 1; unit++) amount /= 1000;
  return `${unit && amount < 100 ? amount.toFixed(1) : Math.round(amount)} ${units[unit]}`;
}
