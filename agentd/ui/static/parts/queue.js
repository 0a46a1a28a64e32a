/**
 * The prompts that wait, on top of the composer: edited, ordered by hand, mouse or keys, paused and
 * removed. What is edited or dragged is paused on the daemon meanwhile, so it is not sent half-done.
 */

import { ApiError, call, callTagged, canChange, post, remove, sendInOrder, session } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { list } from "../core/list.js";
import { beginningOf, counted } from "../core/counts.js";
import { computed, effect, flush, signal } from "../core/signals.js";
import { unansweredChanges } from "../core/unanswered.js";
import { clockTime, comingTime, fullTime } from "../core/time.js";
import { discard, outbox, send, sendAgain } from "../agent/outbox.js";
import { menuButton } from "./menu.js";
import { editor } from "./prompt_editor.js";
import { toast, toastError } from "./toast.js";

/** @typedef {import("../agent/chat_data.js").Prompt} Prompt */
/** @typedef {import("../agent/chat_data.js").ChatData} ChatData */
/** @typedef {(queue: readonly Prompt[]) => readonly Prompt[]} Change */
/** @typedef {import("./prompt_editor.js").Edit} Edit */

/** Pixels from an edge of the list within which what is dragged scrolls it, and by how many in each frame. */
const EDGE = 24;
const STEP = 8;
/** Characters of a prompt in its row, which is one line: to lay out a few hundred long texts takes a browser seconds. */
const SHOWN = 1000;
/**
 * What is edited, by person and chat: it goes on when one comes back to the page.
 * @type {Map<string, import("../core/signals.js").Signal<ReadonlyMap<number, Edit>>>}
 */
const begun = new Map();

/**
 * @param {ChatData} chat
 * @param {{ sendNow: (promptId: number) => void }} actions
 */
export function queuePanel(chat, { sendNow }) {
  const path = `/api/MessageQueue/${chat.chatId}`;
  const whose = `${session.peek()?.user} ${chat.chatId}`;
  /** The prompts that are edited, by their ids. */
  const edits = begun.get(whose) ?? signal(/** @type {ReadonlyMap<number, Edit>} */ (new Map()));
  begun.set(whose, edits);
  const folded = signal(matchMedia("(max-width: 720px)").matches);
  /** The order while one drags; null: as the daemon has it. */
  const order = signal(/** @type {readonly Prompt[] | null} */ (null));
  const unanswered = /** @type {typeof unansweredChanges<readonly Prompt[]>} */ (unansweredChanges)(path);
  const inOrder = (/** @type {() => Promise<unknown>} */ request) => sendInOrder(path, request);
  const shown = computed(() => unanswered.over(chat.queue.value));
  const prompts = computed(() => order.value ?? shown.value);
  const mine = computed(() => outbox.value.filter((one) => one.chatId === chat.chatId));
  const held = computed(() => chat.work.value?.held ?? "");

  /**
   * Show a change at once, and take it back when the daemon refuses it.
   * @param {Change} apply
   * @param {() => Promise<any>} request
   * @param {() => void} [again]
   * @returns {Promise<boolean>} whether it was done
   */
  async function change(apply, request, again = () => void change(apply, request, again)) {
    let before = chat.queue.peek();
    const send = () => {
      before = chat.queue.peek();
      return request();
    };
    try {
      await unanswered.send(apply, send, (answer) => {
        if (chat.queue.peek() === before) chat.queue.value = answer?.prompts ?? apply(before); // else an event told more
      });
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) toast("This prompt has been sent already");
      else toastError(error, again);
      return false;
    }
  }
  /** @param {number} id @param {Partial<Prompt>} what @returns {Change} */
  const withPrompt = (id, what) => (queue) => queue.map((one) => (one.id === id ? { ...one, ...what } : one));

  const indexOf = (/** @type {number} */ id) => shown.peek().findIndex((one) => one.id === id);
  const rowOf = (/** @type {number} */ id) => /** @type {HTMLElement | null} */ (rows.querySelector(`[data-prompt="${id}"]`));
  const menuOf = (/** @type {Element | null | undefined} */ row) =>
    /** @type {HTMLElement | null | undefined} */ (row?.querySelector("[aria-haspopup]"));

  /** @param {number} id @param {boolean} isPaused @param {() => void} [again] */
  const pause = (id, isPaused, again) =>
    change(withPrompt(id, { isPaused }), () => post(`${path}/${id}/${isPaused ? "pause" : "resume"}`), again);

  /** @param {Prompt} prompt @param {string} notBefore empty: no time */
  const setTime = (prompt, notBefore) => change(withPrompt(prompt.id, { notBefore: notBefore || null }), async () => {
    await call("PUT", `${path}/${prompt.id}`, { body: { notBefore } });
  });

  /** @param {Prompt} prompt */
  async function postpone(prompt) {
    const { askLater } = await import("./later.js");
    const moment = await askLater(prompt.notBefore ?? "");
    if (moment) await setTime(prompt, moment);
  }

  /** @param {Prompt} prompt @param {number} position */
  function move(prompt, position) {
    const at = Math.max(0, Math.min(position, shown.peek().length - 1));
    /** @type {Change} */
    const apply = (queue) => {
      const moved = queue.find((one) => one.id === prompt.id);
      return moved ? queue.filter((one) => one !== moved).toSpliced(at, 0, moved) : queue;
    };
    return change(apply, () => post(`${path}/${prompt.id}/move`, { position: at }));
  }

  /** @param {Prompt} prompt */
  async function drop(prompt) {
    const position = indexOf(prompt.id);
    const dropped = change((queue) => queue.filter((one) => one.id !== prompt.id), () => remove(`${path}/${prompt.id}`),
      () => void drop(prompt));
    flush();
    if (document.activeElement === document.body) menuOf(rows.children[position] ?? rows.lastElementChild)?.focus();
    if (!await dropped) return;
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
  function edit(prompt) {
    const { id } = prompt;
    if (!edits.peek().has(id)) open(id, { prompt, typed: prompt.prompt });
    if (!prompt.isPaused) void pause(id, true, () => edits.peek().has(id) && void pause(id, true));
    flush();
    rowOf(id)?.querySelector("textarea")?.focus();
  }

  /** @param {number} id @param {Edit | null} now null: it is edited no more */
  function open(id, now) {
    const others = new Map(edits.peek());
    if (now) others.set(id, now);
    else others.delete(id);
    edits.value = others;
  }

  /** @param {number} id @param {Edit} edited */
  function goOn(id, edited) {
    const hadFocus = rowOf(id)?.contains(document.activeElement);
    open(id, edited);
    flush();
    if (hadFocus) rowOf(id)?.querySelector("textarea")?.focus();
  }

  /** @param {number} id @param {string} text empty: as it was */
  async function finish(id, text) {
    const edited = edits.peek().get(id);
    if (!edited || !canChange()) return;
    const { prompt } = edited;
    const hadFocus = rowOf(id)?.contains(document.activeElement);
    open(id, null);
    flush();
    if (hadFocus) menuOf(rowOf(id))?.focus();
    if (text && text !== prompt.prompt) {
      const again = () => void finish(id, edits.peek().get(id)?.typed.trim() ?? "");
      const saved = await change(withPrompt(id, { prompt: text }), () => rewrite(prompt, prompt.prompt, text), again);
      if (!saved) return isThere(id) ? goOn(id, { prompt, typed: text }) : undefined; // paused: it is not what was to be sent
    }
    if (!prompt.isPaused && isThere(id)) void pause(id, false);
  }
  const isThere = (/** @type {number} */ id) => chat.queue.peek().some((one) => one.id === id);

  /**
   * Replace a text; when another has replaced it meanwhile, the person sees both, and chooses.
   * @param {Prompt} prompt
   * @param {string} before what it was when one began
   * @param {string} text
   * @returns {Promise<any>}
   */
  async function rewrite(prompt, before, text) {
    const { id } = prompt;
    const { body, etag } = await callTagged("GET", path);
    const now = body.prompts.find((/** @type {Prompt} */ one) => one.id === id);
    if (!now) {
      await sentMeanwhile(prompt, before, text);
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
      if (error instanceof ApiError && (error.status === 412 || error.status === 404)) return rewrite(prompt, now.prompt, text);
      throw error;
    }
    return null;
  }

  /**
   * The prompt has left the queue, so it cannot be changed any more: the edited one may follow it.
   * @param {Prompt} prompt
   * @param {string} before
   * @param {string} text
   */
  async function sentMeanwhile(prompt, before, text) {
    const { chooseVersion } = await import("./conflict.js");
    const choice = await chooseVersion({
      title: "This prompt was sent already", text: "It was sent, or removed, elsewhere while you edited it.",
      mine: { label: "Yours", text, action: "Queue mine as well" },
      theirs: { label: "What was in the queue", text: before, action: "Discard mine" },
    });
    if (choice === "mine") void send({ chatId: chat.chatId, text, model: prompt.model, ...demandOf(prompt) });
  }

  const rows = el("ol", { "aria-label": "Prompts that wait" });
  list(rows, () => prompts.value, (prompt) => prompt.id, (prompt) => {
    const id = prompt.peek().id;
    const position = computed(() => prompts.value.findIndex((one) => one.id === id));
    const edited = computed(() => edits.value.get(id));
    /** @type {HTMLLIElement} */
    const node = el("li", { class: () => `wait${prompt.value.isPaused ? " paused" : ""}`, tabindex: -1, "data-prompt": id },
      () => edited.value ? editor(edited.value, (text) => void finish(id, text))
      : [el("button", { class: "grip", changes: "manager", "aria-label": () => `Move prompt ${position.value + 1}: Alt and arrow keys`,
        onpointerdown: (/** @type {PointerEvent} */ event) => drag(event, node, id) }, icon("grip")),
      el("span", { class: "pos" }, () => position.value + 1),
      el("span", { class: "text", dir: "auto", title: () => beginning(prompt.value.prompt) }, () => beginning(prompt.value.prompt), " ",
        () => (prompt.value.model ? el("span", { class: "chip" }, prompt.value.model) : null), " ",
        () => (prompt.value.notBefore ? el("span", { class: "chip", title: `Not before ${fullTime(prompt.value.notBefore)}` },
          `from ${comingTime(prompt.value.notBefore)}`) : null), " ",
        () => (prompt.value.outputSchema ? el("span", { class: "chip", title: "Its reply is JSON that fits a schema" }, "JSON") : null),
        " ", () => (prompt.value.isPaused ? el("span", { class: "chip" }, "paused") : null)),
      el("span", { class: "acts" },
        el("button", { class: "btn plain icon small", changes: "manager", "aria-label": () => (prompt.value.isPaused ? "Resume" : "Pause"),
          onclick: () => void pause(id, !prompt.peek().isPaused) },
          () => icon(prompt.value.isPaused ? "play" : "pause")),
        el("button", { class: "btn plain icon small not-phone", changes: "manager", "aria-label": "Edit",
          onclick: () => edit(prompt.peek()) }, icon("pencil")),
        menuButton({ class: "btn plain icon small", changes: "manager", "aria-label": "More for this prompt" }, [icon("more")], () => [
          { label: "Edit", icon: "pencil", changes: "manager", onselect: () => edit(prompt.peek()) },
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
      void move(prompt.peek(), position.peek() + by);
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
    const prompt = shown.peek().find((one) => one.id === id);
    if (!prompt) return;
    grip.setPointerCapture(event.pointerId);
    grip.focus({ preventScroll: true }); // so its row stays, and the others are moved around it
    let to = indexOf(id);
    let moved = false;
    /** Whether it is paused now because it is dragged. */
    let paused = Promise.resolve(false);
    const start = event.clientY;
    let pointer = start;
    let frame = 0;
    const place = () => {
      const others = /** @type {HTMLElement[]} */ ([...rows.children]).filter((one) => one !== node);
      to = others.filter((one) => { const at = one.getBoundingClientRect(); return at.top + at.height / 2 < pointer; }).length;
      order.value = shown.peek().filter((one) => one.id !== id).toSpliced(to, 0, prompt);
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
        if (!prompt.isPaused) paused = inOrder(() => post(`${path}/${id}/pause`)).then(() => true, (error) => (toastError(error), false));
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
        void move(prompt, to);
        order.value = null;
        if (await paused) await inOrder(() => post(`${path}/${id}/resume`)).catch(toastError);
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
      el("span", { class: "next only-phone" }, () => (prompts.value[0] ? `· ${beginning(prompts.value[0].prompt)}` : "")),
      el("b", { class: "not-phone" }, "Next"),
      el("span", { class: "not-phone" }, () => caption(chat, waits.value)),
      el("span", { class: "grow not-phone" }),
      el("button", { class: "btn plain small", changes: "manager", onclick: release,
        hidden: () => Boolean(held.value) || !chat.work.value?.waitsUntil }, icon("play"), "Try now"),
      el("button", { class: "btn plain small", changes: "manager", title: () => held.value || null,
        onclick: () => (held.peek() ? release() : hold()) },
        () => (held.value ? [icon("play"), "Continue"] : [icon("pause"), "Hold all"])),
      el("button", { class: "btn plain icon small only-phone", "aria-label": () => (folded.value ? "Show the queue" : "Fold the queue"),
        "aria-expanded": () => String(!folded.value), onclick: () => (folded.value = !folded.peek()) },
        () => icon(folded.value ? "down" : "up"))),
    rows,
    () => (mine.value.length ? el("ol", { class: "outbox", "aria-label": "Being sent" }, mine.value.map(outgoing)) : null));
  effect(() => {
    if (!chat.work.value) return; // nothing is read so far
    for (const [id, { prompt, typed }] of edits.value) {
      if (chat.queue.value.some((one) => one.id === id)) continue;
      open(id, null);
      if (typed.trim() && typed.trim() !== prompt.prompt) void sentMeanwhile(prompt, prompt.prompt, typed.trim());
      else toast("The prompt that you edited has been sent, or removed, elsewhere");
    }
  });
  const editNext = () => {
    const first = shown.peek()[0];
    if (first && canChange()) edit(first);
  };
  return { node, editNext };
}

const beginning = (/** @type {string} */ text) => (text.length > SHOWN ? `${beginningOf(text, SHOWN)}…` : text);

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
  return el("li", { class: "wait sending" }, el("span", { class: "text", dir: "auto" }, beginning(entry.text)),
    entry.failed || entry.hindered
      ? el("span", { class: "acts" }, el("span", { class: "state bad" }, entry.failed || entry.hindered),
        entry.failed ? el("button", { class: "btn small", onclick: () => sendAgain(entry.key) }, "Retry") : null,
        el("button", { class: "btn plain small", onclick: () => discard(entry.key) }, "Discard"))
      : el("span", { class: "acts" }, el("span", { class: "state" }, "being sent")));
}
