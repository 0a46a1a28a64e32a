/** Where the focus goes when what has it is replaced, as by a list that is read again. */

/**
 * Remember what has the focus.
 * @returns {() => void} gives the focus back if what had it is gone: to what is called the same, or is in its place
 */
export function rememberFocus() {
  const focused = document.activeElement;
  if (!(focused instanceof HTMLElement)) return () => {};
  const [tag, name] = [focused.tagName, nameOf(focused)];
  /** @type {{ around: HTMLElement, place: number }[]} */
  const places = []; // within a page: another page has nothing that is in its place
  for (let around = focused.parentElement; around && around.id !== "main"; around = around.parentElement) {
    places.push({ around, place: [...around.querySelectorAll(tag)].indexOf(focused) });
  }
  return () => {
    if (focused.isConnected || document.activeElement !== document.body) return;
    const left = places.find(({ around }) => around.isConnected);
    if (!left) return;
    const all = /** @type {HTMLElement[]} */ ([...left.around.querySelectorAll(tag)]);
    const found = all.find((element) => nameOf(element) === name) ?? all[Math.min(left.place, all.length - 1)];
    (found ?? /** @type {HTMLElement | null} */ (left.around.closest("[tabindex]")))?.focus({ preventScroll: true });
  };
}

/**
 * Leave the focus where it is in a node whose content is about to be replaced.
 * @param {HTMLElement} node
 */
export function keepFocus(node) {
  if (node.contains(document.activeElement)) queueMicrotask(rememberFocus());
}

/** @param {Element} element */
function nameOf(element) {
  return element.getAttribute("aria-label") ?? element.getAttribute("name") ?? element.textContent?.trim() ?? "";
}
