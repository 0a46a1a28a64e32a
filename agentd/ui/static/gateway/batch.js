/** Several rows of a list chosen with checkboxes, and what can be done with all of them: one change, one undo. */

import { call, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { counted } from "../core/counts.js";
import { signal } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";
import { toast, toastError } from "../parts/toast.js";
import { labelled, sendForm } from "../settings/frame.js";

/** @typedef {"enable" | "disable" | "delete"} Action */
/** @typedef {{ changed: string[], unchanged: string[], change: number | null }} Outcome */

const WORDS = /** @type {Record<Action, [string, string]>} */ ({
  enable: ["Enable", "enabled"], disable: ["Disable", "disabled"], delete: ["Delete", "deleted"],
});
const MOST_NAMED = 100;

/**
 * The choice of a list's rows.
 * @template T
 * @param {{ resource: string, noun: string, id: (item: T) => string, title: (item: T) => string, reload: () => void,
 *   tagged?: boolean }} options
 *   `noun`: in the singular; `tagged`: whether they carry tags
 */
export function selection({ resource, noun, id, title, reload, tagged = false }) {
  const isOn = signal(false);
  /** The titles of the chosen rows, by id. */
  const chosen = signal(/** @type {ReadonlyMap<string, string>} */ (new Map()));
  /** Rises when rows are chosen otherwise than by their boxes, which are then shown anew. */
  const shown = signal(0);
  const end = () => {
    isOn.value = false;
    chosen.value = new Map();
  };

  /** @param {readonly T[]} items */
  function bar(items) {
    if (!isOn.value) {
      return items.length > 1
        ? el("p", { class: "batch-bar" },
          el("button", { class: "btn small plain", onclick: () => (isOn.value = true) }, icon("check"), "Select several"))
        : null;
    }
    const all = () => {
      chosen.value = new Map(items.map((item) => [id(item), title(item)]));
      shown.value++;
    };
    const none = () => !chosen.value.size;
    return el("div", { class: "batch-bar on", role: "toolbar", "aria-label": `Actions for the selected ${noun}s` },
      el("b", { role: "status" }, () => `${chosen.value.size} selected`),
      el("button", { class: "btn small plain", onclick: all }, "Select all shown"),
      el("span", { class: "grow" }),
      /** @type {Action[]} */ (["enable", "disable", "delete"]).map((action) =>
        el("button", { class: "btn small", changes: "administrator", disabled: none, onclick: () => void ask(action) }, WORDS[action][0])),
      tagged
        ? el("button", { class: "btn small", changes: "administrator", disabled: none, onclick: () => void askTags() }, "Tags…")
        : null,
      el("button", { class: "btn small plain", onclick: end }, "Done"));
  }

  /**
   * A row with a checkbox in front of its name, while rows are being chosen.
   * @param {T} item @param {HTMLElement} row
   */
  function withBox(item, row) {
    if (!isOn.value) return row;
    const change = (/** @type {Event} */ event) => {
      const next = new Map(chosen.peek());
      if (/** @type {HTMLInputElement} */ (event.target).checked) next.set(id(item), title(item));
      else next.delete(id(item));
      chosen.value = next;
    };
    const isChosen = chosen.peek().has(id(item));
    const box = el("input", { type: "checkbox", "aria-label": `Select ${title(item)}`, checked: isChosen, onchange: change });
    row.querySelector(".name")?.prepend(el("label", { class: "choose-row" }, box));
    return row;
  }

  /** @param {Action} action */
  async function ask(action) {
    const names = [...chosen.peek().keys()];
    const path = `/api/agent/${resource}/batch`;
    /** @type {Outcome} */
    let plan;
    try {
      plan = await post(`${path}?dry_run=true`, { action, names });
    } catch (error) {
      return toastError(error);
    }
    const [label, done] = WORDS[action];
    if (!plan.changed.length) return void toast(`All of them are ${done} already`);
    const titles = plan.changed.map((name) => chosen.peek().get(name) ?? name);
    await openDialog(`${label} ${counted(titles.length, noun)}?`, (close) => {
      const send = async () => {
        const outcome = /** @type {Outcome} */ (await post(path, { action, names }));
        close();
        end();
        reload();
        toast(`${counted(outcome.changed.length, noun)} ${done}`,
          outcome.change === null ? {} : { action: "Undo", onaction: () => void undo(outcome.change ?? 0) });
      };
      return [sendForm({ action: label, danger: action === "delete", oncancel: () => close(), send },
        el("ul", { class: "batch-names" }, titles.slice(0, MOST_NAMED).map((name) => el("li", null, el("bdi", null, name))),
          titles.length > MOST_NAMED ? el("li", null, `and ${titles.length - MOST_NAMED} more`) : null),
        plan.unchanged.length
          ? el("p", { class: "quiet" }, `${counted(plan.unchanged.length, noun)} of the chosen: ${done} already.`)
          : null,
        el("p", null, "All or none of them, as one change that can be undone."))];
    });
  }

  /** Add tags to the chosen ones, or remove some from them. */
  async function askTags() {
    const names = [...chosen.peek().keys()];
    await openDialog(`Tags of ${counted(names.length, noun)}`, (close) => {
      const field = el("textarea", { class: "input mono", rows: 3, required: true, autofocus: true });
      const way = el("select", { class: "input" }, el("option", { value: "tag" }, "add"), el("option", { value: "untag" }, "remove"));
      const send = async () => {
        const tags = field.value.split("\n").map((line) => line.trim()).filter(Boolean);
        const outcome = /** @type {Outcome} */ (await post(`/api/agent/${resource}/batch`, { action: way.value, names, tags }));
        close();
        end();
        reload();
        toast(`${counted(outcome.changed.length, noun)} changed`,
          outcome.change === null ? {} : { action: "Undo", onaction: () => void undo(outcome.change ?? 0) });
      };
      return [sendForm({ action: "Save", oncancel: () => close(), send },
        labelled("What to do", way), labelled("Tags", field, "One per line. Budgets count the keys with a tag together."),
        el("ul", { class: "batch-names" },
          [...chosen.peek().values()].slice(0, MOST_NAMED).map((name) => el("li", null, el("bdi", null, name)))),
        el("p", null, "All or none of them, as one change that can be undone."))];
    });
  }

  /** @param {number} number */
  async function undo(number) {
    try {
      await call("POST", `/api/agent/changes/${number}/undo`);
      toast("It is undone");
    } catch (error) {
      toastError(error);
    }
    reload();
  }

  return { isOn, shown, bar, withBox };
}
