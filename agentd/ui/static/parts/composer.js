/**
 * Where a prompt is written. It is never locked, and what was typed is kept until it is sent. Files
 * go with it, and it can be dictated; what does that is loaded once it is wanted.
 */

import { may } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { computed, detached, effect, onEnd, signal, untracked } from "../core/signals.js";
import * as store from "../core/store.js";

/** @typedef {import("../core/el.js").Single} Single */
/** @typedef {import("./attachments.js").Attachments} Attachments */
/** @typedef {import("./commands.js").Commands} Commands */

const KEEP_AFTER = 300;
const canDictate = window.isSecureContext && "mediaDevices" in navigator && "MediaRecorder" in window;

/**
 * @param {{ draft: string, placeholder: string, tools?: Single[], note?: () => string, label?: string,
 *   onsend: (text: string, now: boolean, notBefore: string) => void, autofocus?: boolean, chatId?: string }} options
 *   `draft`: the name under which the text is kept; `note`: where the prompt will go; `chatId`: the chat
 *   whose custom commands complete the text, else those of the workspace do
 * @returns {{ node: HTMLElement, input: HTMLTextAreaElement, insert: (text: string) => void }}
 */
export function composer({ draft, placeholder, tools = [], note, label = "Prompt", onsend, autofocus = false, chatId = "" }) {
  const kept = keepDraft(`draft ${draft}`);
  const empty = signal(true);
  const files = fileHolder(draft);
  /** Whether to send once the files are there, and how. */
  const waits = signal(/** @type {{ now: boolean, notBefore: string } | null} */ (null));
  const input = el("textarea", { class: "draft", rows: 1, placeholder, "aria-label": label, enterkeyhint: "send", value: kept.read(),
    autofocus, dir: "auto" });

  const commands = commandHolder(input, chatId, () => edited());
  const changed = () => {
    empty.value = !input.value.trim();
    commands.follow();
    if (!CSS.supports("field-sizing", "content")) {
      input.style.height = "auto";
      input.style.height = `${input.scrollHeight}px`;
    }
  };
  const edited = () => {
    waits.value = null;
    changed();
    kept.change(input.value);
  };
  const submit = (now = false, notBefore = "") => {
    if ((!input.value.trim() && !files.count.peek()) || !may("manager")) return;
    if (files.busy.peek()) {
      waits.value = { now, notBefore };
      return;
    }
    if (files.failed.peek()) return;
    const text = [input.value.trim(), files.take()].filter(Boolean).join("\n\n");
    input.value = "";
    waits.value = null;
    kept.forget();
    changed();
    onsend(text, now, notBefore);
  };
  effect(() => {
    const wish = waits.value;
    if (wish && !files.busy.value) untracked(() => submit(wish.now, wish.notBefore));
  });
  kept.follow(input, changed);
  input.addEventListener("input", edited);
  input.addEventListener("keydown", (event) => {
    if (commands.takes(event)) return;
    if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
    const touch = matchMedia("(hover: none)").matches;
    if (touch && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    submit(event.ctrlKey || event.metaKey);
  });
  changed();
  const insert = (/** @type {string} */ text) => {
    input.value = input.value ? `${input.value.trimEnd()}\n${text}` : text;
    edited();
    input.focus();
  };
  const insertHere = (/** @type {string} */ text) => {
    const before = input.value.slice(0, input.selectionStart);
    input.setRangeText(before && !/\s$/.test(before) ? ` ${text}` : text, input.selectionStart, input.selectionEnd, "end");
    edited();
    input.focus();
  };
  const state = () => {
    if (waits.value) return "is sent once the files are there";
    return files.failed.value ? "a file is not there: retry or remove it" : note?.() ?? "";
  };
  const unready = () => (empty.value && !files.count.value) || files.failed.value;
  const submitLater = async () => {
    const { askLater } = await import("./later.js");
    const moment = await askLater();
    if (moment) submit(false, moment);
    else input.focus();
  };
  if (!may("manager")) return { node: el("p", { class: "nothing" }, "Your role reads only: a manager may send prompts."), input, insert };
  const speech = el("div", { class: "speech" });
  const node = el("div", { class: "composer" }, commands.node, speech, files.node, input,
    el("div", { class: "tools" }, attachButton(files.add), canDictate ? dictateButton(speech, input, insertHere) : null, tools,
      el("span", { class: "grow" }),
      el("span", { class: () => `state${waits.value || files.failed.value ? "" : " not-phone"}` }, state),
      el("button", { class: "btn plain icon small", type: "button", "aria-label": "Send later…", title: "Send later…", hidden: unready,
        onclick: () => void submitLater() }, icon("clock")),
      el("button", { class: "send", "aria-label": "Send", disabled: unready, onclick: () => submit() }, icon("send"))));
  node.addEventListener("click", (event) => {
    if (event.target === node || event.target === node.lastElementChild) input.focus();
  });
  takeFiles(node, input, files.add);
  return { node, input, insert };
}

/**
 * The text of a draft: written down while it changes, and taken over from other tabs.
 * @param {string} name
 */
function keepDraft(name) {
  /** What is written down, as far as this tab knows. */
  let known = store.read(name, "");
  let text = known;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const save = () => {
    clearTimeout(timer);
    if (text === known) return;
    known = text;
    store.write(name, text || null);
  };
  return {
    read: () => known,
    change: (/** @type {string} */ next) => {
      text = next;
      clearTimeout(timer);
      timer = setTimeout(save, KEEP_AFTER);
    },
    forget: () => {
      text = "";
      save();
    },
    /** @param {HTMLTextAreaElement} input @param {() => void} changed */
    follow: (input, changed) => {
      const take = () => {
        const next = store.read(name, "");
        if (text !== known || next === known || (document.hasFocus() && document.activeElement === input)) return;
        known = text = input.value = next;
        changed();
      };
      onEnd(store.onChange(name, take));
      onEnd(save);
      input.addEventListener("blur", () => {
        save();
        take();
      });
    },
  };
}

/**
 * The files of a draft; their module is loaded with the first.
 * @param {string} draft
 */
function fileHolder(draft) {
  const node = el("div");
  const loaded = signal(/** @type {Attachments | null} */ (null));
  /** @type {Promise<Attachments> | null} */
  let loading = null;
  let end = () => {};
  onEnd(() => end());
  const load = () => (loading ??= import("./attachments.js").then(({ attachments }) => {
    const [made, finish] = detached(() => attachments(draft));
    end = finish;
    node.append(made.node);
    return (loaded.value = made);
  }));
  if (store.read(`files ${draft}`, null)) void load();
  return {
    node,
    add: async (/** @type {Iterable<File>} */ given, pasted = false) => (await load()).add(given, pasted),
    take: () => loaded.peek()?.take() ?? "",
    count: computed(() => loaded.value?.count.value ?? 0),
    busy: computed(() => loaded.value?.busy.value ?? false),
    failed: computed(() => loaded.value?.failed.value ?? false),
  };
}

/**
 * The commands that complete a text; their module is loaded with the first slash.
 * @param {HTMLTextAreaElement} input
 * @param {string} chatId
 * @param {() => void} changed
 */
function commandHolder(input, chatId, changed) {
  const node = el("div");
  /** @type {Commands | null} */
  let made = null;
  let isLoading = false;
  const load = async () => {
    isLoading = true;
    const { completeCommands } = await import("./commands.js");
    made = completeCommands(input, chatId, changed);
    node.append(made.node);
    made.update();
  };
  return {
    node,
    follow: () => {
      if (made) made.update();
      else if (!isLoading && input.value.startsWith("/")) void load();
    },
    takes: (/** @type {KeyboardEvent} */ event) => made?.takes(event) ?? false,
  };
}

/** @param {(given: Iterable<File>) => void} add */
function attachButton(add) {
  const picker = el("input", { type: "file", multiple: true, hidden: true, tabindex: -1, "aria-label": "Files" });
  picker.addEventListener("change", () => {
    void add([...(picker.files ?? [])]);
    picker.value = "";
  });
  return el("span", { class: "loaded" }, picker,
    el("button", { class: "btn plain icon small", type: "button", "aria-label": "Attach files", title: "Attach files",
      onclick: () => picker.click() }, icon("attach")));
}

/**
 * @param {HTMLElement} holder
 * @param {HTMLTextAreaElement} input
 * @param {(text: string) => void} insert
 */
function dictateButton(holder, input, insert) {
  const busy = signal(false);
  const left = new AbortController();
  onEnd(() => left.abort());
  const start = async () => {
    busy.value = true;
    try {
      await (await import("./dictation.js")).dictate(holder, insert, left.signal);
    } finally {
      busy.value = false;
      if (document.activeElement === document.body) input.focus();
    }
  };
  return el("button", { class: "btn plain icon small", changes: "manager", type: "button", "aria-label": "Dictate", title: "Dictate",
    disabled: () => busy.value, onclick: () => void start() }, icon("microphone"));
}

/**
 * Take files that are pasted into the text, or dropped anywhere on the page.
 * @param {HTMLElement} node
 * @param {HTMLTextAreaElement} input
 * @param {(given: Iterable<File>, pasted?: boolean) => void} add
 */
function takeFiles(node, input, add) {
  input.addEventListener("paste", (event) => {
    const given = [...(event.clipboardData?.files ?? [])];
    if (!given.length || event.clipboardData?.types.includes("text/plain")) return;
    event.preventDefault();
    // What was never a file is called image.png by browsers; the daemon names it by the clock.
    const pictures = given.filter((file) => file.type.startsWith("image/") && /^image\.\w+$/.test(file.name));
    if (pictures.length) void add(pictures, true);
    const others = given.filter((file) => !pictures.includes(file));
    if (others.length) void add(others);
  });
  const seen = new AbortController();
  onEnd(() => seen.abort());
  const over = (/** @type {DragEvent} */ event, /** @type {boolean} */ isOver) => {
    if (!event.dataTransfer?.types.includes("Files")) return false;
    event.preventDefault();
    node.classList.toggle("over", isOver);
    return true;
  };
  addEventListener("dragover", (event) => over(event, true), { signal: seen.signal });
  addEventListener("dragleave", (event) => event.relatedTarget === null && over(event, false), { signal: seen.signal });
  addEventListener("drop", (event) => {
    if (!over(event, false) || !event.dataTransfer) return;
    const folders = [...event.dataTransfer.items].filter((item) => item.webkitGetAsEntry()?.isDirectory).length;
    const given = [...event.dataTransfer.items].filter((item) => item.kind === "file" && !item.webkitGetAsEntry()?.isDirectory)
      .flatMap((item) => item.getAsFile() ?? []);
    if (given.length) void add(given);
    if (folders) void import("./toast.js").then(({ toast }) => toast("Folders are not taken: drop the files that are in them"));
    input.focus();
  }, { signal: seen.signal });
}
