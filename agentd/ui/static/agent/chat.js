/** A chat: its script, what it asks, its queue, and where the next prompt is written. */

import { ApiError, canChange, may, post, put } from "../core/api.js";
import { el, icon, skeleton } from "../core/el.js";
import { link, query, setQuery } from "../core/router.js";
import * as live from "../core/live.js";
import { computed, detached, effect, flush, onEnd, signal } from "../core/signals.js";
import * as store from "../core/store.js";
import { approvalCard } from "../parts/approval.js";
import { attentive } from "../parts/attention.js";
import { composer } from "../parts/composer.js";
import { confirm } from "../parts/dialog.js";
import { failure } from "../parts/frame.js";
import { addKeys } from "../parts/keys.js";
import { menuButton } from "../parts/menu.js";
import { notifyButton } from "../parts/notify.js";
import { queuePanel } from "../parts/queue.js";
import { toastError } from "../parts/toast.js";
import { chatItems } from "./chat_actions.js";
import { followChat } from "./chat_data.js";
import { chatSettings } from "./chat_settings.js";
import { labelChips, labelsOf } from "./labels.js";
import { chats, loading, markSeen, readChat, refreshSoon, whenRead } from "./chats.js";
import { limitHint, modelLabel, programOf, schemaHolder, skills } from "./choices.js";
import { list } from "../core/list.js";
import { seen } from "./me.js";
import { send } from "./outbox.js";
import { chatPanel } from "./panel.js";
import { findPlace, scrollToEnd, showPlace } from "./place.js";
import { turnList } from "./turns.js";

const NEAR_END = 48;

/**
 * @param {Record<string, string>} params
 * @returns {import("../core/router.js").Page}
 */
export function page(params) {
  const chatId = Number(params["chatId"]);
  const chat = followChat(chatId, { isAtEnd: () => atEnd.peek(), keepPlace });
  /** Where one was when one left this entry of the browser's history, or what a link leads to. */
  const place = /** @type {import("./place.js").Place | undefined} */ (history.state?.place);
  const wanted = place?.id ?? Number(/^#m(\d+)$/.exec(location.hash)?.[1] ?? 0);

  const row = computed(() => chats.value.get(chatId));
  const title = computed(() => row.value?.title ?? chat.work.value?.chat.title ?? "Chat");
  const status = computed(() => describeStatus(chat));
  const scroll = el("div", { class: "scroll script-scroll", tabindex: 0, role: "log", "aria-label": "Messages", "aria-live": "off",
    "data-own-place": "" });
  const fresh = signal(0);

  /** @param {string} text @param {boolean} [now] @param {string} [notBefore] @param {{ outputSchema?: object }} [demand] */
  async function sendPrompt(text, now = false, notBefore = "", demand = {}) {
    toEnd();
    const added = await send({ chatId, text, notBefore, ...demand });
    if (now && added?.id) await sendNow(added.id);
  }

  /** @param {number} promptId */
  async function sendNow(promptId) {
    const path = `/api/MessageQueue/${chatId}`;
    const wasHeld = Boolean(chat.work.peek()?.held);
    try {
      // Else the running turn might end by itself, and the one that is stopped would be this prompt's own.
      if (!wasHeld) await post(`${path}/hold`, {});
      try {
        await post(`${path}/${promptId}/move`, { position: 0 });
        const prompt = chat.queue.peek().find((one) => one.id === promptId);
        if (prompt?.isPaused) await post(`${path}/${promptId}/resume`);
        if (prompt?.notBefore) await put(`${path}/${promptId}`, { notBefore: "" });
        await post(`/api/chat/${chatId}/stop`);
      } catch (error) {
        if (!wasHeld) await post(`${path}/release`);
        throw error;
      }
      // The release of a spent budget allows to spend more, which only the answer to its question says.
      if (!chat.questions.peek().some((one) => one.kind === "budget")) await post(`${path}/release`);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return; // its turn has come meanwhile
      toastError(error, () => void sendNow(promptId));
    }
  }

  async function stop() {
    const yes = await confirm({
      title: "Stop this turn?", text: "What it started is ended, and the queue is put on hold until you continue it or send a prompt.",
      action: "Stop", danger: true,
    });
    if (yes) await post(`/api/chat/${chatId}/stop`).catch(toastError);
  }

  const queue = queuePanel(chat, { sendNow: (promptId) => void sendNow(promptId) });
  const { settings, change } = chatSettings(chat);
  const schema = schemaHolder();
  const label = () => modelLabel(settings.value?.model ?? "", settings.value?.mode);
  const writer = composer({
    draft: String(chatId), chatId: String(chatId), placeholder: "Ask for the next step…",
    autofocus: matchMedia("(hover: hover)").matches,
    onsend: (text, now, notBefore) => void sendPrompt(text, now, notBefore, schema.take()),
    note: () => (chat.working.value || chat.queue.value.length ? `goes to place ${chat.queue.value.length + 1}` : ""),
    tools: [
      menuButton({ class: "btn plain small", changes: "manager", "aria-label": () => `Model: ${label()}` },
        [el("span", { class: "clip" }, () => label()), icon("down")],
        async () => {
          const { keepMode, modeItems, modelItems } = await import("./choice_menus.js");
          const { model, mode } = settings.peek() ?? { model: "", mode: "" };
          return [
            ...modelItems(model, (other) => void change({ model: other, ...(mode ? { mode: keepMode(other, mode) } : {}) })),
            ...modeItems(model, mode, (other) => void change({ mode: other })), null, schema.item(),
          ];
        }),
      menuButton({ class: "btn plain small", changes: "manager", "aria-label": "Skill", hidden: () => !skills.value.skills.length },
        [el("span", { class: "clip" }, () => skillLabel(settings.value?.skill)), icon("down")],
        async () => (await import("./choice_menus.js")).skillItems(settings.peek()?.skill ?? "", (skill) => void change({ skill }))),
      schema.button,
      limitHint(() => programOf(settings.value?.model ?? "").limits),
    ],
  });

  // The questions that are open, and the keys that answer the first.
  const questions = el("div", { class: "questions" });
  /** @type {Map<number, ReturnType<typeof approvalCard>>} */
  const cards = new Map();
  list(questions, () => chat.questions.value, (one) => one.id, (one) => {
    const card = approvalCard(one.peek());
    cards.set(one.peek().id, card);
    onEnd(() => cards.delete(one.peek().id));
    return card.node;
  });
  const answer = (/** @type {"allow" | "deny"} */ decision) => [...cards.values()][0]?.answer(decision);

  const script = el("div", { class: "script" },
    () => (chat.work.value ? null : skeleton(5)),
    () => (chat.earlier.value
      ? el("button", { class: "btn plain small earlier", onclick: () => void earlier() }, "Earlier messages")
      : null),
    turnList(chat, (prompt) => void sendPrompt(prompt)),
    questions,
    el("div", { class: "notify-row" }, () => (chat.questions.value.length ? el("span", null, notifyButton()) : null)),
    () => chat.work.value && !chat.messages.value.length && !chat.working.value && !chat.queue.value.length
      ? el("div", { class: "empty" },
        icon("chat"), el("h2", null, "Nothing here yet"), el("p", null, "Write what the agent should do."))
      : null);
  scroll.append(script);

  // Follow the end while one is there; count what comes meanwhile elsewhere.
  const atEnd = signal(true);
  /** Where the end was when it was last in sight. */
  let endAt = Infinity;
  function toEnd() {
    atEnd.value = true;
    fresh.value = 0;
    endAt = scrollToEnd(scroll);
  }
  /** Which of the jumps to the start and to the end was the last. */
  let jumps = 0;
  async function toStart() {
    const ours = ++jumps;
    atEnd.value = false;
    if (chat.earlier.peek()) await chat.load(1);
    flush();
    if (ours === jumps) scroll.scrollTop = 0;
  }
  async function toLast() {
    const ours = ++jumps;
    if (chat.later.peek() || chat.isLoading()) await chat.load();
    flush();
    if (ours === jumps) toEnd();
  }
  /** @param {() => void} change adds or removes messages above what one reads, which stays in sight */
  function keepPlace(change) {
    const reading = atEnd.peek() ? null : findPlace(scroll);
    change();
    flush();
    if (reading) showPlace(scroll, reading);
  }
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let remembering;
  const here = location.pathname;
  function rememberPlace() {
    if (location.pathname === here) history.replaceState({ ...history.state, place: atEnd.peek() ? undefined : findPlace(scroll) }, "");
  }
  onEnd(() => clearTimeout(remembering));
  onEnd(live.onGap(async () => {
    const reading = atEnd.peek() ? null : findPlace(scroll);
    await chat.load(reading?.id);
    flush();
    if (reading) showPlace(scroll, reading);
  }));
  scroll.addEventListener("scroll", () => {
    const near = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_END;
    if (near) endAt = scroll.scrollTop;
    // What has grown since is followed in a moment: only who scrolls up leaves the end.
    atEnd.value = (near || (atEnd.peek() && scroll.scrollTop >= endAt)) && !chat.later.peek();
    if (atEnd.peek()) fresh.value = 0;
    clearTimeout(remembering);
    remembering = setTimeout(rememberPlace, 150);
    if (scroll.scrollTop < 200) void earlier();
    if (chat.later.peek() && scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 400) void chat.loadLater();
  }, { passive: true });
  const growth = new ResizeObserver(() => atEnd.peek() && (endAt = scrollToEnd(scroll)));
  growth.observe(script);
  growth.observe(scroll);
  onEnd(() => growth.disconnect());
  let lastSeen = 0;
  let sawAll = false;
  effect(() => {
    const messages = chat.messages.value;
    const [before, all] = [lastSeen, !chat.later.peek()];
    lastSeen = messages.at(-1)?.id ?? 0;
    if (!atEnd.peek() && before && all && sawAll) fresh.value = fresh.peek() + messages.filter((message) => message.id > before).length;
    sawAll = all;
  });
  async function earlier() {
    if (chat.earlier.peek() && scroll.isConnected) await chat.loadEarlier();
  }

  effect(() => {
    void chat.messages.value;
    void seen.value;
    if (row.value && attentive.value) markSeen(chatId);
  });
  // What would be pushed to the person's phone is not, if a page tells at once that it was seen.
  const news = computed(() => `${chat.working.value} ${chat.questions.value.map((one) => one.id).join()}`);
  let known = news.peek();
  effect(() => {
    if (news.value === known || !attentive.value) return;
    known = news.value;
    markSeen(chatId, true);
  });

  // Finding in the chat, whose bar is loaded once it is wanted.
  const finder = signal(/** @type {{ node: HTMLElement, focus: () => void } | null} */ (null));
  let endFinder = () => {};
  onEnd(() => endFinder());
  const closeFinder = () => {
    endFinder();
    endFinder = () => {};
    finder.value = null;
    scroll.focus({ preventScroll: true });
  };
  async function find() {
    const { findBar } = await import("./find.js");
    if (!finder.peek() && scroll.isConnected) {
      const [made, end] = detached(() => findBar(chat, { scroll, leaveEnd: () => (atEnd.value = false), close: closeFinder }));
      [finder.value, endFinder] = [made, end];
    }
    queueMicrotask(() => finder.peek()?.focus());
  }

  // What the agent runs in the background; its list is loaded once there is something.
  const background = signal(/** @type {HTMLElement | null} */ (null));
  let endBackground = () => {};
  let wantsBackground = false;
  onEnd(() => endBackground());
  async function showBackground() {
    if (wantsBackground) return;
    wantsBackground = true;
    const make = await import("./processes.js").then(({ processList }) => processList(chatId)).catch(() => null);
    if (!make) wantsBackground = false; // the network failed: the next turn or process tries again
    else if (scroll.isConnected) [background.value, endBackground] = detached(make);
  }
  onEnd(live.on("processesUpdate", (id) => id === chatId && void showBackground()));
  effect(() => {
    if (chat.work.value?.turn || settings.value?.keepProcesses) void showBackground();
  });

  addKeys([
    { keys: "Ctrl F", label: "Find in this chat", run: () => void find(), typing: true },
    { keys: "A", label: "Allow what the agent asks", changes: "manager", run: () => answer("allow") },
    { keys: "D", label: "Deny what the agent asks", changes: "manager", run: () => answer("deny") },
    { keys: "E", label: "Edit the next prompt of the queue", changes: "manager", run: queue.editNext },
    { keys: "Esc", label: "Stop the turn", changes: "manager", run: () => chat.working.peek() && canChange() && void stop() },
    { keys: "[", label: "Previous turn", run: () => stepTurn(scroll, -1) },
    { keys: "]", label: "Next turn", run: () => stepTurn(scroll, 1) },
    { keys: "Home", label: "Start of the chat", run: () => void toStart() },
    { keys: "End", label: "End of the chat", run: () => void toLast() },
  ]);

  effect(() => {
    if (loading.value === "ready" && chat.work.value && !row.value) refreshSoon(chatId, 0); // an old one
  });
  const read = chat.load(wanted);
  void read.then(() => {
    atEnd.value = !wanted;
    requestAnimationFrame(() => {
      if (place) showPlace(scroll, place);
      else if (wanted) showMessage(wanted);
      else toEnd();
    });
  });

  const usual = matchMedia("(min-width: 1181px)").matches ? store.read("panel", "details") : "";
  const panel = computed(() => query.value.get("panel") ?? usual);
  const requireRow = () => (row.peek() ? undefined : readChat(chatId).catch(() => {})); // else its labels cannot be set
  const actions = () => Promise.all([read, whenRead()]).then(requireRow).then(() => chatItems(chatId, title.peek(), [
    { label: "Find in this chat", icon: "search", hint: "Ctrl F", onselect: () => void find() },
    { label: "Changes", icon: "branch", checked: panel.peek() === "changes", onselect: () => showPanel("changes") },
    settings.peek()?.worktree === false && {
      label: "Work in a tree of its own", icon: "copy", changes: "manager", disabled: chat.working.peek(),
      onselect: () => void change({ worktree: true }).then((done) => done && scroll.isConnected && showPanel("changes")),
    },
    { label: "Keep processes after a turn", icon: "terminal", note: "What runs in the background goes on", changes: "manager",
      toggles: true, checked: Boolean(settings.peek()?.keepProcesses),
      onselect: () => void change({ keepProcesses: !settings.peek()?.keepProcesses }) },
    { label: "Details", icon: "info", checked: isShown(panel.peek()), onselect: () => showPanel(panel.peek() ? "none" : "details") },
    null,
  ]));

  const body = el("div", { class: () => `chat-page${isShown(panel.value) ? " panelled" : ""}` },
    el("div", { class: "frame" },
      el("header", { class: "bar" },
        el("a", { class: "btn plain icon only-phone", href: link("/chats"), "aria-label": "Back to the chats" }, icon("back")),
        el("div", { class: "titles" }, el("h1", null, () => title.value), () => stateTag(status.value, "only-phone")),
        el("span", { class: "chips not-phone" }, () => labelChips(labelsOf(chatId))),
        el("span", { class: "grow" }),
        () => stateTag(status.value, "not-phone"),
        () => (chat.working.value
          ? el("button", { class: "btn plain stop small", changes: "manager", title: "Stop (Esc)", "aria-label": "Stop",
            onclick: () => void stop() }, icon("stop"), el("span", { class: "not-phone" }, "Stop"))
          : null),
        menuButton({ class: "btn plain icon", "aria-label": "More" }, [icon("more")], actions)),
      () => finder.value?.node ?? null,
      () => chat.error.value
        ? failure(chat.error.value, () => void chat.load())
        : scroll,
      el("div", { class: "low" },
        // Both outside of what is scrolled: there, the first would move away when earlier messages come.
        el("div", { class: "jumps" },
          () => (chat.earlier.value && !atEnd.value
            ? el("button", { class: "btn small", onclick: () => void toStart() }, icon("up"), "To the start")
            : null),
          () => (fresh.value || chat.later.value
            ? el("button", { class: "btn small", onclick: () => void toLast() },
              icon("down"), fresh.value ? `${fresh.value} new` : "To the end")
            : null)),
        () => background.value,
        queue.node,
        writer.node,
        el("div", { class: "hint not-phone", hidden: !may("manager") }, el("span", null, el("kbd", null, "Enter"), " queue"),
          el("span", null, el("kbd", null, "Ctrl"), " ", el("kbd", null, "Enter"), " interrupt and send now"),
          el("span", null, el("kbd", null, "?"), " all keys")))),
    () => (isShown(panel.value) ? chatPanel(chat, panel.value, showPanel, writer.insert) : null));
  return { title: () => title.value, body };
}

/** @param {string} panel */
function isShown(panel) {
  return panel !== "" && panel !== "none";
}

/** @param {string} panel */
function showPanel(panel) {
  store.write("panel", panel);
  setQuery({ panel });
}

/** @param {import("./chat_data.js").ChatData} chat */
function describeStatus(chat) {
  const work = chat.work.value;
  if (chat.questions.value.length) return { kind: "need", text: "Needs you" };
  if (chat.working.value) return { kind: "run", text: "At work" };
  if (work?.held && chat.queue.value.length) return { kind: "", text: "On hold" };
  if (work?.state === "error") return { kind: "bad", text: "Failed" };
  return { kind: "", text: "" };
}

/**
 * @param {{ kind: string, text: string }} status
 * @param {string} where
 */
function stateTag({ kind, text }, where) {
  return text ? el("span", { class: `state ${kind} ${where}` }, el("span", { class: `dot ${kind || "off"}` }), text) : null;
}

/** @param {string | undefined} skill */
function skillLabel(skill) {
  return !skill || skill === "none" ? "No skill" : skill;
}

/**
 * Show a message, or the turn that it is folded away in.
 * @param {number} id
 */
function showMessage(id) {
  const node = document.getElementById(`m${id}`);
  (node?.checkVisibility() ? node : node?.closest(".turn"))?.scrollIntoView({ block: "center" });
}

/**
 * @param {HTMLElement} scroll
 * @param {1 | -1} by
 */
function stepTurn(scroll, by) {
  const turns = /** @type {HTMLElement[]} */ ([...scroll.querySelectorAll(".turn")]);
  const top = scroll.getBoundingClientRect().top;
  const offsets = turns.map((turn) => turn.getBoundingClientRect().top - top);
  const next = by > 0 ? turns.find((_, index) => (offsets[index] ?? 0) > 24) : turns.findLast((_, index) => (offsets[index] ?? 0) < -2);
  next?.scrollIntoView({ block: "start" });
}
