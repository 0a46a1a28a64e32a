/** All chats: what the sidebar shows, for phones. */

import { el, icon } from "../core/el.js";
import { link } from "../core/router.js";
import { openPalette } from "../parts/keys.js";
import { chatList } from "./chat_list.js";

/** @returns {import("../core/router.js").Page} */
export function page() {
  return {
    title: "Chats",
    body: el("div", { class: "frame chats-page" },
      el("header", { class: "bar" }, el("h1", null, "Chats"), el("span", { class: "grow" }),
        el("button", { class: "btn plain icon", "aria-label": "Search", onclick: openPalette }, icon("search")),
        el("a", { class: "btn main icon", href: link("/"), "aria-label": "New chat" }, icon("plus"))),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Chats" }, el("div", { class: "chats-column" }, chatList()))),
  };
}
