/** What can be done with a chat as a whole: the menu of its row, and of its page. */

import { ApiError, post, put, remove, sendInOrder } from "../core/api.js";
import { link, navigate, path } from "../core/router.js";
import { ask, confirm } from "../parts/dialog.js";
import { toast, toastError } from "../parts/toast.js";
import { changeChat, chats, dropChat, onChatsChange, putChat } from "./chats.js";
import { labelItems } from "./labels.js";
import { pins, setPinned } from "./me.js";

/** Titles that the daemon has not answered yet, and what it sent last. @type {Map<number, { title: string, saved: string }>} */
const titles = new Map();

onChatsChange((chatIds) => {
  for (const chatId of chatIds) {
    const [ours, saved] = [titles.get(chatId), chats.peek().get(chatId)?.title];
    if (!ours || saved === undefined || saved === ours.title) continue;
    ours.saved = saved;
    changeChat(chatId, ours);
  }
});

/**
 * The entries of a chat's menu; `more` stand before the last.
 * @param {number} chatId
 * @param {string} title
 * @param {import("../parts/menu.js").Items} [more]
 * @returns {import("../parts/menu.js").Items}
 */
export function chatItems(chatId, title, more = []) {
  const isPinned = pins.peek().includes(chatId);
  return [
    { label: "Rename", icon: "pencil", changes: "manager", onselect: () => void rename(chatId, title) },
    ...labelItems(chatId),
    { label: isPinned ? "Unpin" : "Pin", icon: "pin", changes: "viewer", onselect: () => void setPinned(chatId, !isPinned) },
    { label: "Duplicate", icon: "copy", changes: "manager", onselect: () => void duplicate(chatId) },
    { label: "Export as Markdown", icon: "download", onselect: () => location.assign(link(`/api/chats/${chatId}/export`)) },
    { label: "Export as JSON", icon: "download", onselect: () => location.assign(link(`/api/chats/${chatId}/export?format=json`)) },
    null,
    ...more,
    { label: "Move to the trash", icon: "trash", danger: true, changes: "manager", onselect: () => void trash(chatId) },
  ];
}

/** @param {number} chatId @param {string} title */
async function rename(chatId, title) {
  const name = await ask({ title: "Rename the chat", label: "Title", value: title, action: "Rename" });
  if (name && name !== title) await setTitle(chatId, name);
}

/**
 * Show another title at once, and the one before when the daemon refuses it.
 * @param {number} chatId
 * @param {string} title
 */
async function setTitle(chatId, title) {
  const ours = { title, saved: titles.get(chatId)?.saved ?? chats.peek().get(chatId)?.title ?? title };
  titles.set(chatId, ours);
  changeChat(chatId, { title });
  const isLast = () => titles.get(chatId) === ours && titles.delete(chatId);
  try {
    const answer = await sendInOrder(`chat ${chatId}`, () => put(`/api/chats/${chatId}`, { title }));
    isLast();
    putChat(answer);
  } catch (error) {
    if (isLast()) changeChat(chatId, { title: ours.saved });
    toastError(error, () => void setTitle(chatId, title));
  }
}

/** @param {number} chatId */
async function duplicate(chatId) {
  const from = path.peek();
  const copy = await post(`/api/chats/${chatId}/duplicate`, {}).catch(toastError);
  const open = () => void navigate(`/${copy.chatId}`);
  if (copy && path.peek() === from) open();
  else if (copy) toast("The chat is duplicated", { action: "Open", onaction: open });
}

/** @param {number} chatId @param {boolean} [force] also if work in its work tree is lost */
async function trash(chatId, force = false) {
  try {
    await sendInOrder(`chat ${chatId}`, () => remove(`/api/chats/${chatId}${force ? "?force=true" : ""}`));
  } catch (error) {
    if (!force && error instanceof ApiError && error.status === 409 && error.message.includes("would be lost")) {
      const yes = await confirm({
        title: "Lose its changes?", text: `${error.message}. Merge or keep them first, in the chat's changes.`,
        action: "Delete with its changes", danger: true,
      });
      if (yes) await trash(chatId, true);
      return;
    }
    if (error instanceof ApiError && error.status === 404) return dropChat(chatId); // it is there already
    toastError(error, () => void trash(chatId, force));
    return;
  }
  const shown = path.peek() === `/${chatId}`;
  dropChat(chatId);
  if (shown) void navigate("/chats");
  const restore = async () => {
    putChat(await post(`/api/chats/${chatId}/restore`));
    if (shown) await navigate(`/${chatId}`);
  };
  toast("The chat is in the trash", { action: "Undo", onaction: () => void restore().catch(toastError) });
}
