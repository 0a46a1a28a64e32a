/** Where one reads in a chat: a message, and how far it is from the top of what is in sight. */

/** @typedef {{ id: number, above: number }} Place */

/**
 * The last message that begins at or above the upper edge; else the first one.
 * @param {HTMLElement} scroll
 * @returns {Place | null} null when no message is shown
 */
export function findPlace(scroll) {
  const edge = scroll.getBoundingClientRect().top;
  /** @type {Place | null} */
  let found = null;
  for (const node of scroll.querySelectorAll("[id^=m]")) {
    const box = node.getBoundingClientRect();
    if (!box.height) continue;
    if (found && box.top > edge + 1) break;
    found = { id: Number(node.id.slice(1)), above: edge - box.top };
  }
  return found;
}

/**
 * Bring a message back to where it was.
 * @param {HTMLElement} scroll
 * @param {Place} place
 */
export function showPlace(scroll, { id, above }) {
  const node = document.getElementById(`m${id}`);
  if (node) scroll.scrollTop += node.getBoundingClientRect().top - scroll.getBoundingClientRect().top + above;
}

/**
 * @param {HTMLElement} scroll
 * @returns {number} where its end is now
 */
export function scrollToEnd(scroll) {
  scroll.scrollTop = scroll.scrollHeight;
  return scroll.scrollTop;
}
