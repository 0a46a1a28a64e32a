/** Long lists: only the rows near what is seen are in the document. All rows are of one height. */

import { onEnd } from "../core/signals.js";

const BEYOND = 20;
/** Browsers show nothing beyond some thirty million pixels. */
const MOST_PIXELS = 15_000_000;

/**
 * Show the rows of a list in `body`, which lies in `scroller`.
 * @param {{ scroller: HTMLElement, body: HTMLElement, count: () => number, height: () => number,
 *   render: (index: number) => HTMLElement }} options
 * @returns {{ update: () => void, toEnd: () => void }} `update`: what the rows show has changed
 */
export function windowed({ scroller, body, count, height, render }) {
  body.classList.add("windowed");
  /** @type {Map<number, HTMLElement>} */
  let made = new Map();
  let frame = 0;

  function update() {
    made = new Map();
    body.replaceChildren();
    show();
  }

  /** Make the rows that come into sight, and remove the others; those that stay keep the focus. */
  function show() {
    const row = height();
    const all = Math.min(count(), Math.floor(MOST_PIXELS / row));
    const above = Math.max(0, scroller.scrollTop - offsetOf(body, scroller));
    const first = Math.max(0, Math.min(Math.floor(above / row) - BEYOND, all - 1));
    const last = Math.min(all, Math.ceil((above + scroller.clientHeight) / row) + BEYOND);
    /** @type {Map<number, HTMLElement>} */
    const next = new Map();
    for (let index = first; index < last; index++) next.set(index, made.get(index) ?? render(index));
    for (const [index, node] of made) if (!next.has(index)) node.remove();
    body.style.height = `${all * row}px`;
    body.style.paddingTop = `${first * row}px`;
    let at = body.firstElementChild;
    for (const node of next.values()) {
      if (node === at) at = at.nextElementSibling;
      else body.insertBefore(node, at);
    }
    made = next;
  }

  const soon = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(show);
  };
  const resized = new ResizeObserver(soon);
  resized.observe(scroller);
  scroller.addEventListener("scroll", soon, { passive: true });
  onEnd(() => {
    cancelAnimationFrame(frame);
    resized.disconnect();
  });
  return {
    update,
    toEnd: () => {
      scroller.scrollTop = scroller.scrollHeight;
      show();
    },
  };
}

/**
 * @param {HTMLElement} body
 * @param {HTMLElement} scroller
 */
function offsetOf(body, scroller) {
  return body.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop;
}
