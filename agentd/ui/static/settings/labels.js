/** The labels by which chats are sorted: their names, their colours, and how many chats have each. */

import { get, may, post, put, remove } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { counted } from "../core/counts.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { emptyState, loaded } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { toastError } from "../parts/toast.js";
import { colorDot, colorField } from "./colors.js";
import { beginEdit } from "./edits.js";
import { card, follow, labelled, listView, longList, sendForm, settingsPage } from "./frame.js";

/** @typedef {{ name: string, color: string, chats: number }} Label */

/** @returns {import("../core/router.js").Page} */
export function page() {
  const mayChange = may("manager");
  const view = listView();
  const read = loaded(() => get("/api/chat-labels"), ({ labels }) => (labels.length
    ? longList(labels, (label) => label.name, labelRow, "labels", view)
    : emptyState("tag", "No labels yet", "A label sorts chats by what they are about, such as bug or docs.",
      mayChange ? addButton() : null)));
  const reload = () => void read.reload();
  follow(["labelsUpdate"], reload);
  return settingsPage("Labels", card({
    title: "Labels", text: "Labels are set in a chat's menu, and filter the list of chats. They are in labels.yml.",
    actions: [mayChange ? addButton() : null],
  }, read.node));

  function addButton() {
    return el("button", { class: "btn main", changes: "manager", onclick: () => void edit(null, reload) }, icon("plus"), "Add a label");
  }

  /** @param {Label} label */
  function labelRow(label) {
    return el("li", null,
      el("span", { class: "name" }, colorDot(label.color), el("b", null, el("bdi", null, label.name))),
      el("small", null, counted(label.chats, "chat")),
      mayChange
        ? el("span", { class: "ends" },
          menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${label.name}` }, [icon("more")], () => [
            { label: "Edit", icon: "pencil", changes: "manager",
              onselect: () => void edit(label, reload, (color) => void recolor(label, color)) },
            { label: "Delete", icon: "trash", danger: true, changes: "manager", onselect: () => void drop(label) },
          ]))
        : null);
  }

  /** @param {Label} label */
  async function drop(label) {
    const sure = await confirm({
      title: `Delete ${label.name}?`, text: `It is taken off ${counted(label.chats, "chat")}; the chats stay.`,
      action: "Delete", danger: true,
    });
    if (!sure) return;
    try {
      await read.change(
        ({ labels }) => ({ labels: labels.filter((/** @type {Label} */ one) => one.name !== label.name) }), () => remove(at(label)));
    } catch (error) {
      toastError(error, () => void drop(label));
    }
  }

  /**
   * Show another colour at once, and the one before when the daemon refuses it.
   * @param {Label} label
   * @param {string} color
   */
  async function recolor(label, color) {
    try {
      await read.change(
        ({ labels }) => ({ labels: labels.map((/** @type {Label} */ one) => (one.name === label.name ? { ...one, color } : one)) }),
        () => put(at(label), { name: label.name, color }));
    } catch (error) {
      toastError(error, () => void recolor(label, color));
    }
  }
}

/** @param {Label} label */
function at(label) {
  return `/api/chat-labels/${encodeURIComponent(label.name)}`;
}

/**
 * @param {Label | null} label null: a new one
 * @param {() => void} done
 * @param {(color: string) => void} [recolor] what sends a colour alone
 */
function edit(label, done, recolor) {
  return openDialog(label ? `Edit ${label.name}` : "Add a label", (close) => {
    const name = el("input", { name: "name", class: "input", value: label?.name ?? "", autofocus: true, required: true, maxlength: 40,
      autocomplete: "off" });
    const color = colorField(label?.color ?? "#3a6ed6");
    const typed = () => ({ name: name.value.trim(), color: color.value() });
    const merge = label && beginEdit(typed(), label);
    const send = async () => {
      if (!label || !merge) {
        await post("/api/chat-labels", typed());
      } else {
        const { labels } = await get("/api/chat-labels");
        const wanted = merge(typed(), labels.find((/** @type {Label} */ one) => one.name === label.name) ?? {});
        if (recolor && wanted["name"] === label.name) {
          close();
          recolor(wanted["color"]);
          return;
        }
        await put(at(label), wanted);
      }
      close();
      done();
    };
    return [sendForm({ action: label ? "Save" : "Add", oncancel: () => close(), send },
      labelled("Name", name, label ? "Chats with this label get its new name, too." : "Up to 40 letters, digits and blanks."), color.node)];
  });
}
