/** Labels of chats: chips with their colours, and the menu that sets them. */

import { put, sendInOrder } from "../core/api.js";
import { el } from "../core/el.js";
import { signal } from "../core/signals.js";
import { toastError } from "../parts/toast.js";
import { chats, labels, putChat, readChat } from "./chats.js";

/** @param {readonly string[]} names */
export function labelChips(names) {
  return names.map((name) => {
    const mark = el("i");
    const color = labels.value.find((label) => label.name === name)?.color;
    if (color) mark.style.background = color;
    return el("span", { class: "chip" }, mark, name);
  });
}

/** @typedef {{ chatId: number, name: string, on: boolean }} LabelChange whether the chat is to have the label */

/** Changes that the daemon has not answered yet, oldest first. */
const unanswered = signal(/** @type {readonly LabelChange[]} */ ([]));

/** So many labels can be looked through in a menu. */
const IN_MENU = 12;

/**
 * The entries of a menu that put labels on a chat, and take them off; of many labels one that opens their list.
 * @param {number} chatId
 * @returns {import("../parts/menu.js").Item[]}
 */
export function labelItems(chatId) {
  const mine = chats.peek().has(chatId) ? labelsOf(chatId) : undefined;
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
 * The labels of a chat, with the changes that the daemon has not answered yet.
 * @param {number} chatId
 */
export function labelsOf(chatId) {
  const told = chats.value.get(chatId)?.labels ?? [];
  return unanswered.value.filter((change) => change.chatId === chatId).reduce(applyChange, told);
}

/**
 * @param {readonly string[]} labels
 * @param {LabelChange} change
 * @returns {readonly string[]}
 */
function applyChange(labels, { name, on }) {
  if (labels.includes(name) === on) return labels;
  return on ? [...labels, name] : labels.filter((one) => one !== name);
}

/**
 * Put a label on a chat, or take it off; the others, which are sent with it, are known or read before.
 * @param {number} chatId
 * @param {string} name
 * @param {boolean} [wanted] whether it is to be there; else the other of what is
 */
export async function toggleLabel(chatId, name, wanted) {
  let on = wanted;
  try {
    if (!chats.peek().has(chatId)) await readChat(chatId);
    if (!chats.peek().has(chatId)) return; // it was deleted meanwhile
    on ??= !labelsOf(chatId).includes(name);
    const change = { chatId, name, on };
    const send = () => put(`/api/chats/${chatId}/labels`, { labels: applyChange(chats.peek().get(chatId)?.labels ?? [], change) });
    unanswered.value = [...unanswered.peek(), change];
    try {
      putChat(await sendInOrder(`chat ${chatId}`, send));
    } finally {
      unanswered.value = unanswered.peek().filter((one) => one !== change);
    }
  } catch (error) {
    toastError(error, () => void toggleLabel(chatId, name, on));
  }
}
