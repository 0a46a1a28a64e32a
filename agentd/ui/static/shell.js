/** What stands around every page: the sidebar, the bottom bar of phones, banners, keys. */

import { ApiError, may, reachable, session } from "./core/api.js";
import { ASSETS, dot, el, fill, icon, svg } from "./core/el.js";
import { list } from "./core/list.js";
import * as live from "./core/live.js";
import { link, path, render } from "./core/router.js";
import { computed, effect, signal } from "./core/signals.js";
import { installKeys, openPalette } from "./parts/keys.js";
import { closeMenu, menuButton } from "./parts/menu.js";
import { toast } from "./parts/toast.js";
import { approvals, asking, chats, loading, onChatsChange } from "./agent/chats.js";
import { chatList } from "./agent/chat_list.js";
import { PAGES, placesOf } from "./pages.js";

/** Milliseconds for which a chat is in a state before it is told: the first word about a turn's end may be corrected. */
const SETTLES = 1000;

/** @type {import("./core/signals.js").Signal<"agent" | "settings" | "gateway">} */
const area = signal("agent");
const title = signal("agentd");
/** Whether the running daemon has other files than this page. */
const updated = signal(false);

const main = el("main", { id: "main", tabindex: -1 });
/** @type {HTMLElement | null} */
let frame = null;
/** @type {() => void} */
let endTitle = () => {};

effect(() => {
  document.title = `${asking.value ? `(${asking.value}) ` : ""}${title.value} · agentd`;
});

addEventListener("unhandledrejection", (event) => {
  if (!isImportError(event.reason)) return;
  event.preventDefault();
  toast("This could not be loaded", { kind: "bad" });
  void checkVersion();
});

/**
 * Whether a module was not loaded: the network failed, or the daemon has another version.
 * @param {unknown} error
 */
function isImportError(error) {
  return error instanceof TypeError && /import/i.test(error.message);
}

/**
 * Show a page inside the shell.
 * @param {import("./core/router.js").Page} page
 */
export function showPage(page) {
  area.value = page.area ?? areaOf(path.peek());
  follow(page);
  if (!frame) {
    frame = buildFrame();
    installKeys();
  }
  if (!frame.isConnected) document.body.replaceChildren(frame, ...kept());
  fill(main, page.body);
  closeMenu(true);
  if (!main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

/**
 * Show a page that stands alone, such as the login.
 * @param {import("./core/router.js").Page} page
 */
export function showBare(page) {
  follow(page);
  document.body.replaceChildren(el("main", { id: "main", class: "alone" }, page.body), ...kept());
  /** @type {HTMLElement | null} */ (document.querySelector("[autofocus]"))?.focus();
}

/**
 * Say why a page cannot be shown.
 * @param {unknown} error
 */
export function showFailure(error) {
  if (isImportError(error)) void checkVersion();
  const known = error instanceof ApiError || (error instanceof Error && error.message === "There is no such page");
  if (!known) reportError(error);
  const message = error instanceof Error && known ? error.message : "This page could not be loaded";
  showPage({ title: "Not found", body: el("div", { class: "empty" }, icon("warning"), el("h1", null, message),
    el("p", null, el("a", { class: "btn", href: link("/chats") }, "Chats"), " ",
      el("button", { class: "btn", onclick: () => (known ? render() : location.reload()) }, "Retry"))) });
}

/** @param {import("./core/router.js").Page} page */
function follow(page) {
  endTitle();
  const text = page.title;
  endTitle = effect(() => {
    title.value = typeof text === "function" ? text() : text;
  });
}

/** Toasts, open menus and dialogs, which outlive a page. */
function kept() {
  return document.querySelectorAll(".toasts, dialog, .menu");
}

/** @param {string} at */
function areaOf(at) {
  const first = at.split("/")[1];
  return first === "gateway" || first === "settings" ? first : "agent";
}

function buildFrame() {
  return el("div", { class: () => `shell in-${path.value === "/chats" ? "list" : /^\/\d/.test(path.value) ? "chat" : "page"}` },
    el("a", { class: "skip", href: "#main", onclick: skip }, "Skip to the page"),
    buildAnnouncer(),
    buildSidebar(),
    el("div", { class: "stage" }, buildBanner(), main),
    buildTabBar());
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  main.focus();
}

function buildSidebar() {
  return el("aside", { class: "side", "aria-label": "Chats and areas" },
    el("div", { class: "top" },
      el("div", { class: "brand" }, el("a", { href: link("/"), class: "home" }, buildMark(), "agentd"),
        () => mayGateway()
          ? el("nav", { class: "seg", "aria-label": "Area" },
            areaLink("Agent", "/", () => area.value !== "gateway"),
            areaLink("Gateway", "/gateway", () => area.value === "gateway"))
          : null),
      () => (area.value === "agent" ? buildSearch() : null)),
    el("div", { class: "list", tabindex: 0, role: "group", "aria-label": "Navigation" },
      () => (area.value === "agent" ? [buildNav("agent"), chatList()] : buildNav(area.value))),
    buildFoot());
}

/** Whether the person has the gateway's pages, where there are any. */
function mayGateway() {
  return may("administrator") && placesOf("gateway").length > 0;
}

/** Our mark: a door that stands open. */
export function buildMark() {
  return svg("svg", { class: "mark", viewBox: "0 0 20 20", "aria-hidden": "true" },
    svg("path", { d: "M4 18V3.6C4 2.7 4.7 2 5.6 2h8.8c.9 0 1.6.7 1.6 1.6V18M2 18h16", class: "mark-line" }),
    svg("path", { d: "M4 4.2 11 6.4V18H4Z", fill: "currentColor" }),
    svg("circle", { cx: 9, cy: 12, r: 1, class: "mark-knob" }));
}

/**
 * @param {string} label
 * @param {string} to
 * @param {() => boolean} isCurrent
 */
function areaLink(label, to, isCurrent) {
  return el("a", { href: link(to), "aria-current": () => (isCurrent() ? "page" : null) }, label);
}

function buildSearch() {
  return el("div", { class: "row2" },
    el("button", { class: "field", onclick: openPalette }, icon("search"), el("span", null, "Search"), el("kbd", null, "/")),
    el("a", { class: "btn main icon", href: link("/"), "aria-label": "New chat", title: "New chat (N)" }, icon("plus")));
}

/** @param {"agent" | "settings" | "gateway"} which */
function buildNav(which) {
  const places = placesOf(which).filter((place) => !place.within && may(place.role ?? "viewer"));
  /** @type {Map<string, typeof places>} */
  const byGroup = new Map();
  for (const place of places) byGroup.set(place.group ?? "", [...(byGroup.get(place.group ?? "") ?? []), place]);
  return el("nav", { class: "nav", "aria-label": which === "agent" ? "Agent" : which === "settings" ? "Settings" : "Gateway" },
    [...byGroup].map(([group, members]) => [
      group ? el("h2", { class: "group" }, group) : null,
      el("ul", null, members.map((place) => el("li", null, navLink(place)))),
    ]).flat());
}

/** @param {{ path: string, label: string, icon: string }} place */
function navLink(place) {
  const within = PAGES.filter((one) => one.place?.within === place.path).map((one) => one.path);
  const isCurrent = () => path.value === place.path || within.includes(path.value)
    || (place.path.split("/").length > 2 && path.value.startsWith(`${place.path}/`));
  return el("a", { class: "item", href: link(place.path), "aria-current": () => (isCurrent() ? "page" : null) },
    icon(place.icon), el("span", null, place.label),
    () => (place.path === "/inbox" && asking.value ? el("span", { class: "tally" }, asking.value) : null));
}

function buildFoot() {
  const name = computed(() => session.value?.user || "agentd");
  return el("div", { class: "foot" },
    el("span", { class: "who", "aria-hidden": "true" }, () => name.value.slice(0, 2).toUpperCase()),
    el("span", { class: "grow" }, () => name.value, el("small", null,
      () => dot(live.state.value === "live" ? "good" : "need"),
      () => `${live.state.value === "live" ? "live" : "reconnecting"} · ${location.hostname}`)),
    menuButton({ class: "btn plain icon small", "aria-label": "Settings and account" }, [icon("settings")],
      async () => (await import("./parts/account.js")).accountItems()));
}

function buildBanner() {
  let answered = true;
  effect(() => {
    if (reachable.value && !answered) void checkVersion();
    answered = reachable.value;
  });
  return el("div", { class: "banners", role: "status" },
    () => !reachable.value ? el("p", { class: "banner need" }, dot("need"), "agentd does not answer · trying again") : null,
    () => updated.value
      ? el("p", { class: "banner" }, "agentd was updated", el("button", { class: "btn small", onclick: () => location.reload() }, "Reload"))
      : null);
}

/** Tells who sees no screen that a chat needs somebody, is done or has failed; not what it says. */
function buildAnnouncer() {
  const region = el("div", { class: "hidden announcer", role: "status", "aria-live": "polite" });
  /** What was told last, or was so at the start. @type {Map<number, string>} */
  const announced = new Map();
  /** What is to be told of the chats that stand otherwise by now. @type {Map<number, string>} */
  const coming = new Map();
  let isRead = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const tell = () => {
    const words = [...coming].flatMap(([chatId, standing]) => {
      const isNew = !announced.has(chatId);
      announced.set(chatId, standing);
      const [word] = standing.split("#");
      const name = chats.peek().get(chatId)?.title;
      return word && name !== undefined && (!isNew || word === "Needs you") ? [`${word}: ${name}`] : [];
    });
    coming.clear();
    if (words.length) fill(region, words.map((text) => el("p", null, text)));
  };
  /** @param {Iterable<number>} chatIds */
  const look = (chatIds) => {
    if (loading.peek() !== "ready") return;
    for (const chatId of chatIds) {
      const standing = standingOf(chatId);
      if (standing === null || standing === announced.get(chatId)) {
        coming.delete(chatId);
      } else if (!isRead) {
        announced.set(chatId, standing);
      } else if (standing !== coming.get(chatId)) {
        coming.set(chatId, standing);
        clearTimeout(timer);
        timer = setTimeout(tell, SETTLES);
      }
    }
    isRead = true;
  };
  look(chats.peek().keys());
  onChatsChange(look);
  return region;
}

/**
 * How a chat stands: a question with its number, the end of its work, or nothing to tell; null: it is not known.
 * @param {number} chatId
 */
function standingOf(chatId) {
  const chat = chats.peek().get(chatId);
  if (!chat) return null;
  const asked = approvals.peek().findLast((one) => one.chatId === chatId);
  if (asked) return `Needs you#${asked.id}`;
  return chat.status !== "completed" ? "" : chat.state === "error" ? "Failed" : "Done";
}

/** After an interruption: is it still the version that this page is of? */
async function checkVersion() {
  try {
    const answer = await fetch(link("/login"), { cache: "no-store" });
    updated.value = answer.ok && !(await answer.text()).includes(/-\/[0-9a-f]+\//.exec(ASSETS)?.[0] ?? "");
  } catch {
    return;
  }
}

function buildTabBar() {
  const tabs = computed(() => [
    { label: "Chats", icon: "chat", to: "/chats", current: path.value === "/chats" || path.value === "/" },
    { label: "Needs you", icon: "inbox", to: "/inbox", current: path.value === "/inbox" },
    ...(mayGateway() ? [{ label: "Gateway", icon: "gauge", to: "/gateway", current: area.value === "gateway" }] : []),
    { label: "Settings", icon: "settings", to: "/settings/you", current: area.value === "settings" },
  ]);
  const elsewhere = () => /^\/(workspace|analytics|schedules|chats\/trash)/.test(path.value);
  const more = menuButton({ "aria-label": "More pages", "aria-current": () => (elsewhere() ? "true" : null) }, [icon("more"), "More"],
    async () => (await import("./parts/account.js")).morePages());
  const bar = el("nav", { class: "tabbar only-phone", "aria-label": "Areas" });
  list(bar, () => tabs.value, (tab) => tab.label, (tab) => el("a",
    { href: () => link(tab.value.to), "aria-current": () => (tab.value.current ? "page" : null) },
    icon(tab.peek().icon), tab.peek().label,
    () => (tab.value.label === "Needs you" && asking.value ? el("span", { class: "tally" }, asking.value) : null)));
  bar.append(more);
  return bar;
}
