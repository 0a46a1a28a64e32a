/**
 * Where one reads, kept in the entry of the browser's history: Back, Forward and a reload show it again. What scrolls
 * is told apart by its class and its label. Chats keep their place themselves, by message (`data-own-place`).
 */

/**
 * @typedef {{ top: number, id?: string, above?: number }} ScrollPlace `id`: of the first row in sight, where rows bear
 *   a `data-id`, and how far it begins above the upper edge; rows that came above it meanwhile change nothing then
 */

/** Milliseconds for which missing rows are waited for, and for which the place is held once it is reached. */
const PATIENCE = 10_000;
const STEADY = 600;
const DELAY = 120;
const MORE = "button.more:not(.newest), button.more-rows";

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {Map<string, HTMLElement>} */
const moved = new Map();
/** Where things are being scrolled to; on the way there, where they stand is not where one read. @type {Map<string, ScrollPlace>} */
let wanted = new Map();
/** @type {() => void} */
let endRestoring = () => {};

/** Keep the places of what was scrolled; to be called before another entry of the history begins. */
export function keepPlaces() {
  clearTimeout(timer);
  if (!moved.size) return;
  const scrolled = { ...history.state?.scrolled };
  for (const [name, node] of moved) if (node.isConnected) scrolled[name] = findPlace(node);
  moved.clear();
  history.replaceState({ ...history.state, scrolled }, "");
}

/** Another entry of the history is shown: what was scrolled in the one before is no place of this one. */
export function forgetMoves() {
  clearTimeout(timer);
  moved.clear();
  endRestoring();
}

/** Scroll what is shown now to where it was in this entry of the history, as its rows arrive. */
export function restorePlaces() {
  endRestoring();
  wanted = new Map(Object.entries(history.state?.scrolled ?? {}));
  if (!wanted.size) return;
  const started = performance.now();
  /** @type {Map<string, number>} */
  const reached = new Map();
  const stop = new AbortController();
  let frame = 0;
  endRestoring = () => {
    cancelAnimationFrame(frame);
    stop.abort();
    wanted.clear();
    endRestoring = () => {};
  };
  const step = () => {
    const now = performance.now();
    for (const [name, place] of wanted) {
      const node = findNode(name);
      if (node && show(node, place)) reached.set(name, reached.get(name) ?? now);
    }
    for (const [name, since] of reached) if (now - since > STEADY) wanted.delete(name);
    if (!wanted.size || now - started > PATIENCE) endRestoring();
    else frame = requestAnimationFrame(step);
  };
  for (const name of ["wheel", "touchstart", "pointerdown", "keydown"])
    addEventListener(name, () => endRestoring(), { capture: true, passive: true, signal: stop.signal });
  step();
}

/**
 * Scroll to a place, or have more rows loaded until it is there.
 * @param {HTMLElement} node
 * @param {ScrollPlace} place
 * @returns {boolean} whether it is there
 */
function show(node, { top, id, above }) {
  const row = id === undefined ? null : node.querySelector(`[data-id="${CSS.escape(id)}"]`);
  const wanted = row ? node.scrollTop + row.getBoundingClientRect().top - node.getBoundingClientRect().top + (above ?? 0) : top;
  const most = node.scrollHeight - node.clientHeight;
  if (Math.abs(node.scrollTop - Math.min(wanted, most)) > 1) node.scrollTop = wanted;
  if (most >= wanted - 1) return true;
  const more = /** @type {NodeListOf<HTMLButtonElement>} */ (node.querySelectorAll(MORE));
  more[more.length - 1]?.click();
  return false;
}

/**
 * @param {HTMLElement} node
 * @returns {ScrollPlace}
 */
function findPlace(node) {
  const edge = node.getBoundingClientRect().top;
  for (const row of node.querySelectorAll("[data-id]")) {
    const box = row.getBoundingClientRect();
    if (box.height && box.bottom > edge) return { top: node.scrollTop, id: row.getAttribute("data-id") ?? "", above: edge - box.top };
  }
  return { top: node.scrollTop };
}

/** @param {Element} node */
function nameOf(node) {
  return `${node.classList[0] ?? ""} ${node.getAttribute("aria-label") ?? ""}`;
}

/**
 * @param {string} name
 * @returns {HTMLElement | undefined}
 */
function findNode(name) {
  const [group = ""] = name.split(" ");
  return [...document.querySelectorAll(`main .${CSS.escape(group)}`)]
    .find(/** @returns {node is HTMLElement} */ (node) => nameOf(node) === name);
}

/**
 * Something was scrolled.
 * @param {EventTarget | null} target
 */
export function noteMove(target) {
  if (!(target instanceof HTMLElement) || !target.closest("main") || !target.classList.length
    || target.matches("[data-own-place], textarea, input")) return;
  const name = nameOf(target);
  if (wanted.has(name)) return;
  moved.set(name, target);
  clearTimeout(timer);
  timer = setTimeout(keepPlaces, DELAY);
}
