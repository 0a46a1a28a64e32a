/** The present day of the gateway, which is that of its time zone; on a page that stays open, another one after midnight. */

import { computed, signal } from "../core/signals.js";
import { ticking } from "../core/time.js";

/** Milliseconds after midnight: this machine's clock may be ahead of the daemon's by less than that. */
const LATE = 3000;

/** The time zone of the days, once an answer has told it. */
const zone = signal("UTC");

/** @param {string | undefined} name what an answer says of its days; it may be another name than the browser's own, as Asia/Kolkata */
export function learnZone(name) {
  if (name && isKnown(name)) zone.value = name;
}

/** @param {string} name */
function isKnown(name) {
  try {
    return Boolean(dayIn(0, name));
  } catch {
    return false;
  }
}

/** The day, while what is being made now lasts. */
export function today() {
  const moment = ticking();
  return computed(() => dayIn(moment.value - LATE, zone.value));
}

/**
 * The day of a moment, in a time zone.
 * @param {number} moment
 * @param {string} zone
 */
export function dayIn(moment, zone) {
  return new Intl.DateTimeFormat("en-CA", { timeZone: zone, dateStyle: "short" }).format(moment);
}
