/** Moments, as people read them. The daemon's clock decides, not this machine's. */

import { onEnd, signal } from "./signals.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Milliseconds by which this machine's clock is behind the daemon's. */
let skew = 0;

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "short" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dateOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

/** The daemon's time now. */
export function now() {
  return Date.now() + skew;
}

/**
 * Learn the daemon's time from the headers of a response that has just come. They have whole seconds, so
 * less than that is no difference.
 * @param {string | null} date
 */
export function learnTime(date) {
  const difference = Date.parse(date ?? "") + 500 - Date.now();
  if (Math.abs(difference - skew) > 1500) skew = difference;
}

/** A signal that changes each second, while what is being made now lasts. */
export function ticking() {
  const tick = signal(now());
  const timer = setInterval(() => (tick.value = now()), 1000);
  onEnd(() => clearInterval(timer));
  return tick;
}

/**
 * As short as a list has room for: `now`, `3 m`, `11:42`, `Thu`, `4 Nov`.
 * @param {string | number | null | undefined} moment
 */
export function shortTime(moment) {
  const at = new Date(moment ?? NaN);
  if (Number.isNaN(at.getTime())) return "";
  const age = now() - at.getTime();
  if (age < MINUTE) return "now";
  if (age < 10 * MINUTE) return `${Math.floor(age / MINUTE)} m`;
  const days = daysAgo(at);
  if (days <= 1) return clock.format(at);
  return days < 7 ? weekday.format(at) : date.format(at);
}

/**
 * As `shortTime`, within a sentence or beside a name: `just now`, `3 m ago`, `11:42`.
 * @param {string | number | null | undefined} moment
 */
export function agoTime(moment) {
  const text = shortTime(moment);
  return text === "now" ? "just now" : / m$/.test(text) ? `${text} ago` : text;
}

/**
 * The heading under which a day's rows stand.
 * @param {string} moment
 * @returns {"Today" | "Yesterday" | "Last 7 days" | "Earlier"}
 */
export function dayGroup(moment) {
  const days = daysAgo(new Date(moment));
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return days < 7 ? "Last 7 days" : "Earlier";
}

/** @param {string | number} moment */
export function clockTime(moment) {
  return clock.format(new Date(moment));
}

/**
 * A moment to come: `14:30` today, `Thu 09:00` within a week, `4 Nov 09:00` later.
 * @param {string} moment
 */
export function comingTime(moment) {
  const at = new Date(moment);
  const days = -daysAgo(at);
  if (days <= 0) return clock.format(at);
  if (at.getFullYear() !== new Date(now()).getFullYear() && days > 60) return `${dateOfYear.format(at)} ${clock.format(at)}`;
  return `${(days < 7 ? weekday : date).format(at)} ${clock.format(at)}`;
}

/** @param {string | number} moment */
export function fullTime(moment) {
  return full.format(new Date(moment));
}

/**
 * How many midnights ago a moment was.
 * @param {Date} at
 */
export function daysAgo(at) {
  const midnight = new Date(now());
  midnight.setHours(0, 0, 0, 0);
  const then = new Date(at);
  then.setHours(0, 0, 0, 0);
  return Math.round((midnight.getTime() - then.getTime()) / DAY);
}
