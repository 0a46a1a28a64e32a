/** Ctrl K: finds pages, chats and actions by some letters; chats also by what was said in them. */

import { ApiError, canChange, get, may } from "../core/api.js";
import { el, fill, icon, unlessPressed } from "../core/el.js";
import { foldText } from "../core/folding.js";
import { navigate } from "../core/router.js";
import { shortTime } from "../core/time.js";
import { chats } from "../agent/chats.js";
import { PAGES } from "../pages.js";
import { accountItems } from "./account.js";
import { openDialog } from "./dialog.js";

const MOST = 8;
const DELAY = 150;

/** @typedef {{ label: string, note?: string, icon: string, group: string, run: () => void }} Entry */

/** Open the search, once: what opens it may be pressed again while this is loaded. */
export function showPalette() {
  if (document.querySelector("dialog[open]")) return;
  void openDialog("Find", (close) => {
    const results = el("ul", { class: "found", role: "listbox", id: "found", "aria-label": "Results" });
    const input = el("input", {
      class: "find", autofocus: true, role: "combobox", "aria-expanded": "true", "aria-controls": "found",
      "aria-label": "Find a page, a chat or an action", placeholder: "Find a page, a chat or an action…",
    });
    let chosen = 0;
    /** @type {Entry[]} */
    let shown = [];
    /** @type {AbortController | null} */
    let searching = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    /** @type {readonly Entry[]} */
    let named = [];
    listGateway().then((found) => {
      named = found;
      if (input.value.trim()) void search(chosen);
    });

    const show = (/** @type {Entry[]} */ entries, searches = false) => void unlessPressed([results], () => {
      shown = entries;
      chosen = Math.min(chosen, Math.max(0, shown.length - 1));
      let group = "";
      fill(results, shown.length ? shown.flatMap((entry, index) => {
        const head = entry.group === group ? [] : [el("li", { class: "group", role: "presentation" }, entry.group)];
        group = entry.group;
        return [...head, el("li", {
          role: "option", id: `found-${index}`, "aria-selected": String(index === chosen), onclick: () => run(entry),
        }, icon(entry.icon), el("span", null, entry.label, entry.note ? el("small", null, entry.note) : null))];
      }) : el("li", { class: "none", role: "presentation" }, searches ? "Searching…" : "Nothing found"));
      input.setAttribute("aria-activedescendant", shown.length ? `found-${chosen}` : "");
      results.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
    });
    const run = (/** @type {Entry} */ entry) => {
      close();
      entry.run();
    };
    const search = async (first = 0) => {
      searching?.abort();
      clearTimeout(timer);
      const text = input.value.trim();
      const near = [...find(text), ...filterByWords(named, text)];
      chosen = first;
      show(near, text.length > 1);
      if (text.length < 2) return;
      searching = new AbortController();
      const { signal } = searching;
      timer = setTimeout(async () => {
        const known = new Set(near.map((entry) => entry.label));
        const further = await listGateway({ name: text, limit: MOST }, signal);
        near.push(...further.filter(({ group, label }) => !near.some((one) => one.group === group && one.label === label)));
        if (!signal.aborted) show(near, true);
        /** @type {Entry[]} */
        const said = [];
        try {
          /** @type {number | null} */
          let before = null;
          do { // a search reads so much at once, and says where to go on
            /** @type {import("../api.d.ts").ChatsView} */
            const page = await get("/api/chats", { text, limit: MOST, before }, signal);
            said.push(...page.chats.filter((chat) => chat.match || !known.has(chat.title)).map(inMessages));
            before = page.next;
            show([...near, ...said], before !== null);
          } while (before !== null && said.length < MOST);
        } catch (error) {
          if (!(error instanceof ApiError) && !signal.aborted) throw error;
        }
      }, DELAY);
    };
    input.addEventListener("input", () => void search());
    input.addEventListener("keydown", (event) => {
      const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      const entry = shown[chosen];
      if (by && shown.length) {
        chosen = (chosen + by + shown.length) % shown.length;
        show(shown);
      } else if (event.key === "Enter" && entry) {
        run(entry);
      } else {
        return;
      }
      event.preventDefault();
    });
    show(find(""));
    return [el("div", { class: "finder" }, icon("search"), input), results];
  }, { plain: true });
}

/** @param {import("../api.d.ts").ListedChat} chat */
function inMessages(chat) {
  const hash = chat.match ? `#m${chat.match.messageId}` : "";
  return { label: chat.title, note: chat.match?.excerpt ?? "", icon: "chat", group: "In messages",
    run: () => void navigate(`/${chat.chatId}${hash}`) };
}

/**
 * Access keys, channels and models of the gateway, for administrators; a list that cannot be read is left out.
 * @param {{ name?: string, limit?: number }} [wanted] by default the first ones
 * @param {AbortSignal} [abort]
 * @returns {Promise<Entry[]>}
 */
async function listGateway(wanted = {}, abort) {
  if (!may("administrator")) return [];
  /** @type {(path: string, note: string, sign: string) => (named: { name: string, id?: string }) => Entry} */
  const entry = (path, note, sign) => ({ name, id }) =>
    ({ label: name, note, icon: sign, group: "Gateway", run: () => void navigate(`/gateway/${path}/${encodeURIComponent(id ?? name)}`) });
  const leaveOut = (/** @type {unknown} */ error) => {
    if (!(error instanceof ApiError) && !abort?.aborted) throw error;
    return { items: [] };
  };
  const lists = await Promise.all([
    get("/api/agent/keys", wanted, abort).catch(leaveOut).then(({ items }) => items.map(entry("keys", "access key", "key"))),
    get("/api/agent/channels", wanted, abort).catch(leaveOut).then(({ items }) => items.map(entry("channels", "channel", "plug"))),
    get("/api/agent/models", wanted, abort).catch(leaveOut).then(({ items }) => items.map(entry("models", "model", "cube"))),
  ]);
  return lists.flat();
}

/**
 * Those that have all words in their name or note; none for no words.
 * @param {readonly Entry[]} entries
 * @param {string} text
 */
function filterByWords(entries, text) {
  const fits = matcher(text);
  return text ? entries.filter(({ label, note }) => fits(`${label} ${note}`)).slice(0, MOST) : [];
}

/**
 * Whether a text has all words of another.
 * @param {string} text
 * @returns {(where: string) => boolean}
 */
function matcher(text) {
  const words = foldText(text).split(/\s+/).filter(Boolean);
  return (where) => words.every((word) => foldText(where).includes(word));
}

/**
 * @param {string} text
 * @returns {Entry[]}
 */
function find(text) {
  const fits = matcher(text);
  const pages = PAGES.flatMap(({ path, place }) => (place && may(place.role ?? "viewer") ? [{ path, ...place }] : []))
    .filter((place) => fits(`${place.label} ${place.group ?? ""} ${place.area} ${place.words ?? ""}`))
    .map((place) => ({
      label: place.label, note: place.area === "agent" ? "" : place.area, icon: place.icon, group: "Pages",
      run: () => void navigate(place.path),
    }));
  const recent = [...chats.peek().values()].sort((one, other) => other.updatedAt.localeCompare(one.updatedAt))
    .filter((chat) => fits(chat.title)).slice(0, MOST)
    .map((chat) => ({
      label: chat.title, note: shortTime(chat.updatedAt), icon: "chat", group: "Chats", run: () => void navigate(`/${chat.chatId}`),
    }));
  const actions = [
    { label: "New chat", icon: "plus", onselect: () => void navigate("/") },
    ...accountItems().flatMap((item) => (item && (!item.changes || canChange(item.changes)) ? [item] : [])),
  ].filter((item) => fits(item.label))
    .map((item) => ({ label: item.label, icon: item.icon ?? "sun", group: "Actions", run: item.onselect }));
  return [...recent, ...pages, ...actions];
}
