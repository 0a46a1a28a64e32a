/**
 * What somebody has typed into the cards of a page and not saved: it is there when they come back to the page in this tab. It is
 * kept in memory only, for it may be a secret.
 */

import { session } from "../core/api.js";

/**
 * The draft of each card, of who is signed in as the card is made: also when that login ends before the card does.
 * @template T
 * @returns {(card: string) => { draft: T | undefined, keep: (draft: T | undefined) => void }}
 */
export function cardDrafts() {
  /** @type {Map<string, T>} */
  const kept = new Map();
  return (card) => {
    const key = `${session.peek()?.user ?? ""} ${card}`;
    const keep = (/** @type {T | undefined} */ draft) => void (draft === undefined ? kept.delete(key) : kept.set(key, draft));
    return { draft: kept.get(key), keep };
  };
}
