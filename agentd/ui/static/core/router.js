/**
 * Which page an address shows. A page is a module with `export function page(params)`, which
 * returns its title and its body; what it makes ends when another page is shown.
 */

import { BASE } from "./api.js";
import { scope, signal } from "./signals.js";

/**
 * @typedef {{ title: string | (() => string), body: Node, area?: "agent" | "settings" | "gateway" }} Page
 * @typedef {{ page: (params: Record<string, string>) => Page }} PageModule
 * @typedef {{ path: string, load: () => Promise<PageModule>, bare?: boolean }} Route
 */

/** The address within agentd, such as `/17`. */
export const path = signal(currentPath());
/** What stands behind the question mark. */
export const query = signal(new URLSearchParams(location.search));

/** @type {readonly Route[]} */
let routes = [];
/** @type {(page: Page, route: Route) => void} */
let show = () => {};
/** @type {(error: unknown) => void} */
let fail = () => {};
/** @type {() => void} */
let end = () => {};
let navigation = 0;
/** Whether the address is already the next page's, while the one before is still shown. */
let isLeaving = false;
/** What keeps the places of lists, once something is scrolled. @type {typeof import("./scrolling.js") | undefined} */
let places;

/** Whether somebody who goes back stays on the page. */
let isHeld = () => false;

/**
 * Let this decide whether somebody who goes back stays on the page, whose address it then restores.
 * @param {() => boolean} hold
 */
export function holdBack(hold) {
  isHeld = hold;
}

/**
 * Show the pages of these routes from now on, the present one first.
 * @param {readonly Route[]} table
 * @param {{ show: (page: Page, route: Route) => void, fail: (error: unknown) => void }} view
 */
export function startRouter(table, view) {
  routes = table;
  ({ show, fail } = view);
  addEventListener("popstate", () => {
    if (isHeld()) return;
    places?.forgetMoves();
    void render();
  });
  addEventListener("pagehide", () => places?.keepPlaces());
  document.addEventListener("scroll",
    ({ target }) => void loadPlaces().then((loaded) => isLeaving || loaded?.noteMove(target)), { capture: true, passive: true });
  document.addEventListener("click", followLink);
  return render();
}

/**
 * Go to an address within agentd.
 * @param {string} to
 * @param {{ replace?: boolean }} [options]
 */
export function navigate(to, { replace = false } = {}) {
  const url = link(to);
  places?.keepPlaces();
  places?.forgetMoves();
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  return render();
}

/**
 * Change what stands behind the question mark, without another page.
 * @param {Record<string, string | null>} changes
 */
export function setQuery(changes) {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  history.replaceState(history.state, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
  query.value = next;
}

/**
 * The address of a page of ours, as a link has it.
 * @param {string} to such as `/17`
 */
export function link(to) {
  return BASE + to.replace(/^\//, "");
}

/** Show the page of the address again, from the beginning. */
export async function render() {
  const ours = ++navigation;
  isLeaving = true;
  const found = match(currentPath());
  try {
    if (!found) throw new Error("There is no such page");
    const module = await found.route.load();
    if (ours !== navigation) return;
    leave();
    const [page, finish] = scope(() => module.page(found.params));
    end = finish;
    show(page, found.route);
    if (history.state?.scrolled) (await loadPlaces())?.restorePlaces();
  } catch (error) {
    if (ours !== navigation) return;
    leave();
    fail(error);
  }
}

/** The page that is shown ends; only then the address is told, for it is the next page's and says nothing to this one. */
function leave() {
  end();
  end = () => {};
  isLeaving = false;
  path.value = currentPath();
  query.value = new URLSearchParams(location.search);
}

/** Without it, as when the daemon is not reached, lists only begin at their start. */
async function loadPlaces() {
  return (places ??= await import("./scrolling.js").catch(() => undefined));
}

/** @param {string} at */
function match(at) {
  const given = at.split("/").slice(1);
  for (const route of routes) {
    const wanted = route.path.split("/").slice(1);
    if (wanted.length !== given.length) continue;
    /** @type {Record<string, string>} */
    const params = {};
    const fits = wanted.every((part, index) => {
      const text = given[index] ?? "";
      if (!part.startsWith(":")) return part === text;
      if (part === ":chatId" && !/^[1-9][0-9]{0,15}$/.test(text)) return false;
      params[part.slice(1)] = decode(text);
      return text !== "";
    });
    if (fits) return { route, params };
  }
  return null;
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function currentPath() {
  const at = location.pathname;
  return `/${at.startsWith(BASE) ? at.slice(BASE.length) : ""}`;
}

/** @param {MouseEvent} event */
function followLink(event) {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const anchor = event.target instanceof Element ? event.target.closest("a") : null;
  if (!anchor || anchor.target || anchor.hasAttribute("download")) return;
  const url = new URL(anchor.href, location.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(BASE)) return;
  const inside = `/${url.pathname.slice(BASE.length)}`;
  if (!match(inside)) return;
  if (url.hash && url.pathname === location.pathname && url.search === location.search) return;
  event.preventDefault();
  void navigate(inside + url.search + url.hash);
}
