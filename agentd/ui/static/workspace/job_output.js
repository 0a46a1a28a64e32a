/** The output of a build or a deployment: read once, then followed without a gap or a doubled byte. */

import { ApiError, address, getText } from "../core/api.js";
import { el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { onEnd, signal } from "../core/signals.js";
import { failure } from "../parts/frame.js";
import { outputView } from "../parts/output.js";

/** @typedef {{ name: string, run: string, text: string, skipped: number, offset: number, end: number }} News */

/** Milliseconds between two readings of what the events passed over. */
const PAUSE = 1000;

/**
 * Show the output of a job.
 * @param {{ name: string, path: string, event: string, resumes: boolean }} source `path` of the
 *   API; `resumes`: it can be read from an offset on
 * @returns {{ node: HTMLElement, reload: () => void }}
 */
export function jobOutput({ name, path, event, resumes }) {
  const view = outputView(`Output of ${name}`);
  const failed = signal(/** @type {unknown} */ (null));
  const url = `${path}/${encodeURIComponent(name)}`;
  const abort = new AbortController();
  /** Bytes up to which it is shown; null while it is being read. */
  let known = /** @type {number | null} */ (null);
  let run = "";
  /** @type {News[]} */
  let waiting = [];
  let reading = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  async function reload() {
    const ours = ++reading;
    known = null;
    clearTimeout(timer);
    try {
      const { text, headers } = await getText(url, {}, abort.signal);
      if (ours !== reading) return;
      view.reset();
      run = "";
      accept(text, Number(headers.get("X-Output-Next")));
      failed.value = null;
    } catch (error) {
      if (abort.signal.aborted || ours !== reading) return;
      if (!(error instanceof ApiError)) reportError(error);
      failed.value = error;
    }
  }

  /**
   * @param {string} text
   * @param {number} end
   */
  function accept(text, end) {
    view.write(text);
    known = end;
    const news = waiting;
    waiting = [];
    news.forEach(take);
  }

  /** @param {News} news */
  function take(news) {
    if (known === null) return void waiting.push(news);
    const restarted = run !== "" && news.run !== run;
    run = news.run;
    if (restarted && (!resumes || news.end < known)) return void reload();
    if (news.end <= known) return undefined;
    if (news.offset > known) {
      if (resumes) return void readOn();
      view.write(`\n[… ${(news.offset - known).toLocaleString("en")} bytes passed over while it ran]\n`);
    }
    const bytes = news.offset < known ? new TextEncoder().encode(news.text).slice(known - news.offset) : null;
    view.write(bytes ? new TextDecoder().decode(bytes) : news.text);
    known = news.end;
    return undefined;
  }

  /** Read what the events passed over. */
  function readOn() {
    const offset = known;
    const ours = ++reading;
    known = null;
    timer = setTimeout(async () => {
      try {
        const { text, headers } = await getText(url, { offset }, abort.signal);
        if (ours !== reading) return;
        const begin = Number(headers.get("X-Output-Offset"));
        if (offset !== null && begin > offset) view.write(`\n[… ${(begin - offset).toLocaleString("en")} bytes are no longer kept]\n`);
        accept(text, Number(headers.get("X-Output-Next")));
      } catch {
        if (!abort.signal.aborted && ours === reading) void reload();
      }
    }, PAUSE);
  }

  void reload();
  const endings = [
    live.on(event, (/** @type {News} */ news) => news.name === name && take(news)),
    live.onInterruption((isGap) => void (isGap || !resumes || failed.peek() ? reload() : known === null || readOn())),
  ];
  onEnd(() => {
    abort.abort();
    clearTimeout(timer);
    endings.forEach((end) => end());
  });
  const download = address(url, { plain: true });
  const node = el("section", { class: "box job-output", "aria-label": "Output" },
    el("header", null, icon("terminal"), el("h3", null, "Output"), el("span", { class: "grow" }),
      el("span", { class: "num" }, () => `${view.lines.value.toLocaleString("en")} ${view.lines.value === 1 ? "line" : "lines"}`),
      el("a", { class: "btn plain icon small", href: download, download: `${name}.log`, "aria-label": "Download the output",
        title: "Download" }, icon("download"))),
    () => (failed.value ? failure(failed.value, () => void reload()) : null), view.node);
  return { node, reload: () => void reload() };
}
