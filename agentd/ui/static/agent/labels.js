/** Labels of chats: chips with their colours, and the menu that sets them. */

import { put } from "../core/api.js";
import { el } from "../core/el.js";
import { unansweredChanges } from "../core/unanswered.js";
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

/**
 * The changes of each chat's labels that the daemon has not answered yet.
 * @type {Map<number, ReturnType<typeof unansweredChanges<readonly string[]>>>}
 */
const unanswered = new Map();

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
  return changesOf(chatId).over(chats.value.get(chatId)?.labels ?? []);
}

/** @param {number} chatId */
function changesOf(chatId) {
  const found = unanswered.get(chatId) ?? unansweredChanges(`chat ${chatId}`);
  unanswered.set(chatId, found);
  return found;
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
    const isOn = on;
    /** @param {readonly string[]} all */
    const apply = (all) => {
      if (all.includes(name) === isOn) return all;
      return isOn ? [...all, name] : all.filter((one) => one !== name);
    };
    const send = () => put(`/api/chats/${chatId}/labels`, { labels: apply(chats.peek().get(chatId)?.labels ?? []) });
    await changesOf(chatId).send(apply, send, putChat);
  } catch (error) {
    toastError(error, () => void toggleLabel(chatId, name, on));
  }
}
