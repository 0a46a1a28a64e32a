/** Lists whose rows keep their nodes while the items around them change. */

import { detached, effect, onEnd, signal, untracked } from "./signals.js";

/**
 * Show an item in each row; rows are identified by their keys, and are moved instead of rebuilt.
 * @template T
 * @param {HTMLElement} parent
 * @param {() => readonly T[]} items read by an effect
 * @param {(item: T) => string | number} keyOf
 * @param {(item: import("./signals.js").ReadonlySignal<T>) => HTMLElement} render
 */
export function list(parent, items, keyOf, render) {
  /** @typedef {{ item: import("./signals.js").Signal<T>, node: HTMLElement, end: () => void }} Row */
  /** @type {Map<string | number, Row>} */
  let rows = new Map();
  effect(() => {
    const given = items();
    untracked(() => {
      /** @type {Map<string | number, Row>} */
      const next = new Map();
      for (const item of given) {
        const key = keyOf(item);
        const row = rows.get(key);
        if (row) {
          row.item.value = item;
          next.set(key, row);
        } else if (!next.has(key)) {
          next.set(key, make(item));
        }
      }
      for (const [key, row] of rows) if (next.get(key) !== row) remove(row);
      place([...next.values()].map((row) => row.node));
      rows = next;
    });
  });
  onEnd(() => rows.forEach(remove));

  /** @param {T} item */
  function make(item) {
    const held = signal(item);
    const [node, end] = detached(() => render(held));
    return { item: held, node, end };
  }

  /** @param {Row} row */
  function remove(row) {
    row.end();
    row.node.remove();
  }

  /** @param {HTMLElement[]} nodes the one with the focus stays: moved, it would lose it, and the pointer that drags it */
  function place(nodes) {
    const held = nodes.find((node) => node.contains(document.activeElement));
    let at = parent.firstElementChild;
    for (const node of nodes) {
      while (node === held && at && at !== held) {
        const next = at.nextElementSibling;
        held.after(at);
        at = next;
      }
      if (node === at) at = at.nextElementSibling;
      else parent.insertBefore(node, at);
    }
  }
}
