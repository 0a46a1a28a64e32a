/** What a program writes, as it writes it: any number of lines, followed while its end is seen. */

import { beginningOf } from "../core/counts.js";
import { el, icon } from "../core/el.js";
import { onEnd, signal } from "../core/signals.js";
import { windowed } from "./windowed.js";

const LINE = 19;
/** Lines that are kept; the first go. */
const MOST_LINES = 500_000;
/** Characters of a line that are shown. */
const MOST_CHARACTERS = 2000;
/** Colours and other control sequences; the same as the daemon's `plain=true` leaves out. */
const ESCAPES = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]+[0-~]|\x1b[@-Z\\-_]/g;

/**
 * @typedef {{ node: HTMLElement, write: (text: string) => void, reset: () => void,
 *   lines: import("../core/signals.js").ReadonlySignal<number> }} Output
 */

/**
 * @param {string} label
 * @returns {Output}
 */
export function outputView(label) {
  /** The last one may be unfinished. */
  let lines = [""];
  let dropped = 0;
  let following = true;
  let before = 0;
  let frame = 0;
  const total = signal(0);
  /** Lines that came while somebody read further up. */
  const unseen = signal(0);

  const body = el("div", { class: "lines" });
  const scroller = el("div", { class: "output-scroll", tabindex: 0, role: "region", "aria-label": label }, body);
  const node = el("div", { class: "output-view" }, scroller,
    () => (unseen.value ? el("button", { class: "btn small jump", onclick: jump }, icon("down"),
      `${unseen.value.toLocaleString("en")} new ${unseen.value === 1 ? "line" : "lines"}`) : null));
  const view = windowed({ scroller, body, count: shownLines, height: () => LINE, render: renderLine });

  scroller.addEventListener("scroll", () => {
    if (isAtEnd()) {
      following = true;
      unseen.value = 0;
    } else if (scroller.scrollTop < before) {
      following = false;
    }
    before = scroller.scrollTop;
  }, { passive: true });
  const resized = new ResizeObserver(() => following && view.toEnd());
  resized.observe(scroller);
  onEnd(() => {
    cancelAnimationFrame(frame);
    resized.disconnect();
  });

  function shownLines() {
    return lines.length - (lines.at(-1) === "" ? 1 : 0);
  }

  function isAtEnd() {
    return scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - LINE;
  }

  /** @param {number} index */
  function renderLine(index) {
    return el("div", { class: "line" }, el("span", { class: "number", "aria-hidden": "true" }, index + 1 + dropped),
      el("span", { class: "said" }, readable(lines[index] ?? "")));
  }

  function jump() {
    following = true;
    unseen.value = 0;
    scroller.focus();
    view.toEnd();
  }

  function refresh() {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      view.update();
      if (following) view.toEnd();
      total.value = shownLines() + dropped;
    });
  }

  return {
    node,
    lines: total,
    write(text) {
      if (!text) return;
      const known = shownLines();
      const parts = text.split("\n");
      lines[lines.length - 1] += parts[0] ?? "";
      for (let index = 1; index < parts.length; index++) lines.push(parts[index] ?? "");
      if (!following) unseen.value += shownLines() - known;
      if (lines.length > MOST_LINES) {
        dropped += lines.length - MOST_LINES;
        lines = lines.slice(-MOST_LINES);
      }
      refresh();
    },
    reset() {
      lines = [""];
      dropped = 0;
      following = true;
      unseen.value = 0;
      refresh();
    },
  };
}

/**
 * A line without control sequences, as a terminal would show it: what a carriage return goes back
 * over is replaced by what follows.
 * @param {string} line
 */
function readable(line) {
  const near = line.includes("\r") ? line.slice(-8 * MOST_CHARACTERS) : line.slice(0, 8 * MOST_CHARACTERS);
  const bare = near.replace(ESCAPES, "").replace(/\r+$/, "");
  const text = bare.slice(bare.lastIndexOf("\r") + 1);
  return text.length <= MOST_CHARACTERS
    ? text
    : `${beginningOf(text, MOST_CHARACTERS)} … ${(line.length - MOST_CHARACTERS).toLocaleString("en")} more characters`;
}
