/** Who changed what in the gateway, from where and when, with before and after; each can be undone. */

import { get, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { link, query, setQuery } from "../core/router.js";
import { computed, signal } from "../core/signals.js";
import { agoTime, fullTime } from "../core/time.js";
import { confirm } from "../parts/dialog.js";
import { emptyState } from "../parts/frame.js";
import { toast, toastError } from "../parts/toast.js";
import { card } from "../settings/frame.js";
import { following, forAdministrators, gatewayFrame, part, shown } from "./frame.js";

/**
 * @typedef {{ number: number, at: string, by: string, remote: string, action: string, resource: string, name: string,
 *   before: any, after: any, undoes: number | null, undoable: boolean }} Change
 */

const AT_ONCE = 100;
const RESOURCES = /** @type {const} */ ([
  "", "keys", "budgets", "channels", "models", "import", "secret-rules", "alert-targets", "management-keys",
  "settings", "daemon-settings", "licence", "requests", "session",
]);
const PAGES = /** @type {Record<string, string>} */ ({ keys: "keys/", channels: "channels/", models: "models/" });

export const page = forAdministrators("Changes", () => {
  const resource = computed(() => query.value.get("resource") ?? "");
  const most = signal(AT_ONCE);
  const reading = following(async (abort) => {
    /** @type {Change[]} */
    const items = [];
    let cursor = "";
    do {
      const found = await get("/api/agent/changes", { resource: resource.peek(), limit: AT_ONCE, cursor }, abort);
      items.push(...found.items);
      cursor = found.next;
    } while (cursor && items.length < most.peek());
    return { items, next: cursor };
  }, { events: ["gatewayConfigUpdate", "modelsUpdate"], asked: () => resource.value });
  /** @type {HTMLSelectElement} */
  const choose = el("select", { class: "input report-name", "aria-label": "What was changed",
    onchange: () => setQuery({ resource: choose.value }) },
    RESOURCES.map((one) => el("option", { value: one }, one || "everything")));
  choose.value = resource.peek();
  return {
    title: "Changes",
    body: gatewayFrame({ title: "Changes", narrow: true },
      card({ title: "Changes", text: "Every change by the browser or the API, with secrets masked. Edits by hand are in the service log.",
        actions: [choose] },
        shown(reading, (latest) => el("div", { class: "loaded" }, part(() => latest.value, ({ items, next }) => [
          items.length ? el("ul", { class: "rows" }, items.map((change) => changeRow(change, items, () => void reading.reload())))
            : emptyState("history", "No changes yet",
              "What administrators and programs change in the gateway appears here, and can be undone."),
          next ? el("button", { class: "btn more-rows", onclick: () => {
            most.value += AT_ONCE;
            void reading.reload();
          } }, `Show ${AT_ONCE} more`) : null,
        ]))))),
  };
});

/** @param {Change} change @param {readonly Change[]} all @param {() => void} reload */
function changeRow(change, all, reload) {
  const name = String(change.after?.name ?? change.before?.name ?? change.name);
  const undone = all.find((one) => one.undoes === change.number);
  const to = PAGES[change.resource];
  const found = differences(change);
  const fields = found.map((one) => one.field);
  const title = el("b", null, el("bdi", null, name));
  return el("li", null,
    el("span", { class: "name" }, el("span", { class: "chip" }, change.action), el("span", null, `${change.resource} `,
      to && change.after ? el("a", { href: link(`/gateway/${to}${encodeURIComponent(change.name)}`) }, title) : title)),
    el("small", null, `by ${change.by}${change.remote ? ` from ${change.remote}` : ""} · `,
      el("time", { datetime: change.at, title: fullTime(change.at) }, agoTime(change.at)), ` · no. ${change.number}`,
      change.undoes ? ` · undid no. ${change.undoes}` : "", undone ? ` · undone by no. ${undone.number}` : ""),
    found.length ? el("details", { class: "was-is" },
      el("summary", null, fields.slice(0, 4).join(", ") + (fields.length > 4 ? ` and ${fields.length - 4} more` : "")),
      el("dl", null, found.map(({ field, before, after }) => [el("dt", null, field), el("dd", null,
        before === undefined ? null : el("del", null, text(before)), " ",
        after === undefined ? null : el("ins", null, text(after)))]).flat())) : null,
    el("span", { class: "ends" }, change.undoable && !undone
      ? el("button", { class: "btn small", changes: "administrator", "aria-label": `Undo no. ${change.number}`,
        onclick: () => void undo(change, name, reload) }, icon("history"), "Undo")
      : null));
}

/** @param {unknown} value */
function text(value) {
  return typeof value === "string" ? value || "empty" : JSON.stringify(value);
}

/** @param {Change} change */
function differences({ before, after }) {
  const fields = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return fields.filter((field) => JSON.stringify(before?.[field]) !== JSON.stringify(after?.[field]))
    .map((field) => ({ field, before: before?.[field], after: after?.[field] }));
}

/** @param {Change} change @param {string} name @param {() => void} reload */
async function undo(change, name, reload) {
  const path = `/api/agent/changes/${change.number}/undo`;
  try {
    await post(`${path}?dry_run=true`);
    const sure = await confirm({
      title: `Undo no. ${change.number}?`, action: "Undo",
      text: `${change.resource} ${name} becomes as it was before. That is a change of its own, and can be undone, too.`,
    });
    if (!sure) return;
    await post(path);
    toast(`No. ${change.number} is undone`);
    reload();
  } catch (error) {
    toastError(error);
  }
}
