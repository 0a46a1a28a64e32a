/**
 * What somebody has typed into the cards of a page and not saved: it is there when they come back to the page in this tab. It is
 * kept in memory only, for it may be a secret.
 */

import { session } from "../core/api.js";

/**
 * Drafts by the card that they are of, each for who is signed in.
 * @template T
 * @returns {{ get: (card: string) => T | undefined, set: (card: string, draft: T | undefined) => void }}
 */
export function cardDrafts() {
  /** @type {Map<string, T>} */
  const kept = new Map();
  const keyOf = (/** @type {string} */ card) => `${session.peek()?.user ?? ""} ${card}`;
  return {
    get: (card) => kept.get(keyOf(card)),
    set: (card, draft) => {
      if (draft === undefined) kept.delete(keyOf(card));
      else kept.set(keyOf(card), draft);
    },
  };
}
