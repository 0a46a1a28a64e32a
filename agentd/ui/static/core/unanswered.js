/** Changes that are shown before the daemon has answered. */

import { sendInOrder } from "./api.js";
import { signal } from "./signals.js";

/**
 * The changes of a thing that the daemon has not answered yet. They are shown over what it told, so that no answer
 * or event that comes in between undoes one, and a change that is refused takes only itself back. They are sent in
 * their order.
 * @template T
 * @param {unknown} thing
 */
export function unansweredChanges(thing) {
  const changes = signal(/** @type {readonly ((state: T) => T)[]} */ ([]));
  return {
    /**
     * What is told, with the changes.
     * @param {T} state
     */
    over: (state) => changes.value.reduce((shown, change) => change(shown), state),
    /**
     * Show a change, and send it.
     * @template A
     * @param {(state: T) => T} change
     * @param {() => Promise<A>} request
     * @param {(answer: A) => void} take takes up the answer, while the change is still shown
     */
    async send(change, request, take) {
      changes.value = [...changes.peek(), change];
      try {
        take(await sendInOrder(thing, request));
      } finally {
        changes.value = changes.peek().filter((one) => one !== change);
      }
    },
  };
}
