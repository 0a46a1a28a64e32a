/** Chooses among many labels: a filter, and no more rows than can be looked through. */

import { canChange } from "../core/api.js";
import { el } from "../core/el.js";
import { foldText } from "../core/folding.js";
import { list } from "../core/list.js";
import { computed, signal } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";
import { toastError } from "../parts/toast.js";
import { chats, labels, readChat } from "./chats.js";
import { labelsOf, toggleLabel } from "./labels.js";

const AT_ONCE = 50;

/** @param {number} chatId */
export function pickLabels(chatId) {
  if (!chats.peek().has(chatId)) readChat(chatId).catch(toastError);
  const mine = computed(() => labelsOf(chatId));
  const first = new Set(mine.peek()); // they stay where they are while one chooses
  return openDialog("Labels", () => {
    const wanted = signal("");
    const found = computed(() => {
      const matching = labels.value.filter(({ name }) => foldText(name).includes(wanted.value));
      return [...matching.filter(({ name }) => first.has(name)), ...matching.filter(({ name }) => !first.has(name))];
    });
    const rows = el("ul", { class: "label-choices", "aria-label": "Labels" });
    list(rows, () => found.value.slice(0, AT_ONCE), ({ name }) => name, (label) => {
      const { name } = label.peek();
      const mark = el("i");
      mark.style.background = label.peek().color;
      return el("li", null, el("label", null,
        el("input", { type: "checkbox", changes: "manager", checked: () => mine.value.includes(name),
          onchange: () => void toggleLabel(chatId, name) }),
        el("span", { class: "chip" }, mark, name)));
    });
    const filter = el("input", { class: "input", type: "search", autofocus: true, "aria-label": "Filter labels",
      placeholder: `Filter ${labels.peek().length} labels`,
      oninput: (/** @type {any} */ event) => (wanted.value = foldText(event.target.value.trim())) });
    const body = el("div", { class: "stack" }, filter, rows, el("p", { class: "nothing", role: "status" }, () => {
      if (!found.value.length) return "No label matches.";
      return found.value.length > AT_ONCE ? `${found.value.length - AT_ONCE} more: type to find` : "";
    }));
    body.addEventListener("keydown", (event) => {
      const fields = /** @type {HTMLInputElement[]} */ ([filter, ...rows.querySelectorAll("input")]);
      const at = fields.indexOf(/** @type {HTMLInputElement} */ (event.target));
      const to = event.key === "ArrowDown" ? fields[at + 1] : event.key === "ArrowUp" ? fields[at - 1] : undefined;
      const name = found.peek()[Math.max(0, at - 1)]?.name;
      if (to) to.focus();
      else if (event.key === "Enter" && name !== undefined && canChange()) void toggleLabel(chatId, name);
      else return;
      event.preventDefault();
    });
    return [body];
  });
}
