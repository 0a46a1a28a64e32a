/** Goes through the chats of the sidebar by keys. */

import { navigate, path } from "../core/router.js";
import { revealChat } from "./chat_list.js";
import { groups, loadMore } from "./chats.js";

/**
 * Go to the chat that stands before or after this one in the sidebar, of which only some rows are in the document.
 * @param {1 | -1} by
 */
export async function openNextChat(by) {
  if (!document.querySelector(".chats")) return;
  const listed = () => groups.peek().flatMap((group) => group.chats.map((chat) => chat.chatId));
  const at = listed().findIndex((id) => path.peek() === `/${id}`);
  const wanted = at < 0 ? 0 : at + by;
  if (wanted >= listed().length) await loadMore();
  const id = listed()[wanted];
  if (id === undefined) return;
  await navigate(`/${id}`);
  revealChat(id);
}
