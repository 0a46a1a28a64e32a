/** A comment on a line: it joins the draft of a chat, with the place and the line. */

import { may } from "../core/api.js";
import { el } from "../core/el.js";
import { navigate } from "../core/router.js";
import * as store from "../core/store.js";
import { chats } from "../agent/chats.js";
import { toast } from "../parts/toast.js";

/** @typedef {import("../parts/diff.js").DiffLine} DiffLine */
/** @typedef {(text: string) => void} Insert */

const LONGEST_LINE = 200;
const MOST_CHATS = 30;

/**
 * What makes a form below each chosen line of a file.
 * @param {string} path
 * @param {Insert} [insert] puts the comment into the draft that is before one; else one chooses a chat
 * @returns {import("../parts/diff.js").OnLine}
 */
export function commentOn(path, insert) {
  return (line, node) => {
    if (!may("manager")) return;
    const code = node.parentElement;
    code?.querySelector(".comment")?.remove();
    const form = commentForm(path, line, insert, () => {
      form.remove();
      code?.focus({ preventScroll: true });
    });
    node.after(form);
    form.querySelector("textarea")?.focus();
  };
}

/**
 * @param {string} path
 * @param {DiffLine} line
 * @param {Insert | undefined} insert
 * @param {() => void} close
 */
function commentForm(path, line, insert, close) {
  const text = el("textarea", { class: "input", rows: 2, "aria-label": `Comment on line ${line.number}`,
    placeholder: "What should the agent know or do about this line?" });
  const target = insert ? null : chatChoice();
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!text.value.trim()) return;
    const said = describe(path, line, text.value.trim());
    if (insert) insert(said);
    else if (target) addToDraft(target.value, said);
    close();
    if (insert) toast("The comment is added to the draft");
  };
  return el("form", { class: "comment", onsubmit: submit, onkeydown: (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  } }, text,
  el("div", { class: "acts" }, target ? el("label", { class: "to" }, el("span", null, "Draft of"), target) : el("span", { class: "grow" }),
    el("button", { class: "btn small", type: "button", onclick: close }, "Cancel"),
    el("button", { class: "btn main small" }, "Add to the draft")));
}

/** The chats, the one that was commented for last first. */
function chatChoice() {
  const last = /** @type {string} */ (store.read("comment chat", ""));
  const recent = [...chats.peek().values()].sort((one, other) => other.updatedAt.localeCompare(one.updatedAt)).slice(0, MOST_CHATS);
  const isOffered = recent.some((chat) => String(chat.chatId) === last);
  const chosen = isOffered ? last : last === "new" || !recent[0] ? "new" : String(recent[0].chatId);
  const choice = el("select", { class: "input" },
    el("option", { value: "new" }, "A new chat"), recent.map((chat) => el("option", { value: String(chat.chatId) }, chat.title)));
  choice.value = chosen;
  return choice;
}

/**
 * @param {string} draft such as `17`, or `new`
 * @param {string} text
 */
function addToDraft(draft, text) {
  const name = `draft ${draft}`;
  const before = /** @type {string} */ (store.read(name, ""));
  store.write(name, before ? `${before.trimEnd()}\n\n${text}` : text);
  store.write("comment chat", draft);
  const title = chats.peek().get(Number(draft))?.title ?? "the new chat";
  toast(`Added to the draft of ${title}`, { action: "Open", onaction: () => void navigate(draft === "new" ? "/" : `/${draft}`) });
}

/**
 * @param {string} path
 * @param {DiffLine} line
 * @param {string} comment
 */
function describe(path, line, comment) {
  const shown = line.text.length > LONGEST_LINE ? `${line.text.slice(0, LONGEST_LINE)}…` : line.text;
  const removed = line.kind === "-" ? " (removed)" : "";
  return `${path}:${line.number}${removed}\n> ${shown}\n${comment}`;
}
