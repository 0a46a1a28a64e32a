/** The service log: what happened to channels, keys and files, newest first. */

import { get } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { counted } from "../core/counts.js";
import { link, query, setQuery } from "../core/router.js";
import { computed, signal } from "../core/signals.js";
import { agoTime, fullTime } from "../core/time.js";
import { emptyState } from "../parts/frame.js";
import { card } from "../settings/frame.js";
import { following, forAdministrators, gatewayFrame, part, shown } from "./frame.js";

/**
 * @typedef {{ n: number, at: string, level: "info" | "warning" | "error", kind: string, text: string, channel: string, key: string,
 *   remote: string }} Note
 */

const AT_ONCE = 100;
const DOTS = { info: "off", warning: "need", error: "bad" };
const NAMES = ["level", "kind", "channel", "key"];

export const page = forAdministrators("Service log", () => {
  const filters = computed(() =>
    Object.fromEntries(NAMES.flatMap((name) => (query.value.get(name) ? [[name, query.value.get(name) ?? ""]] : []))));
  const most = signal(AT_ONCE);
  const reading = following(async (abort) => {
    /** @type {Note[]} */
    const items = [];
    let cursor = "";
    let dropped = 0;
    do {
      const found = await get("/api/agent/service-log", { ...filters.peek(), limit: AT_ONCE, cursor }, abort);
      items.push(...found.items);
      cursor = found.next;
      dropped = found.dropped;
    } while (cursor && items.length < most.peek());
    return { items, next: cursor, dropped };
  }, { every: 5000, events: ["gatewayConfigUpdate", "checkStep"], asked: () => filters.value });
  return {
    title: "Service log",
    body: gatewayFrame({ title: "Service log", narrow: true },
      card({ title: "Service log", text: "What happened to channels, keys and files. Requests have their own log." },
        el("div", { class: "inside" }, el("div", { class: "choose" },
          el("div", { class: "seg", role: "group", "aria-label": "Level" },
            [["", "All"], ["info", "Info"], ["warning", "Warnings"], ["error", "Errors"]].map(([level = "", label = ""]) =>
              el("button", { "aria-pressed": () => String((filters.value["level"] ?? "") === level), onclick: () => setQuery({ level }) },
                label))),
          () => NAMES.slice(1).filter((name) => filters.value[name]).map((name) =>
            el("button", { class: "pill", "aria-label": `Remove the filter ${name} ${filters.value[name]}`,
              onclick: () => setQuery({ [name]: null }) }, name, " ", el("b", null, filters.value[name]), icon("close"))))),
        shown(reading, (latest) => el("div", { class: "loaded" }, part(() => latest.value, ({ items, next, dropped }) => [
          dropped ? el("p", { class: "none" }, `${counted(dropped, "line")} lost since the start: the disk was too slow or full.`) : null,
          items.length
            ? el("ul", { class: "rows" }, items.map(noteRow))
            : emptyState("log", "Nothing here", "Starts, cooldowns, hand edits, failed sign-ins and checks appear here."),
          next ? el("button", { class: "btn more-rows", onclick: () => {
            most.value += AT_ONCE;
            void reading.reload();
          } }, `Show ${AT_ONCE} more`) : null,
        ]))))),
  };
});

/** @param {Note} note */
function noteRow(note) {
  return el("li", null,
    el("span", { class: "name" }, dot(DOTS[note.level]), el("span", { class: "hidden" }, note.level),
      el("span", { class: "note-text" }, note.text)),
    el("small", null, el("button", { class: "textlink", onclick: () => setQuery({ kind: note.kind }) }, note.kind),
      note.remote ? ` · from ${note.remote}` : "",
      note.channel
        ? [" · ", el("a", { href: link(`/gateway/channels/${encodeURIComponent(note.channel)}`) }, `channel ${note.channel}`)]
        : null,
      note.key ? [" · ", el("a", { href: link(`/gateway/keys/${note.key}`) }, "its key")] : null),
    el("span", { class: "ends" }, el("time", { class: "num", datetime: note.at, title: fullTime(note.at) }, agoTime(note.at))));
}
