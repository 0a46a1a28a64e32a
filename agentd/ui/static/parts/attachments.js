/**
 * Files that go with a prompt: uploaded at once into the folder that the agent reads, and named in the
 * prompt when it is sent. Those that are there are kept with the draft.
 */

import { ApiError, get, remove } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { list } from "../core/list.js";
import { size as sizeText } from "../core/counts.js";
import { computed, onEnd, signal } from "../core/signals.js";
import * as store from "../core/store.js";
import { upload } from "../core/upload.js";
import { loadStyle } from "./stylesheet.js";
import { toast } from "./toast.js";

await loadStyle("attachments");

/**
 * @typedef {{ key: number, name: string, size: number, part: number, path: string, stored: string, failed: string,
 *   file: File | null, pasted: boolean }} Attachment
 *   `part`: how much has left, from 0 to 1; `path` and `stored`: where it is, and its name there, once it is
 */

/** @typedef {ReturnType<typeof attachments>} Attachments */

let keys = 0;
/** Bytes of a file that the daemon takes; 0 before it is known. */
let largest = 0;

/**
 * The files of a draft.
 * @param {string} draft
 */
export function attachments(draft) {
  const name = draftFiles(draft);
  const files = signal(/** @type {readonly Attachment[]} */ (store.read(name, /** @type {any[]} */ ([])).map((kept) => (
    { ...kept, key: ++keys, part: 1, failed: "", file: null, pasted: false }))));
  /** @type {Map<number, AbortController>} */
  const running = new Map();
  let ended = false;
  const count = computed(() => files.value.length);
  const busy = computed(() => files.value.some((one) => !one.path && !one.failed));
  const failed = computed(() => files.value.some((one) => one.failed));

  /** @param {readonly Attachment[]} next */
  function change(next) {
    files.value = next;
    const kept = next.filter((one) => one.path).map(({ name: title, size, path, stored }) => ({ name: title, size, path, stored }));
    store.write(name, kept.length ? kept : null);
  }

  /** @param {number} key @param {Partial<Attachment>} changes */
  const update = (key, changes) => change(files.peek().map((one) => (one.key === key ? { ...one, ...changes } : one)));

  /**
   * Attach files, one after the other.
   * @param {Iterable<File>} given
   * @param {boolean} [pasted] as pictures are that never had a name
   */
  async function add(given, pasted = false) {
    const fresh = [...given].map((file) => ({
      key: ++keys, name: file.name, size: file.size, part: 0, path: "", stored: "", failed: "", file, pasted,
    }));
    change([...files.peek(), ...fresh]);
    for (const one of fresh) await send(one);
  }

  /** @param {Attachment} one */
  async function send({ key, file, pasted }) {
    if (ended || !file || !files.peek().some((known) => known.key === key)) return;
    const abort = new AbortController();
    running.set(key, abort);
    try {
      largest ||= (await get("/api/files")).maxFileBytes;
      abort.signal.throwIfAborted();
      if (file.size > largest) throw new ApiError(413, "TooLarge", `Larger than ${sizeText(largest)}`);
      const form = new FormData();
      form.append("file", file);
      const { files: [stored] } = await upload(pasted ? "/api/files/clipboard" : "/api/files", pasted ? file : form,
        { signal: abort.signal, onprogress: (part) => update(key, { part }) });
      update(key, { path: stored.path, stored: stored.name, name: stored.name, part: 1, file: null });
    } catch (error) {
      if (abort.signal.aborted) return;
      if (!(error instanceof ApiError)) reportError(error);
      if (error instanceof ApiError) update(key, { failed: error.message, ...(mayWork(error) ? {} : { file: null }) });
      else update(key, { failed: "This file cannot be read", file: null });
    } finally {
      running.delete(key);
    }
  }

  /** @param {Attachment} one */
  function retry(one) {
    update(one.key, { failed: "", part: 0 });
    void send({ ...one, failed: "" });
  }

  /** @param {Attachment} one */
  function drop(one) {
    running.get(one.key)?.abort();
    change(files.peek().filter((other) => other.key !== one.key));
    if (one.stored) remove(`/api/files/${encodeURIComponent(one.stored)}`).catch(() => {}); // it stays in the folder, as others do
  }

  /** What the prompt says of them; from now on they belong to it. */
  function take() {
    const paths = files.peek().filter((one) => one.path).map((one) => `- ${one.path}`);
    change([]);
    return paths.length ? `Attached files:\n${paths.join("\n")}` : "";
  }

  onEnd(() => {
    ended = true;
    running.forEach((abort) => abort.abort());
    const lost = files.peek().filter((one) => !one.path && !one.failed);
    if (lost.length) {
      toast(`${lost.length === 1 ? "A file was" : `${lost.length} files were`} not attached`,
        { details: `Still on the way as the chat was left: ${lost.map((one) => one.name || "a picture").join(", ")}` });
    }
  });
  onEnd(store.onChange(name, () => {
    if (running.size) return;
    const failures = files.peek().filter((one) => one.failed);
    const kept = store.read(name, /** @type {any[]} */ ([]))
      .map((one) => ({ ...one, key: ++keys, part: 1, failed: "", file: null, pasted: false }));
    files.value = [...kept, ...failures];
  }));
  const node = el("ul", { class: "attached", "aria-label": "Attached files", hidden: () => !files.value.length });
  list(node, () => files.value, (one) => one.key, (one) => row(one, retry, drop));
  return { node, add, take, count, busy, failed };
}

/**
 * Whether the same file may be taken when it is sent again: what is too large or of a kind that is refused stays so.
 * @param {ApiError} error
 */
function mayWork({ status }) {
  return status === 0 || status === 429 || status >= 500;
}

/**
 * Under which name the files of a draft are kept.
 * @param {string} draft
 */
export function draftFiles(draft) {
  return `files ${draft}`;
}

/**
 * @param {import("../core/signals.js").ReadonlySignal<Attachment>} one
 * @param {(one: Attachment) => void} retry
 * @param {(one: Attachment) => void} drop
 */
function row(one, retry, drop) {
  return el("li", { class: () => `attachment${one.value.failed ? " bad" : ""}` },
    icon("file"), el("span", { class: "name", dir: "auto" }, () => one.value.name || "Picture"),
    () => one.value.failed ? el("small", { role: "alert" }, one.value.failed)
      : one.value.path ? el("small", null, sizeText(one.value.size))
        : el("progress", { max: 1, value: () => one.value.part, "aria-label": () => `Sending ${one.value.name}` }),
    () => (one.value.failed && one.value.file
      ? el("button", { class: "btn plain small", onclick: () => retry(one.peek()) }, "Retry") : null),
    el("button", { class: "btn plain icon small", "aria-label": () => `Remove ${one.value.name || "the picture"}`,
      onclick: () => drop(one.peek()) }, icon("close")));
}
