/** Text of a model: Markdown that the daemon has rendered and cleaned, or as plain as it came. */

import { ApiError, post } from "../core/api.js";
import { el, fill, icon } from "../core/el.js";
import { effect, onEnd } from "../core/signals.js";
import { showHtml } from "../core/trusted.js";
import { colour } from "./code.js";
import { toast } from "./toast.js";

/** Characters that are shown of a reply's open end, of one block, and of all its closed blocks. */
const MOST_OPEN = 20_000;
const MOST_BLOCK = 20_000;
const MOST_CLOSED = 60_000;

/**
 * A whole text. Without `html` it is shown as it is until the daemon has rendered it.
 * @param {string} text
 * @param {string | null | undefined} html
 * @param {boolean} [cut] whether `html` is of its beginning only
 */
export function prose(text, html, cut = false) {
  const node = el("div", { class: "prose", dir: "auto" });
  if (html) {
    showHtml(node, html);
    finish(node);
    const showAll = () => fill(node, el("p", { class: "asis" }, text));
    if (cut) node.append(el("button", { class: "btn small", onclick: showAll }, "Show all as plain text"));
  } else {
    fill(node, plain(text));
    void render(text).then((rendered) => rendered && node.isConnected && (showHtml(node, rendered), finish(node)));
  }
  return node;
}

/**
 * A reply that is a value, by the schema of its prompt: as JSON that can be read.
 * @param {object} value
 */
export function structured(value) {
  const node = el("div", { class: "prose", dir: "ltr" },
    el("pre", null, el("code", { class: "language-json" }, JSON.stringify(value, null, 2))));
  finish(node);
  return node;
}

/**
 * A reply that grows: closed blocks are rendered, one call at a time; the open end is plain text.
 * Of a very long one its end is shown, until it is whole.
 * @param {() => string} read
 */
export function growingProse(read) {
  const done = el("div", { class: "blocks" });
  const tail = el("p", { class: "tail" });
  const node = el("div", { class: "prose growing", dir: "auto", "aria-hidden": "true" }, done, tail);
  let taken = 0;
  /** @type {number[]} */
  let sizes = [];
  let frame = 0;
  let busy = false;
  let text = "";

  async function renderClosed() {
    const end = closedUpTo(text, taken);
    if (busy || end <= taken) return;
    busy = true;
    const start = taken;
    const block = text.slice(start, end);
    const shown = endOf(block, MOST_BLOCK);
    const html = await render(shown);
    busy = false;
    if (taken !== start || !text.startsWith(block, start)) return draw();
    const piece = el("div", { class: "block" });
    if (html) {
      showHtml(piece, html);
      finish(piece);
    } else {
      fill(piece, plain(shown));
    }
    done.append(piece);
    sizes.push(shown.length);
    while (sizes.reduce((sum, size) => sum + size, 0) > MOST_CLOSED) {
      sizes.shift();
      done.firstElementChild?.remove();
    }
    taken = end;
    draw();
  }

  function draw() {
    frame = 0;
    tail.textContent = endOf(text.slice(taken).replace(/^\n+/, ""), MOST_OPEN);
    void renderClosed();
  }

  effect(() => {
    const now = read();
    if (!now.startsWith(text.slice(0, taken))) {
      taken = 0;
      sizes = [];
      done.replaceChildren();
    }
    text = now;
    frame ||= requestAnimationFrame(draw);
  });
  onEnd(() => cancelAnimationFrame(frame));
  return node;
}

/**
 * Up to where a growing text consists of whole blocks: a blank line outside a fence ends one.
 * @param {string} text
 * @param {number} from
 */
export function closedUpTo(text, from) {
  let end = from;
  let fence = "";
  let at = from;
  while (at < text.length) {
    const next = text.indexOf("\n", at);
    if (next < 0) break;
    const line = text.slice(at, next);
    const mark = /^ {0,3}(```+|~~~+)/.exec(line)?.[1] ?? "";
    if (!fence && mark) fence = mark;
    else if (fence && mark.startsWith(fence) && !line.trim().slice(mark.length)) fence = "";
    at = next + 1;
    if (!fence && !line.trim() && at > from + 1) end = at;
  }
  return end;
}

/**
 * @param {string} text
 * @param {number} most
 */
function endOf(text, most) {
  return text.length > most ? `…${text.slice(-most)}` : text;
}

/** @param {string} text */
async function render(text) {
  try {
    return /** @type {string} */ ((await post("/api/render", { text })).html);
  } catch (error) {
    if (error instanceof ApiError) return "";
    throw error;
  }
}

/**
 * Text with its fenced code as code, and nothing else understood.
 * @param {string} text
 */
function plain(text) {
  return text.split(/^(```[^\n]*\n[\s\S]*?(?:\n```|$(?![\s\S])))/m).filter((part) => part.trim()).map((part) => part.startsWith("```")
    ? el("pre", { tabindex: 0 }, el("code", null, part.replace(/^```[^\n]*\n/, "").replace(/\n```$/, "")))
    : el("p", { class: "asis" }, part.trim()));
}

/**
 * Add what HTML from elsewhere may not bring: buttons that copy code, links that open outside, the direction of lists.
 * @param {Element} node
 */
function finish(node) {
  for (const link of node.querySelectorAll("a[href]")) {
    link.setAttribute("target", "_blank");
    link.setAttribute("rel", "noopener noreferrer");
  }
  for (const part of node.querySelectorAll("ul, ol, blockquote, table")) part.setAttribute("dir", "auto");
  for (const block of node.querySelectorAll("pre")) {
    const code = block.querySelector("code");
    if (code) colour([code], /language-([\w+#-]+)/.exec(code.className)?.[1] ?? "");
    block.setAttribute("tabindex", "0");
    const copy = el("button", { class: "btn plain icon small copy", "aria-label": "Copy this code",
      onclick: () => void copyText(block.textContent ?? "") }, icon("copy"));
    const box = el("div", { class: "codebox" });
    block.replaceWith(box);
    box.append(block, copy);
  }
  for (const table of node.querySelectorAll("table")) {
    const box = el("div", { class: "tablebox", tabindex: 0 });
    table.replaceWith(box);
    box.append(table);
  }
}

/** @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("This browser does not allow copying here", { kind: "bad" });
  }
}
