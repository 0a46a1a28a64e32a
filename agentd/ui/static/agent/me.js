/** What is kept of the person who is signed in, the same on all devices: seen, pinned, the look. */

import { ApiError, get, put, sendInOrder, session } from "../core/api.js";
import * as live from "../core/live.js";
import { signal } from "../core/signals.js";
import { setTheme, theme } from "../parts/theme.js";
import { toastError } from "../parts/toast.js";

const DELAY = 400;
/** The look that is kept of who wants that of each device's system. */
const SYSTEM = "system";

/** By chat, how many of its messages were seen; null before it is known. */
export const seen = signal(/** @type {Record<string, number> | null} */ (null));
/** The pinned chats. */
export const pins = signal(/** @type {readonly number[]} */ ([]));

/** The pins as they were told. */
let saved = pins.peek();
/** Changes of pins that are on their way, shown over those. @type {((pins: typeof saved) => typeof saved)[]} */
let pinning = [];
const events = live.follower();
/** So many choices of a look are on their way: until they are answered, no look that is told replaces them. */
let choosing = 0;
/** @type {Record<string, number>} */
let changed = {};
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** Read it again. */
export async function loadMe() {
  try {
    await events.read(() => get("/api/me"), takeMe);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    seen.value ??= {};
  }
}

/**
 * Read it together with other things; what of it changes meanwhile is taken up after that.
 * @param {() => Promise<void>} read calls `takeMe`
 */
export function readWithMe(read) {
  return events.read(read, () => {});
}

/**
 * Take up what the daemon has; null: it cannot be read now.
 * @param {import("../api.d.ts").MeView | null} me
 */
export function takeMe(me) {
  if (!me) {
    seen.value ??= {};
    return;
  }
  const ours = { ...me.seen };
  for (const [chat, count] of Object.entries(changed)) ours[chat] = Math.max(ours[chat] ?? 0, count);
  seen.value = ours;
  takePinsAndLook(me);
}

/** @param {{ pins: readonly number[], look: Record<string, string> }} me */
function takePinsAndLook({ pins: kept, look }) {
  saved = kept;
  showPins();
  const chosen = look["theme"] === SYSTEM ? "" : look["theme"];
  if (!choosing && (chosen === "" || chosen === "light" || chosen === "dark") && chosen !== theme.peek()) setTheme(chosen);
}

function showPins() {
  pins.value = pinning.reduce((all, change) => change(all), saved);
}

events.on("meUpdate", (me) => {
  const known = seen.peek();
  if (!known) return;
  const merged = { ...known };
  for (const chat of me.unseen) delete merged[chat];
  for (const [chat, count] of Object.entries(me.seen)) merged[chat] = Math.max(merged[chat] ?? 0, count);
  seen.value = merged;
  takePinsAndLook(me);
});

/**
 * Remember that so many messages of a chat were seen.
 * @param {number} chatId
 * @param {number} count
 * @param {boolean} again tell the daemon even if it knows
 */
export function markSeenUpTo(chatId, count, again) {
  const known = seen.peek();
  if (!known || !count || (!again && (known[chatId] ?? 0) >= count)) return;
  if ((known[chatId] ?? 0) < count) seen.value = { ...known, [chatId]: count };
  changed[chatId] = count;
  clearTimeout(timer);
  timer = setTimeout(() => void save(), DELAY);
}

async function save() {
  const sent = changed;
  changed = {};
  try {
    await put("/api/me", { seen: sent });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    changed = { ...sent, ...changed };
  }
}

/**
 * Pin a chat to the top of the list, or let it go.
 * @param {number} chatId
 * @param {boolean} pinned
 */
export async function setPinned(chatId, pinned) {
  const change = (/** @type {typeof saved} */ all) => [...all.filter((one) => one !== chatId), ...(pinned ? [chatId] : [])];
  pinning.push(change);
  showPins();
  try {
    await sendInOrder("pins", () => put("/api/me", pinned ? { pin: [chatId] } : { unpin: [chatId] }));
    saved = change(saved);
  } catch (error) {
    toastError(error, () => void setPinned(chatId, pinned));
  }
  pinning = pinning.filter((one) => one !== change);
  showPins();
}

/**
 * Choose a look, for all devices of this person.
 * @param {import("../parts/theme.js").Theme} chosen
 */
export async function chooseTheme(chosen) {
  setTheme(chosen);
  choosing++;
  await sendInOrder("look", () => put("/api/me", { look: { theme: chosen || SYSTEM } })).catch(toastError);
  choosing--;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    if (Object.keys(changed).length) void save();
  } else if (session.peek()) {
    void loadMe();
  }
});
