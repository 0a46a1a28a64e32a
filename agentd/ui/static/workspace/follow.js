/** When the files of the workspace may have changed: the agent, a commit, an upload, or an editor elsewhere. */

import * as live from "../core/live.js";
import { onEnd } from "../core/signals.js";

/** A burst of events ends with such a pause. */
const PAUSE = 400;
/** So long after the first event of a burst, what they tell of is read in any case. */
const LATEST = 2000;
/** So long a read that is not answered keeps the next one waiting. */
const PATIENCE = 10_000;

/**
 * Make what each event is to call that `read` depends on: it reads after the burst, and never again before that is
 * answered. It ends with what is being made now.
 * @param {() => Promise<void>} read
 * @returns {() => void}
 */
export function readSoon(read) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** When what was heard of is read at the latest; 0: nothing was. */
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
 * Read again when files may have changed, while what is being made now lasts.
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
