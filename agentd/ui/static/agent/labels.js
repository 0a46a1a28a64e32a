/** Labels of chats: chips with their colours, and the menu that sets them. */

import { may, put, sendInOrder } from "../core/api.js";
import { el } from "../core/el.js";
import { toastError } from "../parts/toast.js";
import { changeChat, chats, labels, putChat } from "./chats.js";

/** @param {readonly string[]} names */
export function labelChips(names) {
  return names.map((name) => {
    const mark = el("i");
    const color = labels.value.find((label) => label.name === name)?.color;
    if (color) mark.style.background = color;
    return el("span", { class: "chip" }, mark, name);
  });
}

/**
 * The entries of a menu that put labels on a chat, and take them off.
 * @param {number} chatId
 */
export function labelItems(chatId) {
  const mine = chats.peek().get(chatId)?.labels ?? [];
  return labels.peek().map(({ name }) => ({
    label: `Label: ${name}`, icon: "tag", checked: mine.includes(name), toggles: true, disabled: !may("manager"),
    onselect: () => void toggle(chatId, name),
  }));
}

/**
 * @param {number} chatId
 * @param {string} name
 */
async function toggle(chatId, name) {
  const before = chats.peek().get(chatId)?.labels ?? [];
  const after = before.includes(name) ? before.filter((one) => one !== name) : [...before, name];
  changeChat(chatId, { labels: after });
  try {
    putChat(await sendInOrder(`chat ${chatId}`, () => put(`/api/chats/${chatId}/labels`, { labels: after })));
  } catch (error) {
    changeChat(chatId, { labels: before });
    toastError(error, () => void toggle(chatId, name));
  }
}
