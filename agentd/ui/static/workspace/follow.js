/** When the files of the workspace may have changed: the agent, a commit, an upload, or an editor elsewhere. */

import * as live from "../core/live.js";
import { onEnd } from "../core/signals.js";

/** Milliseconds without an event that end a burst of events. */
const PAUSE = 400;
/** Milliseconds from the first event of a burst to the read, at most: a burst may go on for long. */
const LATEST = 2000;
/** Milliseconds after which a read without an answer no longer holds up the next one. */
const PATIENCE = 10_000;

/**
 * Return a function to call at each event. It calls `read` once the burst of events is over, and again only after the
 * last read was answered; nothing is read once the part of the page that is being made now has ended.
 * @param {() => Promise<void>} read
 * @returns {() => void}
 */
export function readSoon(read) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** The latest time to read for the events so far; 0: there were none since the last read began. */
  let due = 0;
  let isReading = false;
  const soon = () => {
    const now = performance.now();
    due ||= now + LATEST;
    clearTimeout(timer);
    if (!isReading) timer = setTimeout(() => void run(), Math.min(PAUSE, due - now));
  };
  async function run() {
    due = 0;
    isReading = true;
    try {
      await Promise.race([read(), new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
    } finally {
      isReading = false;
      if (due) soon();
    }
  }
  onEnd(() => {
    clearTimeout(timer);
    read = () => Promise.resolve();
  });
  return soon;
}

/**
 * Call `read` when files may have changed, until the part of the page that is being made now has ended.
 * @param {() => Promise<void>} read
 */
export function onFilesChange(read) {
  const soon = readSoon(read);
  const seen = () => !document.hidden && soon();
  const ends = [
    live.on("gitUpdate", soon), live.on("filesUpdate", soon),
    live.on("chatUpdate", soon), live.on("messageUpdate", soon), live.onInterruption(soon),
  ];
  addEventListener("focus", soon);
  document.addEventListener("visibilitychange", seen);
  onEnd(() => {
    ends.forEach((end) => end());
    removeEventListener("focus", soon);
    document.removeEventListener("visibilitychange", seen);
  });
}
