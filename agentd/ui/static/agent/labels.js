/** Labels of chats: chips with their colours, and the menu that sets them. */

import { put, sendInOrder } from "../core/api.js";
import { el } from "../core/el.js";
import { toastError } from "../parts/toast.js";
import { changeChat, chats, labels, putChat, readChat } from "./chats.js";

/** @param {readonly string[]} names */
export function labelChips(names) {
  return names.map((name) => {
    const mark = el("i");
    const color = labels.value.find((label) => label.name === name)?.color;
    if (color) mark.style.background = color;
    return el("span", { class: "chip" }, mark, name);
  });
}

/** So many labels can be looked through in a menu. */
const IN_MENU = 12;

/**
 * The entries of a menu that put labels on a chat, and take them off; of many labels one that opens their list.
 * @param {number} chatId
 * @returns {import("../parts/menu.js").Item[]}
 */
export function labelItems(chatId) {
  const mine = chats.peek().get(chatId)?.labels;
  if (labels.peek().length > IN_MENU) {
    const pick = async () => (await import("./label_picker.js")).pickLabels(chatId);
    return [{ label: "Labels…", icon: "tag", changes: "manager", onselect: () => void pick().catch(toastError) }];
  }
  return labels.peek().map(({ name }) => ({
    label: `Label: ${name}`, icon: "tag", checked: mine?.includes(name) ?? false, toggles: true, disabled: !mine,
    changes: "manager", onselect: () => void toggleLabel(chatId, name),
  }));
}

/**
 * Put a label on a chat, or take it off; the others, which are sent with it, are known or read before.
 * @param {number} chatId
 * @param {string} name
 */
export async function toggleLabel(chatId, name) {
  /** @type {string[] | undefined} */
  let before;
  try {
    if (!chats.peek().has(chatId)) await readChat(chatId);
    before = chats.peek().get(chatId)?.labels;
    if (!before) return; // it was deleted meanwhile
    const after = before.includes(name) ? before.filter((one) => one !== name) : [...before, name];
    changeChat(chatId, { labels: after });
    putChat(await sendInOrder(`chat ${chatId}`, () => put(`/api/chats/${chatId}/labels`, { labels: after })));
  } catch (error) {
    if (before) changeChat(chatId, { labels: before });
    toastError(error, () => void toggleLabel(chatId, name));
  }
}
