/** The daemon's refusal of a value, for a person: which field it is about, and what is expected there. */

import { counted } from "./counts.js";

const TYPES = /** @type {Record<string, string>} */ ({
  int: "a whole number", float: "a number", str: "a text", bool: "true or false", array: "a list", object: "names with values",
});
const LIMITS = /** @type {Record<string, string>} */ ({ ">=": "at least", "<=": "at most", ">": "above", "<": "below" });

/**
 * Take the details of a refusal apart.
 * @param {string} details such as "Expected `int` >= 0 - at `$.limits.parallel`"
 * @returns {{ place: string, what: string }} such as `limits.parallel`, or nothing where none is named, and
 *   "expected a whole number of at least 0"
 */
export function readRefusal(details) {
  const found = /^([^]*) - at `(?:key` in `)?\$\.([^`]*)`([^`]*)$/.exec(details);
  if (!found) return { place: "", what: details };
  const [, said = "", place = "", more = ""] = found;
  return { place, what: explain(said) + more };
}

/** @param {string} said */
function explain(said) {
  const found = /^Expected `(\w+)(?: \| null)?`(?: (of length )?([<>]=?) (-?[\d.]+))?(?:, got `[^`]*`)?$/.exec(said);
  const [, type = "", isLength, sign = "", bound = ""] = found ?? [];
  const kind = TYPES[type];
  if (!kind) return said.replace(/^Expected /, "expected ");
  if (!sign) return `expected ${kind}`;
  const limit = LIMITS[sign];
  if (isLength) {
    const size = type === "str" ? counted(Number(bound), "character") : counted(Number(bound), "entry", "entries");
    return `expected ${kind} of ${limit} ${size}`;
  }
  return `expected ${kind} ${sign.endsWith("=") ? "of " : ""}${limit} ${Number(bound)}`;
}
