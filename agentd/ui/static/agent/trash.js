/** The trash: chats that were deleted, for thirty days. */

import { ApiError, get, may, post, remove } from "../core/api.js";
import { el, icon, skeleton } from "../core/el.js";
import { foldText } from "../core/folding.js";
import * as live from "../core/live.js";
import { link } from "../core/router.js";
import { computed, effect, onEnd, signal } from "../core/signals.js";
import { agoTime, fullTime, now } from "../core/time.js";
import { confirm } from "../parts/dialog.js";
import { emptyState, failure } from "../parts/frame.js";
import { loadStyle } from "../parts/stylesheet.js";
import { toast, toastError } from "../parts/toast.js";
import { windowed } from "../parts/windowed.js";
import { putChat } from "./chats.js";

await Promise.all([loadStyle("gateway"), loadStyle("jobs")]);

/** @typedef {import("../api.d.ts").TrashedRow} Trashed */

const DAY = 86_400_000;
const narrow = matchMedia("(max-width: 720px)");

/** @returns {import("../core/router.js").Page} */
export function page() {
  const trashed = signal(/** @type {readonly Trashed[]} */ ([]));
  const state = signal(/** @type {"loading" | "ready" | { error: unknown }} */ ("loading"));
  const filter = signal("");
  const shown = computed(() => {
    const wanted = foldText(filter.value.trim());
    return wanted ? trashed.value.filter(({ chat }) => foldText(chat.title).includes(wanted)) : trashed.value;
  });

  let reads = 0;
  async function reload() {
    const read = ++reads;
    try {
      const { chats } = await get("/api/chats/trash");
      if (read !== reads) return; // a later one tells what is newer
      trashed.value = chats;
      state.value = "ready";
    } catch (error) {
      if (!(error instanceof ApiError)) reportError(error);
      if (read === reads && state.peek() !== "ready") state.value = { error };
    }
  }

  /** @param {number} chatId */
  function drop(chatId) {
    trashed.value = trashed.peek().filter(({ chat }) => chat.chatId !== chatId);
  }

  /**
   * Take a row away at once, and bring it back if the daemon does not do it.
   * @param {Trashed} row
   * @param {() => Promise<void>} request
   * @param {() => void} again
   */
  async function act(row, request, again) {
    const { chatId } = row.chat;
    drop(chatId);
    try {
      await request();
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return void toast(`Chat ${chatId} is not in the trash any more`);
      drop(chatId); // it may have been read again meanwhile
      trashed.value = [...trashed.peek(), row].sort((one, other) => other.deletedAt.localeCompare(one.deletedAt));
      toastError(error, again);
    }
    return undefined;
  }

  /** @param {Trashed} row */
  function restore(row) {
    void act(row, async () => {
      const restored = await post(`/api/chats/${row.chat.chatId}/restore`);
      putChat(restored);
      toast(`“${row.chat.title}” is back`);
    }, () => restore(row));
  }

  /** @param {Trashed} row */
  async function deleteForGood(row) {
    const sure = await confirm({
      title: "Delete this chat for good?", action: "Delete for good", danger: true,
      text: `“${row.chat.title}” with its ${row.chat.messageCount.toLocaleString("en")} messages cannot be restored after that.`,
    });
    if (sure) void act(row, () => remove(`/api/chats/trash/${row.chat.chatId}`), () => void deleteForGood(row));
  }

  void reload();
  const onVisible = () => !document.hidden && void reload();
  document.addEventListener("visibilitychange", onVisible);
  const endings = [live.on("chatDeleted", () => void reload()), live.on("chatUpdate", (chat) => drop(chat.chatId)),
    live.onGap(() => void reload()), () => document.removeEventListener("visibilitychange", onVisible)];
  onEnd(() => endings.forEach((end) => end()));

  const rows = el("ul", { class: "trash-rows", "aria-label": "Deleted chats" });
  const scroller = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Trash" }, () => content(state.value));
  const view = windowed({
    scroller, body: rows, count: () => shown.peek().length, height: () => (narrow.matches ? 112 : 57),
    render: (index) => trashRow(/** @type {Trashed} */ (shown.peek()[index]), { restore, deleteForGood }),
  });
  effect(() => {
    void shown.value;
    if (rows.isConnected) keepFocus(rows, view.update);
    else requestAnimationFrame(view.update);
  });

  return {
    title: "Trash",
    body: el("div", { class: "frame trash-page" },
      el("header", { class: "bar" },
        el("a", { class: "btn plain icon only-phone", href: link("/chats"), "aria-label": "Back" }, icon("back")),
        el("h1", null, "Trash"), el("span", { class: "grow" }),
        () => (trashed.value.length
          ? el("span", { class: "count num" },
            `${trashed.value.length.toLocaleString("en")} ${trashed.value.length === 1 ? "chat" : "chats"}`)
          : null)),
      scroller),
  };

  /** @param {"loading" | "ready" | { error: unknown }} at */
  function content(at) {
    if (at === "loading") return skeleton();
    if (at !== "ready") {
      return failure(at.error, () => {
        state.value = "loading";
        void reload();
      });
    }
    const nothing = computed(() => trashed.value.length === 0);
    const unfound = computed(() => trashed.value.length > 0 && shown.value.length === 0);
    requestAnimationFrame(view.update);
    return el("div", { class: "page" }, () => nothing.value
      ? emptyState("trash", "The trash is empty", "Chats that are moved to the trash stay here for thirty days, and can be restored.",
        el("a", { class: "btn", href: link("/chats") }, "Chats"))
      : [el("div", { class: "trash-head" }, el("p", null, "Chats stay here for thirty days after they are deleted."),
        el("input", { class: "input", type: "search", "aria-label": "Find in the trash", placeholder: "Find a title…", value: filter.peek(),
          oninput: (/** @type {Event} */ event) => (filter.value = /** @type {HTMLInputElement} */ (event.target).value) })),
      el("div", { class: "card trash-card" }, rows,
        () => (unfound.value ? el("p", { class: "nothing" }, "No deleted chat has this in its title") : null))]);
  }
}

/**
 * @param {Trashed} row
 * @param {{ restore: (row: Trashed) => void, deleteForGood: (row: Trashed) => Promise<void> }} actions
 */
function trashRow(row, { restore, deleteForGood }) {
  const { chat, deletedAt, restorableUntil } = row;
  const days = Math.max(0, Math.ceil((Date.parse(restorableUntil) - now()) / DAY));
  return el("li", { class: "trash-row", "data-chat": chat.chatId },
    el("div", { class: "what" }, el("span", { class: "name" }, chat.title),
      el("small", { title: fullTime(deletedAt) },
        `Deleted ${agoTime(deletedAt)} · ${chat.messageCount.toLocaleString("en")} ${chat.messageCount === 1 ? "message" : "messages"} · `,
        el("span", { class: days <= 3 ? "soon" : "" }, days === 1 ? "1 day left" : `${days} days left`))),
    may("manager") ? el("div", { class: "acts" },
      el("button", { class: "btn small", changes: "manager", "aria-label": `Restore ${chat.title}`, onclick: () => restore(row) },
        icon("history"), "Restore"),
      el("button", { class: "btn plain icon small", changes: "manager", "aria-label": `Delete ${chat.title} for good`,
        title: "Delete for good", onclick: () => void deleteForGood(row) }, icon("trash"))) : null);
}

/**
 * Rebuild the rows, and leave the focus in the list if it was there.
 * @param {HTMLElement} rows
 * @param {() => void} update
 */
function keepFocus(rows, update) {
  const held = document.activeElement;
  const buttons = () => /** @type {HTMLElement[]} */ ([...rows.querySelectorAll("button")]);
  const at = held instanceof HTMLElement ? buttons().indexOf(held) : -1;
  update();
  if (at >= 0) (buttons()[at] ?? buttons().at(-2))?.focus();
}
