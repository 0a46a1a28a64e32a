/** When the files of the workspace may have changed: the agent, a commit, an upload, or an editor elsewhere. */

import * as live from "../core/live.js";
import { onEnd } from "../core/signals.js";

/** How long a burst of events may last before what they tell of is read again. */
const SETTLE = 400;

/**
 * Call when files may have changed, while what is being made now lasts.
 * @param {() => void} action
 */
export function onFilesChange(action) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(action, SETTLE);
  };
  const seen = () => !document.hidden && soon();
  const ends = [
    live.on("gitUpdate", soon), live.on("filesUpdate", soon),
    live.on("chatUpdate", soon), live.on("messageUpdate", soon), live.onInterruption(soon),
  ];
  addEventListener("focus", soon);
  document.addEventListener("visibilitychange", seen);
  onEnd(() => {
    clearTimeout(timer);
    ends.forEach((end) => end());
    removeEventListener("focus", soon);
    document.removeEventListener("visibilitychange", seen);
  });
}
