/** The list of a kind of resource: found by name, some hundred rows at a time, read again when something changes. */

import { get, post, remove } from "../core/api.js";
import { el } from "../core/el.js";
import { query } from "../core/router.js";
import { signal } from "../core/signals.js";
import { ask, confirm } from "../parts/dialog.js";
import { toast, toastError } from "../parts/toast.js";
import { selection } from "./batch.js";
import { following, part, shown } from "./frame.js";
import { learnZone } from "./today.js";

const AT_ONCE = 100;

/**
 * @template T
 * @param {{ resource: string, noun: string, row: (item: T) => HTMLElement, empty: () => HTMLElement, every?: number,
 *   events?: readonly string[], also?: (abort: AbortSignal) => Promise<unknown>, head?: (also: any) => HTMLElement | null,
 *   batch?: { noun: string, tagged?: boolean, id: (item: T) => string, title: (item: T) => string } }} options
 *   `also`: what is read with each page, for the rows; `batch`: how rows are named that are changed together
 */
export function resourceList({ resource, noun, row, empty, every = 0, events = [], also, head, batch }) {
  const name = signal(query.peek().get("name") ?? "");
  const most = signal(AT_ONCE);
  /** What is looked for, once one has stopped typing. */
  const wanted = signal(name.peek());
  const readRows = async (/** @type {AbortSignal} */ abort) => {
    /** @type {T[]} */
    const items = [];
    let cursor = "";
    do {
      const page = await get(`/api/agent/${resource}`, { limit: AT_ONCE, cursor, name: wanted.peek() }, abort);
      items.push(...page.items);
      learnZone(page.items[0]?.spent?.zone);
      cursor = page.next;
    } while (cursor && items.length < most.peek());
    return { items, next: cursor, name: wanted.peek() };
  };
  const reading = following(async (abort) => {
    const [rows, more] = await Promise.all([readRows(abort), also?.(abort)]);
    return { ...rows, more };
  }, { every, events, asked: () => wanted.value });
  const picked = batch ? selection({ ...batch, resource, reload: () => void reading.reload() }) : null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  const find = (/** @type {Event} */ event) => {
    name.value = /** @type {HTMLInputElement} */ (event.target).value.trim();
    clearTimeout(soon);
    soon = setTimeout(() => (wanted.value = name.peek()), 200);
  };
  const filter = el("input", { class: "input filter", type: "search", value: name.peek(), placeholder: `Find ${noun} by name`,
    "aria-label": `Find ${noun} by name`, oninput: find });
  const node = shown(reading, (found) => el("div", { class: "loaded" },
    () => (head ? head(found.value.more) : null),
    () => (found.value.next || found.value.name || found.value.items.length > 12 || name.value ? filter : null),
    picked ? part(() => ({ items: found.value.items, isOn: picked.isOn.value }), ({ items }) => picked.bar(items)) : null,
    part(() => ({ ...found.value, isOn: picked?.isOn.value, all: picked?.shown.value }), (now) => now.items.length
      ? el("ul", { class: "rows" }, now.items.map((item) => picked ? picked.withBox(item, row(item)) : row(item)))
      : now.name ? el("p", { class: "none" }, `No ${noun} with this in the name.`) : empty()),
    () => (found.value.next ? el("button", { class: "btn more-rows", onclick: () => {
      most.value += AT_ONCE;
      void reading.reload();
    } }, `Show ${AT_ONCE} more`) : null)));
  return { node, reload: () => void reading.reload(), reading };
}

/**
 * Do something to a resource, say that it is done, and read again.
 * @param {() => Promise<unknown>} action
 * @param {string} said
 * @param {() => void} reload
 */
export async function act(action, said, reload) {
  try {
    await action();
    toast(said);
  } catch (error) {
    toastError(error, () => void act(action, said, reload));
  }
  reload();
}

/**
 * The items of every resource's menu.
 * @param {{ path: string, name: string, enabled: boolean, reload: () => void, gone?: () => void, copies?: boolean,
 *   copied?: (name: string) => void, removeText: string, removable?: boolean }} one
 * @returns {import("../parts/menu.js").Items}
 */
export function usualItems({ path, name, enabled, reload, gone = reload, copies = true, copied, removeText, removable = true }) {
  const copy = async () => {
    const made = await ask({ title: `Copy ${name}`, label: "Name of the copy", value: `${name}-2`, action: "Copy" });
    if (made) await act(() => post(`${path}/copy`, { name: made }), `${name} is copied`, () => (copied ? copied(made) : reload()));
  };
  const drop = async () => {
    const sure = await confirm({ title: `Delete ${name}?`, text: removeText, action: "Delete", danger: true });
    if (!sure) return;
    try {
      await remove(path);
      toast(`${name} is deleted; Changes can undo it`);
      gone();
    } catch (error) {
      toastError(error);
    }
  };
  return [
    { label: enabled ? "Disable" : "Enable", icon: enabled ? "pause" : "play", changes: "administrator",
      onselect: () => void act(() => post(`${path}/${enabled ? "disable" : "enable"}`),
        `${name} is ${enabled ? "disabled" : "enabled"}`, reload) },
    copies && { label: "Copy", icon: "copy", changes: "administrator", onselect: () => void copy() },
    removable && { label: "Delete", icon: "trash", danger: true, changes: "administrator", onselect: () => void drop() },
  ];
}
