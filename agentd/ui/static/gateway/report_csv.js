/** A report as a CSV file of all its rows: the API gives them page by page, all of one count. */

import { getText } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { count } from "../core/counts.js";
import { onEnd, signal } from "../core/signals.js";
import { toast, toastError } from "../parts/toast.js";

/** Rows of a file; more than any report has that people read. */
const MOST = 100_000;

/**
 * @param {string} path
 * @param {Record<string, unknown>} query
 * @param {(rows: number) => void} onprogress
 * @param {AbortSignal} abort
 */
async function readCsv(path, query, onprogress, abort) {
  const parts = [];
  let [cursor, name, rows] = ["", "", 0];
  do {
    const { text, headers } = await getText(path, { ...query, format: "csv", cursor }, abort);
    const [head = "", ...lines] = text.split(/(?<=\r\n)(?=[^\r\n])/);
    if (!parts.length && head) parts.push(head);
    parts.push(...lines);
    rows += lines.length;
    onprogress(rows);
    name ||= /filename="([^"]+)"/.exec(headers.get("Content-Disposition") ?? "")?.[1] ?? "report.csv";
    cursor = new URL(/<([^>]*)>/.exec(headers.get("Link") ?? "")?.[1] ?? "", location.origin).searchParams.get("cursor") ?? "";
  } while (cursor && rows < MOST);
  return { text: parts.join(""), name, isWhole: !cursor };
}

/**
 * @param {string} path of the report
 * @param {() => Record<string, unknown>} query
 */
export function csvButton(path, query) {
  const progress = signal(-1);
  const abort = new AbortController();
  onEnd(() => abort.abort());
  const download = async () => {
    if (progress.peek() >= 0) return;
    progress.value = 0;
    try {
      const { text, name, isWhole } = await readCsv(path, query(), (rows) => (progress.value = rows), abort.signal);
      const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      el("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      if (!isWhole) toast(`The file has the first ${count(MOST)} rows only: narrow the report down for others`);
    } catch (error) {
      if (!abort.signal.aborted) toastError(error, () => void download());
    }
    progress.value = -1;
  };
  return el("button", { class: "btn", "aria-label": "Download as CSV", disabled: () => progress.value >= 0,
    onclick: () => void download() }, icon("download"),
    () => (progress.value > 0 ? count(progress.value) : "CSV"));
}
