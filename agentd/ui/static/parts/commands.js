/** The custom commands that complete a prompt which begins with a slash. */

import { ApiError, get } from "../core/api.js";
import { el } from "../core/el.js";
import { loadStyle } from "./stylesheet.js";

await loadStyle("commands");

/** @typedef {import("../api.d.ts").CommandView} Command */
/** @typedef {ReturnType<typeof completeCommands>} Commands */

const BEGUN = /^\/([\w.:/-]*)$/;
const FRESH = 10_000;
let lists = 0;

/**
 * The list over a prompt's text; `update` follows the text, `takes` is asked about each key first.
 * @param {HTMLTextAreaElement} input
 * @param {string} chatId of the chat whose commands these are; empty: of the workspace
 * @param {() => void} changed called when a command was put into the text
 */
export function completeCommands(input, chatId, changed) {
  const id = `commands-${++lists}`;
  const node = el("ul", { class: "commands", role: "listbox", id, "aria-label": "Commands", hidden: true });
  /** @type {readonly Command[]} */
  let known = [];
  /** @type {readonly Command[]} */
  let shown = [];
  let readAt = -Infinity;
  let chosen = 0;
  /** The text for which the list was closed. */
  let closedFor = "";

  const load = async () => {
    if (performance.now() - readAt < FRESH) return;
    readAt = performance.now();
    try {
      known = (await get(`/api/commands${chatId ? `?chatId=${chatId}` : ""}`)).commands;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
    render(shown[chosen]?.name);
  };
  const close = () => {
    node.hidden = true;
    shown = [];
    input.removeAttribute("aria-controls");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = () => {
    for (const [index, option] of [...node.children].entries()) option.setAttribute("aria-selected", String(index === chosen));
    node.children[chosen]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `${id}-${chosen}`);
  };
  const render = (/** @type {string | undefined} */ kept = undefined) => {
    const begun = BEGUN.exec(input.value)?.[1]?.replaceAll("/", ":").toLowerCase();
    if (begun === undefined || input.value === closedFor || document.activeElement !== input) return close();
    shown = rank(known, begun);
    if (!shown.length) return close();
    chosen = Math.max(0, shown.findIndex((command) => command.name === kept));
    node.replaceChildren(...shown.map((command, index) => el("li", {
      role: "option", id: `${id}-${index}`, title: command.path,
      onpointerdown: (event) => event.preventDefault(),
      onclick: () => choose(command),
    },
    el("span", { class: "name" }, `/${command.name}`,
      command.argumentHint ? el("span", { class: "wanted" }, ` ${command.argumentHint}`) : null),
    el("small", null, command.description))));
    node.hidden = false;
    input.setAttribute("aria-controls", id);
    mark();
  };
  const choose = (/** @type {Command} */ command) => {
    input.value = `/${command.name} `;
    input.setSelectionRange(input.value.length, input.value.length);
    close();
    changed();
    input.focus();
  };
  input.setAttribute("aria-autocomplete", "list");
  input.addEventListener("blur", close);
  return {
    node,
    update: () => {
      if (input.value !== closedFor) closedFor = "";
      if (input.value.startsWith("/")) void load();
      render();
    },
    /** @param {KeyboardEvent} event @returns {boolean} whether the key was for the list */
    takes: (event) => {
      const command = shown[chosen];
      if (!command || event.ctrlKey || event.metaKey || event.altKey) return false;
      switch (event.key) {
        case "ArrowDown":
        case "ArrowUp":
          chosen = (chosen + (event.key === "ArrowDown" ? 1 : shown.length - 1)) % shown.length;
          mark();
          break;
        case "Escape":
          closedFor = input.value;
          close();
          event.stopPropagation();
          break;
        case "Enter":
          if (event.shiftKey || input.value === `/${command.name}`) return false;
          choose(command);
          break;
        case "Tab":
          if (event.shiftKey) return false;
          choose(command);
          break;
        default:
          return false;
      }
      event.preventDefault();
      return true;
    },
  };
}

/**
 * The commands that fit what was typed: first those whose names begin so, then those that contain it.
 * @param {readonly Command[]} commands
 * @param {string} begun in lower case
 */
function rank(commands, begun) {
  const fitting = commands.filter((one) => one.name.toLowerCase().includes(begun));
  const place = (/** @type {Command} */ one) => Number(!one.name.toLowerCase().startsWith(begun));
  return fitting.sort((one, other) => place(one) - place(other));
}
