/**
 * Live events: one stream for all tabs of a browser.
 *
 * The tab that holds the lock listens, and repeats what it hears to the others. Where there are no
 * locks (plain http), each tab has its own stream, and none while it is hidden. Every tab knows the
 * id of the last event, so whichever opens the next stream misses nothing of the chats. Other events
 * are not kept by the daemon: read the data again after an interruption.
 *
 * A device that sleeps closes no connection, and its timers do not count that time. So a tab that
 * notices that it slept has a new stream opened, and listens itself if no other tab answers.
 */

import { address, BASE, reachable, refreshSession, ApiError, session, whenSignedOut } from "./api.js";
import { effect, signal } from "./signals.js";

/** Seconds without data after which a stream is opened again. */
const SILENCE = 25_000;
/** How long the first page waits for the stream before it shows what it has. */
const PATIENCE = 400;
/** Milliseconds without a stream after which pages say so, and offer no changes: most interruptions are shorter. */
const LOST_AFTER = 2000;
/** How long a tab may be hidden, or not run at all, before its stream is taken for broken. */
const AWAY = 10_000;
/** How long the tab that listens has to answer another before that one listens in its place. */
const TAKEOVER = 1500;
const RETRIES = [200, 500, 1000, 2000, 4000];

const NAMES = [
  "messageUpdate", "queueUpdate", "approvalUpdate", "chatUpdate", "chatDeleted", "messageDelta", "thinkingDelta",
  "keysUpdate", "labelsUpdate", "skillsUpdate", "modelsUpdate", "engineUpdate", "botsUpdate", "settingsUpdate",
  "gitUpdate", "filesUpdate", "buildOutput", "buildUpdate", "deploymentOutput", "deploymentUpdate",
  "buildsUpdate", "deploymentsUpdate", "autofixUpdate", "gatewayUpdate", "gatewayConfigUpdate", "gatewayAlertUpdate",
  "checkStep", "meUpdate", "schedulesUpdate", "mcpServersUpdate", "hooksUpdate", "analyticsProgress", "processesUpdate",
  "softLimitReached", "hardLimitReached",
];

/** @typedef {"connecting" | "live" | "lost"} State */
/** @typedef {(...values: any[]) => void} Listener */

/** Whether events come. */
export const state = signal(/** @type {State} */ ("connecting"));

effect(() => {
  if (state.value !== "lost") {
    reachable.value = true;
    return undefined;
  }
  const timer = setTimeout(() => (reachable.value = false), LOST_AFTER);
  return () => clearTimeout(timer);
});

/** @type {Map<string, Set<Listener>>} */
const listeners = new Map();
/** @type {Set<(isGap: boolean) => void>} */
const reloaders = new Set();

let last = "";
const leading = signal(false);
let stopped = true;
let attempts = 0;
/** Whether pages may have read data before any stream was open: then they read it again. */
let late = false;
/** @type {EventSource | null} */
let source = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let retry;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let watchdog;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let takeover;
let claiming = new AbortController();
/** @type {() => void} */
let release = () => {};
/** @type {() => void} */
let opened = () => {};

const channel = new BroadcastChannel(`agentd-live ${BASE}`);
const usesLocks = "locks" in navigator;

/**
 * Hear an event; the arguments are those of the API's documentation, then the `seq` that it belongs to.
 * @param {string} name
 * @param {Listener} listener
 * @returns {() => void} ends it
 */
export function on(name, listener) {
  let set = listeners.get(name);
  if (!set) listeners.set(name, (set = new Set()));
  set.add(listener);
  return () => set.delete(listener);
}

/**
 * Listeners of a state that is read as a whole at times: what they hear while it is being read,
 * which the answer may not have yet, they hear once more after it. Whatever changed later still is
 * told by an event of its own.
 */
export function follower() {
  /** @type {Set<(() => void)[]>} */
  const reading = new Set();
  return {
    /** @param {string} name @param {Listener} listener */
    on: (name, listener) => on(name, (...values) => {
      for (const heard of reading) heard.push(() => listener(...values));
      listener(...values);
    }),
    /**
     * Read, and take up what was read.
     * @template T
     * @param {() => Promise<T>} read
     * @param {(value: T) => void} take
     */
    async read(read, take) {
      /** @type {(() => void)[]} */
      const heard = [];
      reading.add(heard);
      try {
        take(await read());
      } finally {
        reading.delete(heard);
      }
      for (const again of heard) again();
    },
  };
}

/**
 * Call when events were missed for good, so that all data must be read again.
 * @param {() => void} reload
 * @returns {() => void} ends it
 */
export function onGap(reload) {
  return onInterruption((isGap) => isGap && reload());
}

/**
 * Call when the stream was interrupted, so that events that the daemon does not keep may have been
 * missed: those of settings, files, jobs and growing replies. Those of chats come, but for a gap.
 * @param {(isGap: boolean) => void} reload
 * @returns {() => void} ends it
 */
export function onInterruption(reload) {
  reloaders.add(reload);
  return () => reloaders.delete(reload);
}

/** Whether this tab is the one that listens for all; effects that ask run again when it becomes it. */
export function isLeading() {
  return leading.value;
}

/** Begin to listen; returns when the stream is open, or soon. */
export function start() {
  if (!stopped) return Promise.resolve();
  stopped = false;
  channel.onmessage = hear;
  const ready = new Promise((resolve) => {
    opened = () => resolve(undefined);
    setTimeout(() => {
      late ||= state.peek() !== "live";
      resolve(undefined);
    }, PATIENCE);
  });
  claim();
  return ready;
}

/** Lead once no other tab does; `steal`: at once, for the other does not answer. */
function claim(steal = false) {
  channel.postMessage({ kind: "hello", user: session.peek()?.user });
  if (!usesLocks) return lead(() => {});
  claiming.abort();
  const { signal: ours } = (claiming = new AbortController());
  const held = () => new Promise((resolve) => lead(() => resolve(undefined)));
  navigator.locks.request(`agentd-live ${BASE}`, steal ? { steal } : { signal: ours }, held).catch((error) => {
    if (error.name !== "AbortError") reportError(error);
    else if (!ours.aborted) deposed();
  });
}

/** Another tab took over because this one did not answer: its events meanwhile were missed here. */
function deposed() {
  if (stopped) return;
  resign();
  claim();
  take({ kind: "gap" });
}

function resign() {
  leading.value = false;
  claiming.abort();
  close();
  release();
}

/**
 * Stop listening, in this tab and, when the login has ended, in all.
 * @param {{ everywhere?: boolean }} [options]
 */
export function stop({ everywhere = false } = {}) {
  if (everywhere) channel.postMessage({ kind: "signedOut" });
  stopped = true;
  last = "";
  resign();
  state.value = "connecting";
}

/** @param {() => void} letGo */
function lead(letGo) {
  if (stopped) return letGo();
  release = letGo;
  leading.value = true;
  open();
}

function open() {
  clearTimeout(retry);
  close();
  if (stopped || !leading.peek() || (!usesLocks && document.hidden)) return;
  const since = last;
  const stream = new EventSource(address("/api/events", { since }));
  source = stream;
  watch();
  stream.addEventListener("resumed", (event) => {
    attempts = 0;
    remember(event);
    if (late) share({ kind: "gap" });
    else if (since) share({ kind: "interrupted" });
    late = false;
    setState("live");
  });
  stream.addEventListener("gap", (event) => {
    attempts = 0;
    remember(event);
    setState("live");
    share({ kind: "gap" });
  });
  stream.addEventListener("alive", remember);
  for (const name of NAMES) {
    stream.addEventListener(name, (event) => {
      remember(event);
      share({ kind: "event", name, values: JSON.parse(event.data), id: last });
    });
  }
  stream.onerror = () => void failed(stream);
}

/** @param {MessageEvent} event */
function remember(event) {
  if (event.lastEventId) last = event.lastEventId;
  watch();
}

function watch() {
  clearTimeout(watchdog);
  watchdog = setTimeout(() => {
    setState("lost");
    open();
  }, SILENCE);
}

function close() {
  clearTimeout(watchdog);
  source?.close();
  source = null;
}

/** @param {EventSource} stream */
async function failed(stream) {
  if (stream !== source) return;
  const refused = stream.readyState === EventSource.CLOSED;
  close();
  setState("lost");
  if (refused) {
    try {
      await refreshSession();
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return signedOut();
    }
  }
  const delay = RETRIES[Math.min(attempts++, RETRIES.length - 1)] ?? 1000;
  clearTimeout(retry);
  retry = setTimeout(open, delay * (0.75 + Math.random() / 2));
}

/** @type {() => void} */
let ended = () => {};

/**
 * Call when the login has ended, in any tab.
 * @param {() => void} action
 */
export function onSignedOut(action) {
  ended = action;
  whenSignedOut(() => signedOut());
}

function signedOut() {
  if (stopped) return;
  stop({ everywhere: true });
  ended();
}

/** @param {State} next */
function setState(next) {
  share({ kind: "state", state: next, id: last });
}

/**
 * Do here what happened, and tell the other tabs.
 * @param {any} message
 */
function share(message) {
  if (usesLocks) channel.postMessage(message);
  take(message);
}

/** @param {MessageEvent} event */
function hear(event) {
  if (stopped) return;
  const message = event.data;
  if (message.kind === "hello") {
    if (message.user !== session.peek()?.user) { // somebody else has signed in: also a filled form is left
      document.body.replaceChildren();
      location.reload();
    } else if (leading.peek()) channel.postMessage({ kind: "state", state: state.peek(), id: last });
  } else if (message.kind === "woke") {
    if (!leading.peek()) return;
    channel.postMessage({ kind: "state", state: state.peek(), id: last });
    open();
  } else if (message.kind === "signedOut") {
    stop();
    ended();
  } else if (!leading.peek()) {
    clearTimeout(takeover);
    take(message);
  }
}

/** @param {any} message */
function take(message) {
  if (message.id) last = message.id;
  if (message.kind === "state") {
    state.value = message.state;
    if (message.state === "live") opened();
  } else if (message.kind === "gap" || message.kind === "interrupted") {
    for (const reload of [...reloaders]) reload(message.kind === "gap");
  } else if (message.kind === "event") {
    for (const listener of [...(listeners.get(message.name) ?? [])]) {
      try {
        listener(...message.values, Number.parseInt(message.id, 10));
      } catch (error) {
        reportError(error);
      }
    }
  }
}

/** Have a stream opened that surely lives, as after a sleep. */
function wake() {
  if (stopped || document.hidden) return;
  if (leading.peek()) return open();
  channel.postMessage({ kind: "woke" });
  clearTimeout(takeover);
  takeover = setTimeout(() => !stopped && !leading.peek() && claim(true), TAKEOVER);
}

/** When this tab was last seen running. */
let ranAt = Date.now();
setInterval(() => {
  const slept = Date.now() - ranAt > AWAY;
  ranAt = Date.now();
  if (slept) wake();
}, 1000);

let hiddenAt = 0;
document.addEventListener("visibilitychange", () => {
  ranAt = Date.now();
  if (document.hidden) {
    hiddenAt = Date.now();
    if (!usesLocks && !stopped) close();
  } else if (!usesLocks || Date.now() - hiddenAt > AWAY || state.peek() !== "live") {
    wake();
  }
});
// A tab that is frozen hears nothing: another listens meanwhile.
document.addEventListener("freeze", () => usesLocks && !stopped && resign());
document.addEventListener("resume", () => usesLocks && !stopped && deposed());
addEventListener("online", () => (leading.peek() ? open() : wake()));
addEventListener("pagehide", () => {
  close();
  release();
});
addEventListener("pageshow", (event) => {
  if (event.persisted && !stopped) location.reload();
});
