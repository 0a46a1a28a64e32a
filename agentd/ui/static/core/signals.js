/**
 * Values that notify their readers when they change.
 *
 * `effect` runs a function again whenever a signal that it read has changed; effects run together,
 * after the code that wrote. What is made within `scope` or an effect ends with it.
 */

/**
 * @template T
 * @typedef {{ value: T, peek: () => T }} Signal
 */

/**
 * @template T
 * @typedef {{ readonly value: T, peek: () => T }} ReadonlySignal
 */

/** @typedef {{ run: () => void, sources: Set<Set<Reaction>>, cleanups: (() => void)[] }} Reaction */

/** @type {Reaction | null} */
let current = null;
/** @type {(() => void)[] | null} */
let owned = null;
/** @type {Set<Reaction>} */
const waiting = new Set();
let scheduled = false;

/**
 * A value that can be replaced.
 * @template T
 * @param {T} initial
 * @returns {Signal<T>}
 */
export function signal(initial) {
  let held = initial;
  /** @type {Set<Reaction>} */
  const readers = new Set();
  return {
    get value() {
      track(readers);
      return held;
    },
    set value(next) {
      if (Object.is(held, next)) return;
      held = next;
      for (const reader of [...readers]) schedule(reader);
    },
    peek: () => held,
  };
}

/**
 * A value computed from others; computed again when they change, and somebody reads it.
 * @template T
 * @param {() => T} compute
 * @returns {ReadonlySignal<T>}
 */
export function computed(compute) {
  const result = signal(/** @type {T | undefined} */ (undefined));
  effect(() => {
    result.value = compute();
  });
  return /** @type {ReadonlySignal<T>} */ (result);
}

/**
 * Run now, and again after each change of what was read.
 * @param {() => void | (() => void)} action may return what undoes it
 * @returns {() => void} ends it
 */
export function effect(action) {
  /** @type {Reaction} */
  const reaction = { run, sources: new Set(), cleanups: [] };
  function run() {
    dispose(reaction);
    const [before, above] = [current, owned];
    current = reaction;
    owned = reaction.cleanups;
    try {
      const undo = action();
      if (undo) reaction.cleanups.push(undo);
    } finally {
      current = before;
      owned = above;
    }
  }
  run();
  const end = () => dispose(reaction);
  owned?.push(end);
  return end;
}

/**
 * Run once; whatever effects it made end with what is returned.
 * @template T
 * @param {() => T} action
 * @returns {[T, () => void]}
 */
export function scope(action) {
  const [result, end] = detached(action);
  owned?.push(end);
  return [result, end];
}

/**
 * As `scope`, but it does not end with what is being made around it.
 * @template T
 * @param {() => T} action
 * @returns {[T, () => void]}
 */
export function detached(action) {
  /** @type {(() => void)[]} */
  const cleanups = [];
  const [before, above] = [current, owned];
  current = null;
  owned = cleanups;
  try {
    return [action(), () => runAll(cleanups)];
  } finally {
    current = before;
    owned = above;
  }
}

/**
 * Call when what is being made now ends.
 * @param {() => void} cleanup
 */
export function onEnd(cleanup) {
  owned?.push(cleanup);
}

/**
 * Read without following.
 * @template T
 * @param {() => T} action
 * @returns {T}
 */
export function untracked(action) {
  const before = current;
  current = null;
  try {
    return action();
  } finally {
    current = before;
  }
}

/** Run what waits to be run, now. */
export function flush() {
  scheduled = false;
  for (let round = 0; waiting.size; round++) {
    if (round > 100) throw new Error("effects that change what they read");
    const batch = [...waiting];
    waiting.clear();
    for (const reaction of batch) {
      try {
        if (reaction.sources.size) reaction.run();
      } catch (error) {
        reportError(error);
      }
    }
  }
}

/** @param {Set<Reaction>} readers */
function track(readers) {
  if (!current) return;
  readers.add(current);
  current.sources.add(readers);
}

/** @param {Reaction} reaction */
function schedule(reaction) {
  waiting.add(reaction);
  if (scheduled) return;
  scheduled = true;
  queueMicrotask(flush);
}

/** @param {Reaction} reaction */
function dispose(reaction) {
  for (const readers of reaction.sources) readers.delete(reaction);
  reaction.sources.clear();
  waiting.delete(reaction);
  runAll(reaction.cleanups);
}

/** @param {(() => void)[]} cleanups */
function runAll(cleanups) {
  for (const cleanup of cleanups.splice(0).reverse()) cleanup();
}
