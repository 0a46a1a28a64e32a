/** The settings of a chat: its model, mode and skill, whether it has a work tree and keeps its processes. */

import { put } from "../core/api.js";
import { computed } from "../core/signals.js";
import { unansweredChanges } from "../core/unanswered.js";
import { toastError } from "../parts/toast.js";

/** @typedef {import("./chat_data.js").Work["settings"]} Settings */

/**
 * @param {import("./chat_data.js").ChatData} chat
 * @returns {{ settings: import("../core/signals.js").ReadonlySignal<Settings | undefined>,
 *   change: (changes: Partial<Settings>) => Promise<boolean> }} `settings` as they are shown; `change` tells whether it was done
 */
export function chatSettings(chat) {
  const path = `/api/chat/${chat.chatId}/settings`;
  const unanswered = /** @type {typeof unansweredChanges<Settings | undefined>} */ (unansweredChanges)(path);

  /** @param {Settings} settings */
  function take(settings) {
    const work = chat.work.peek();
    if (work) chat.work.value = { ...work, settings };
    void chat.refresh(); // what is being read now may be older
  }

  /** @param {Partial<Settings>} changes */
  async function change(changes) {
    try {
      await unanswered.send((settings) => settings && { ...settings, ...changes }, () => put(path, changes), take);
      return true;
    } catch (error) {
      toastError(error, () => void change(changes));
      return false;
    }
  }
  return { settings: computed(() => unanswered.over(chat.work.value?.settings)), change };
}
