/** Names with values that are typed one a line, such as headers or variables. */

import { ApiError } from "../core/api.js";

/**
 * @param {Record<string, string>} pairs
 * @param {string} between
 */
export function writePairs(pairs, between) {
  return Object.entries(pairs).map(([name, value]) => `${name}${between}${value}`).join("\n");
}

/**
 * @param {string} text
 * @param {string} between
 * @returns {[string, string][]} a line without `between` is a name without a value
 */
function splitPairs(text, between) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const place = line.indexOf(between);
    return place < 0 ? [line.trim(), ""] : [line.slice(0, place).trim(), line.slice(place + 1).trim()];
  });
}

/**
 * @param {string} text
 * @param {string} between
 * @returns {Record<string, string>} of a name that is there twice, the last value
 */
export function readPairs(text, between) {
  return Object.fromEntries(splitPairs(text, between));
}

/**
 * Throw for a line without `between`, whose value would be lost, and if a name is there twice: only one value
 * could be kept.
 * @param {string} text
 * @param {string} between
 * @param {string} label of the field
 * @param {(name: string) => string} [fold] names that are alike then are the same
 */
export function checkPairs(text, between, label, fold = (name) => name.toLowerCase()) {
  const bad = text.split("\n").findIndex((line) => line.trim() && !line.includes(between)) + 1;
  if (bad) throw new ApiError(422, "input", `${label}: line ${bad} has no "${between}"`, `Each line is a name, "${between}" and a value.`);
  /** @type {Set<string>} */
  const seen = new Set();
  for (const [name] of splitPairs(text, between)) {
    if (seen.has(fold(name))) throw new ApiError(422, "input", `${label}: ${name} is there twice`, "Remove one of the lines.");
    seen.add(fold(name));
  }
}
