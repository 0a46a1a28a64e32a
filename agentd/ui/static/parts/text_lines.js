/** A text file as numbered lines; only those near what is seen are in the document. */

import { el } from "../core/el.js";
import { onEnd } from "../core/signals.js";
import { colour } from "./code.js";

const CHUNK = 200;
const LINE_HEIGHT = 20;

/**
 * @param {string} text
 * @param {{ label: string, language: string, line?: number, stays?: boolean }} options
 *   `line` is marked, and brought into view unless what is in view `stays`
 */
export function textLines(text, { label, language, line = 0, stays = false }) {
  const lines = text.replace(/\n$/, "").split("\n");
  const code = el("div", { class: "code whole", tabindex: 0, role: "group", "aria-label": label });
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) target.replaceChildren();
      else if (!target.firstChild) fillChunk(target);
    }
  }, { rootMargin: "1000px" });
  onEnd(() => watcher.disconnect());
  const fillChunk = (/** @type {Element} */ chunk) => {
    const from = Number(/** @type {HTMLElement} */ (chunk).dataset["from"]);
    chunk.append(...lines.slice(from, from + CHUNK).map((words, index) => {
      const number = from + index + 1;
      return el("div", { class: number === line ? "l numbered at" : "l numbered", id: `L${number}` },
        el("span", null, number), el("span", null, words));
    }));
    colour(chunk.querySelectorAll(".l > :last-child"), language);
  };
  for (let from = 0; from < lines.length; from += CHUNK) {
    const chunk = el("div", { class: "chunk", "data-from": from });
    chunk.style.minBlockSize = `${Math.min(CHUNK, lines.length - from) * LINE_HEIGHT}px`;
    code.append(chunk);
    watcher.observe(chunk);
  }
  code.addEventListener("click", (event) => {
    const number = event.target instanceof Element ? Number(event.target.closest(".l")?.id.slice(1) ?? 0) : 0;
    if (!number || !getSelection()?.isCollapsed) return;
    code.querySelector(".l.at")?.classList.remove("at");
    code.querySelector(`#L${number}`)?.classList.add("at");
    line = number;
  });
  if (!stays && line > 0 && line <= lines.length) {
    const from = Math.floor((line - 1) / CHUNK);
    requestAnimationFrame(() => {
      const chunk = code.children[from];
      if (chunk && !chunk.firstChild) fillChunk(chunk);
      code.querySelector(`#L${line}`)?.scrollIntoView({ block: "center" });
    });
  }
  return code;
}
