/**
 * The prompts that wait, on top of the composer: edited, ordered by hand, mouse or keys, paused and
 * removed. What is edited or dragged is paused on the daemon meanwhile, so it is not sent half-done.
 */

import { ApiError, call, callTagged, canChange, post, remove } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { list } from "../core/list.js";
import { counted } from "../core/money.js";
import { computed, effect, signal } from "../core/signals.js";
import { clockTime, comingTime, fullTime } from "../core/time.js";
import { discard, outbox, send, sendAgain } from "../agent/outbox.js";
import { menuButton } from "./menu.js";
import { toast, toastError } from "./toast.js";

/** @typedef {import("../agent/chat_data.js").Prompt} Prompt */
/** @typedef {import("../agent/chat_data.js").ChatData} ChatData */

/** Pixels from an edge of the list within which what is dragged scrolls it, and by how many in each frame. */
const EDGE = 24;
const STEP = 8;

/**
 * @param {ChatData} chat
 * @param {{ sendNow: (promptId: number) => void }} actions
 */
export function queuePanel(chat, { sendNow }) {
  const path = `/api/MessageQueue/${chat.chatId}`;
  const editing = signal(0);
  const folded = signal(matchMedia("(max-width: 720px)").matches);
  /** The order while one drags; null: as the daemon has it. */
  const order = signal(/** @type {readonly Prompt[] | null} */ (null));
  const prompts = computed(() => order.value ?? chat.queue.value);
  const mine = computed(() => outbox.value.filter((one) => one.chatId === chat.chatId));
  const held = computed(() => chat.work.value?.held ?? "");

  /**
   * Show a change at once, and take it back when the daemon refuses it.
   * @param {readonly Prompt[]} shown
   * @param {() => Promise<any>} request
   */
  async function change(shown, request) {
    const before = chat.queue.peek();
    chat.queue.value = shown;
    try {
      const answer = await request();
      if (answer?.prompts) chat.queue.value = answer.prompts;
    } catch (error) {
      if (chat.queue.peek() === shown) chat.queue.value = before;
      if (error instanceof ApiError && error.status === 404) toast("This prompt has been sent already");
      else toastError(error, () => void change(shown, request));
    }
  }
  const replace = (/** @type {Prompt} */ prompt) => chat.queue.peek().map((one) => (one.id === prompt.id ? prompt : one));

  const pause = (/** @type {Prompt} */ prompt, /** @type {boolean} */ isPaused) =>
    change(replace({ ...prompt, isPaused }), () => post(`${path}/${prompt.id}/${isPaused ? "pause" : "resume"}`));

  /** @param {Prompt} prompt @param {string} notBefore empty: no time */
  const setTime = (prompt, notBefore) => change(replace({ ...prompt, notBefore: notBefore || null }), async () => {
    await call("PUT", `${path}/${prompt.id}`, { body: { notBefore } });
  });

  /** @param {Prompt} prompt */
  async function postpone(prompt) {
    const { askLater } = await import("./later.js");
    const moment = await askLater(prompt.notBefore ?? "");
    if (moment) await setTime(prompt, moment);
  }

  /** @param {Prompt} prompt @param {number} position @param {Promise<unknown>} [before] what is awaited first */
  function move(prompt, position, before = Promise.resolve()) {
    const others = chat.queue.peek().filter((one) => one.id !== prompt.id);
    const at = Math.max(0, Math.min(position, others.length));
    return change(others.toSpliced(at, 0, prompt), () => before.then(() => post(`${path}/${prompt.id}/move`, { position: at })));
  }

  /** @param {Prompt} prompt */
  async function drop(prompt) {
    const position = chat.queue.peek().findIndex((one) => one.id === prompt.id);
    await change(chat.queue.peek().filter((one) => one.id !== prompt.id), () => remove(`${path}/${prompt.id}`));
    toast("Removed from the queue", { action: "Undo", onaction: () => void putBack(prompt, position).catch(toastError) });
  }

  /** It is paused until it has its place again, so that it is not sent before those that it stood behind. */
  async function putBack(/** @type {Prompt} */ prompt, /** @type {number} */ position) {
    const { id } = await post(`/api/chat/${chat.chatId}/send`, {
      prompt: prompt.prompt, isPaused: true, ...(prompt.model ? { model: prompt.model } : {}),
      ...(prompt.notBefore ? { notBefore: prompt.notBefore } : {}), ...demandOf(prompt),
    });
    await post(`${path}/${id}/move`, { position });
    if (!prompt.isPaused) await post(`${path}/${id}/resume`);
  }

  /** @param {Prompt} prompt */
  async function edit(prompt) {
    typed = base = prompt.prompt;
    model = prompt.model;
    demand = demandOf(prompt);
    paused = prompt.isPaused;
    editing.value = prompt.id;
    if (!paused) await pause(prompt, true);
  }
  /** Of the prompt that is edited: whether it was paused before, its model, its schema, its text then, and what is typed by now. */
  let paused = false;
  let model = "";
  /** @type {{ outputSchema?: object }} */
  let demand = {};
  let base = "";
  let typed = "";

  /** @param {Prompt} prompt @param {string} text */
  async function finish(prompt, text) {
    if (!canChange()) return;
    const before = base;
    editing.value = 0;
    if (text && text !== before) await change(replace({ ...prompt, prompt: text }), () => rewrite(prompt.id, before, text));
    const now = chat.queue.peek().find((one) => one.id === prompt.id);
    if (!paused && now) await pause(now, false);
  }

  /**
   * Replace a text; when another has replaced it meanwhile, the person sees both, and chooses.
   * @param {number} id
   * @param {string} before what it was when one began
   * @param {string} text
   * @returns {Promise<any>}
   */
  async function rewrite(id, before, text) {
    const { body, etag } = await callTagged("GET", path);
    const now = body.prompts.find((/** @type {Prompt} */ one) => one.id === id);
    if (!now) {
      await sentMeanwhile(before, text);
      return body;
    }
    if (now.prompt !== before && now.prompt !== text) {
      const { chooseVersion } = await import("./conflict.js");
      const choice = await chooseVersion({
        title: "This prompt was edited elsewhere", text: "Another tab or person has saved a different text since you began.",
        mine: { label: "Yours", text, action: "Save mine" }, theirs: { label: "Saved elsewhere", text: now.prompt, action: "Keep that" },
      });
      if (choice !== "mine") return body;
    }
    try {
      await call("PUT", `${path}/${id}`, { body: { prompt: text }, ifMatch: etag });
    } catch (error) {
      if (error instanceof ApiError && (error.status === 412 || error.status === 404)) return rewrite(id, now.prompt, text);
      throw error;
    }
    return null;
  }

  /**
   * The prompt has left the queue, so it cannot be changed any more: the edited one may follow it.
   * @param {string} before
   * @param {string} text
   */
  async function sentMeanwhile(before, text) {
    const { chooseVersion } = await import("./conflict.js");
    const choice = await chooseVersion({
      title: "This prompt was sent already", text: "It was sent, or removed, elsewhere while you edited it.",
      mine: { label: "Yours", text, action: "Queue mine as well" },
      theirs: { label: "What was in the queue", text: before, action: "Discard mine" },
    });
    if (choice === "mine") void send({ chatId: chat.chatId, text, model, ...demand });
  }

  const rows = el("ol", { "aria-label": "Prompts that wait" });
  list(rows, () => prompts.value, (prompt) => prompt.id, (prompt) => {
    const id = prompt.peek().id;
    const position = computed(() => prompts.value.findIndex((one) => one.id === id));
    /** @type {HTMLLIElement} */
    const node = el("li", { class: () => `wait${prompt.value.isPaused ? " paused" : ""}`, tabindex: -1 }, () => editing.value === id
      ? editor(prompt.peek(), finish, (text) => (typed = text))
      : [el("button", { class: "grip", changes: "manager", "aria-label": () => `Move prompt ${position.value + 1}: Alt and arrow keys`,
        onpointerdown: (/** @type {PointerEvent} */ event) => drag(event, node, id) }, icon("grip")),
      el("span", { class: "pos" }, () => position.value + 1),
      el("span", { class: "text", dir: "auto", title: () => prompt.value.prompt }, () => prompt.value.prompt, " ",
        () => (prompt.value.model ? el("span", { class: "chip" }, prompt.value.model) : null), " ",
        () => (prompt.value.notBefore ? el("span", { class: "chip", title: `Not before ${fullTime(prompt.value.notBefore)}` },
          `from ${comingTime(prompt.value.notBefore)}`) : null), " ",
        () => (prompt.value.outputSchema ? el("span", { class: "chip", title: "Its reply is JSON that fits a schema" }, "JSON") : null),
        " ", () => (prompt.value.isPaused ? el("span", { class: "chip" }, "paused") : null)),
      el("span", { class: "acts" },
        el("button", { class: "btn plain icon small", changes: "manager", "aria-label": () => (prompt.value.isPaused ? "Resume" : "Pause"),
          onclick: () => void pause(prompt.peek(), !prompt.peek().isPaused) },
          () => icon(prompt.value.isPaused ? "play" : "pause")),
        el("button", { class: "btn plain icon small not-phone", changes: "manager", "aria-label": "Edit",
          onclick: () => void edit(prompt.peek()) }, icon("pencil")),
        menuButton({ class: "btn plain icon small", changes: "manager", "aria-label": "More for this prompt" }, [icon("more")], () => [
          { label: "Edit", icon: "pencil", changes: "manager", onselect: () => void edit(prompt.peek()) },
          { label: "Send now", icon: "send", note: "Stops the running turn", changes: "manager", onselect: () => sendNow(id) },
          { label: prompt.peek().notBefore ? "Another time…" : "Send later…", icon: "clock", changes: "manager",
            onselect: () => void postpone(prompt.peek()) },
          prompt.peek().notBefore ? {
            label: "At its turn", icon: "calendar", note: "Without a time", changes: "manager",
            onselect: () => void setTime(prompt.peek(), ""),
          } : false,
          { label: "Move up", icon: "up", hint: "Alt ↑", disabled: position.peek() === 0, changes: "manager",
            onselect: () => void move(prompt.peek(), position.peek() - 1) },
          { label: "Move down", icon: "down", hint: "Alt ↓", disabled: position.peek() === prompts.peek().length - 1, changes: "manager",
            onselect: () => void move(prompt.peek(), position.peek() + 1) },
          null,
          { label: "Remove", icon: "trash", danger: true, changes: "manager", onselect: () => void drop(prompt.peek()) },
        ]))]);
    node.addEventListener("keydown", (event) => {
      const by = event.key === "ArrowUp" ? -1 : event.key === "ArrowDown" ? 1 : 0;
      if (!event.altKey || !by || !canChange()) return;
      event.preventDefault();
      event.stopPropagation();
      void move(prompt.peek(), position.peek() + by).then(() => /** @type {HTMLElement | null} */ (node.querySelector(".grip"))?.focus());
    });
    return node;
  });

  /**
   * @param {PointerEvent} event
   * @param {HTMLElement} node
   * @param {number} id
   */
  function drag(event, node, id) {
    if (event.button) return;
    const grip = /** @type {HTMLElement} */ (event.currentTarget);
    const prompt = chat.queue.peek().find((one) => one.id === id);
    if (!prompt) return;
    grip.setPointerCapture(event.pointerId);
    const wasPaused = prompt.isPaused;
    const from = chat.queue.peek().indexOf(prompt);
    let to = from;
    let moved = false;
    /** Whether it is paused now because it is dragged. */
    let paused = Promise.resolve(false);
    const start = event.clientY;
    let pointer = start;
    let frame = 0;
    const place = () => {
      const others = /** @type {HTMLElement[]} */ ([...rows.children]).filter((one) => one !== node);
      to = others.filter((one) => { const at = one.getBoundingClientRect(); return at.top + at.height / 2 < pointer; }).length;
      order.value = chat.queue.peek().filter((one) => one.id !== id).toSpliced(to, 0, prompt);
    };
    /** While the pointer is at an edge, also when it rests there, the rows beyond it come into sight. */
    const scrollOn = () => {
      frame = requestAnimationFrame(scrollOn);
      const box = rows.getBoundingClientRect();
      const before = rows.scrollTop;
      if (pointer > box.bottom - EDGE) rows.scrollTop += STEP;
      else if (pointer < box.top + EDGE) rows.scrollTop -= STEP;
      if (rows.scrollTop !== before) place();
    };
    /** @param {PointerEvent} now */
    const follow = (now) => {
      if (!moved && Math.abs(now.clientY - start) < 4) return;
      pointer = now.clientY;
      if (!moved) {
        moved = true;
        node.classList.add("lift");
        if (!wasPaused) paused = post(`${path}/${id}/pause`).then(() => true, (error) => (toastError(error), false));
        scrollOn();
      }
      place();
    };
    const end = async () => {
      cancelAnimationFrame(frame);
      grip.removeEventListener("pointermove", follow);
      grip.removeEventListener("lostpointercapture", end);
      node.classList.remove("lift");
      if (moved) {
        const placed = move(prompt, to, paused);
        order.value = null;
        await placed;
        if (await paused) await post(`${path}/${id}/resume`).catch(toastError);
      }
    };
    grip.addEventListener("pointermove", follow);
    grip.addEventListener("lostpointercapture", end);
  }

  const hold = () => void post(`${path}/hold`, {}).then(chat.refresh, toastError);
  const release = () => void post(`${path}/release`).then(chat.refresh, toastError);
  const waits = computed(() => prompts.value.length + mine.value.length);
  const isEmpty = () => !waits.value && !(held.value && chat.work.value?.state !== "completed");
  const node = el("div", { class: () => `queue${folded.value ? " folded" : ""}`, hidden: isEmpty },
    el("div", { class: "cap" },
      el("b", { class: "only-phone" }, () => `${waits.value} wait`),
      el("span", { class: "next only-phone" }, () => (prompts.value[0] ? `· ${prompts.value[0].prompt}` : "")),
      el("b", { class: "not-phone" }, "Next"),
      el("span", { class: "not-phone" }, () => caption(chat, waits.value)),
      el("span", { class: "grow not-phone" }),
      () => held.value
        ? el("button", { class: "btn plain small", changes: "manager", title: held.value, onclick: release }, icon("play"), "Continue")
        : el("button", { class: "btn plain small", changes: "manager", onclick: hold }, icon("pause"), "Hold all"),
      el("button", { class: "btn plain icon small only-phone", "aria-label": () => (folded.value ? "Show the queue" : "Fold the queue"),
        "aria-expanded": () => String(!folded.value), onclick: () => (folded.value = !folded.peek()) },
        () => icon(folded.value ? "down" : "up"))),
    rows,
    () => (mine.value.length ? el("ol", { class: "outbox", "aria-label": "Being sent" }, mine.value.map(outgoing)) : null));
  effect(() => {
    if (editing.value && !chat.queue.value.some((one) => one.id === editing.value)) {
      editing.value = 0;
      if (typed.trim() && typed.trim() !== base) void sentMeanwhile(base, typed.trim());
      else toast("The prompt that you edited has been sent, or removed, elsewhere");
    }
  });
  const editNext = () => {
    const first = chat.queue.peek()[0];
    if (first && canChange()) void edit(first);
  };
  return { node, editNext };
}

/** @param {Prompt} prompt @returns {{ outputSchema?: object }} */
function demandOf(prompt) {
  return prompt.outputSchema ? { outputSchema: prompt.outputSchema } : {};
}

/**
 * @param {ChatData} chat
 * @param {number} waits
 */
function caption(chat, waits) {
  const work = chat.work.value;
  if (work?.held) return `${counted(waits, "prompt")} on hold: ${work.held}`;
  if (work?.waitsUntil) return `${counted(waits, "prompt")}, from ${clockTime(work.waitsUntil)} on: ${work.waitsFor}`;
  const times = chat.queue.value.filter((one) => !one.isPaused).map((one) => one.notBefore ?? "");
  if (times.length && times.every(Boolean))
    return `${counted(waits, "prompt waits", "prompts wait")}, from ${comingTime(times.sort()[0] ?? "")} on`;
  return `${counted(waits, "prompt waits", "prompts wait")}${chat.working.value ? " for this turn to end" : ""}`;
}

/** @param {import("../agent/outbox.js").Outgoing} entry */
function outgoing(entry) {
  return el("li", { class: "wait sending" }, el("span", { class: "text", dir: "auto" }, entry.text),
    entry.failed
      ? el("span", { class: "acts" }, el("span", { class: "state bad" }, entry.failed),
        el("button", { class: "btn small", onclick: () => sendAgain(entry.key) }, "Retry"),
        el("button", { class: "btn plain small", onclick: () => discard(entry.key) }, "Discard"))
      : el("span", { class: "acts" }, el("span", { class: "state" }, "being sent")));
}

/**
 * @param {Prompt} prompt
 * @param {(prompt: Prompt, text: string) => Promise<void>} finish
 * @param {(text: string) => void} onchange
 */
function editor(prompt, finish, onchange) {
  const input = el("textarea", { class: "input", rows: 2, value: prompt.prompt, "aria-label": "Text of the prompt",
    autofocus: true, dir: "auto" });
  const save = () => void finish(prompt, input.value.trim());
  input.addEventListener("input", () => onchange(input.value));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") void finish(prompt, prompt.prompt);
    else if (event.key === "Enter" && !event.shiftKey) save();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  queueMicrotask(() => input.focus());
  return el("div", { class: "edit" }, input, el("div", { class: "acts" },
    el("span", { class: "state" }, "Paused while you edit"), el("span", { class: "grow" }),
    el("button", { class: "btn plain small", changes: "manager", onclick: () => void finish(prompt, prompt.prompt) }, "Cancel"),
    el("button", { class: "btn small", changes: "manager", onclick: save }, "Save")));
}
