/** The routes of a model as a list: ordered by dragging or by keys, weighed where several are tried alike. */

import { call, callTagged } from "../core/api.js";
import { ApiError } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { list } from "../core/list.js";
import { price } from "../core/money.js";
import { computed, effect, onEnd, signal } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";
import { menuButton } from "../parts/menu.js";
import { toast } from "../parts/toast.js";
import { cardDrafts } from "../settings/drafts.js";
import { card, failureLine, sendForm } from "../settings/frame.js";
import { resourceForm } from "./form.js";
import { PRICE_FIELDS } from "./price_fields.js";

/**
 * @typedef {{ channel: string, model: string, priority: number, weight: number, prices: any }} Route
 * @typedef {{ id: number, channel: string, model: string, weight: number, prices: any, alike: boolean }} Row
 *   `alike`: it is tried as early as the one above it, and their weights decide
 */

const REQUIRED = ["prices.input", "prices.output"];

const hasOwnPrices = (/** @type {(name: string) => string} */ value) => value("own") === "true";

/** What was changed in the routes of each model and not saved, and the routes that it was changed from, as text. */
const draftOf = /** @type {typeof cardDrafts<{ rows: readonly Row[], saved: string }>} */ (cardDrafts)();

let ids = 0;

/** @param {readonly Route[]} routes @returns {Row[]} */
export function toRows(routes) {
  const ordered = routes.map((route, index) => ({ route, index }))
    .sort((one, other) => one.route.priority - other.route.priority || one.index - other.index);
  return ordered.map(({ route }, index) => ({
    id: ++ids, channel: route.channel, model: route.model, weight: route.weight, prices: route.prices,
    alike: index > 0 && ordered[index - 1]?.route.priority === route.priority,
  }));
}

/** @param {readonly Row[]} rows @returns {Route[]} */
export function toRoutes(rows) {
  let priority = 0;
  return rows.map(({ channel, model, weight, prices, alike }, index) => {
    if (index && !alike) priority += 1;
    return { channel, model, weight, prices, priority };
  });
}

/**
 * Move a row; the first one has none above it, and what is moved is tried by itself.
 * @param {readonly Row[]} rows
 * @param {number} id
 * @param {number} to
 */
export function moveRow(rows, id, to) {
  const row = rows.find((one) => one.id === id);
  if (!row) return rows;
  const from = rows.indexOf(row);
  const others = rows.filter((one) => one !== row);
  const follower = others[from];
  if (follower && follower.alike && !row.alike) others[from] = { ...follower, alike: false };
  const next = others.toSpliced(Math.max(0, Math.min(to, others.length)), 0, from === to ? row : { ...row, alike: false });
  const [first, ...rest] = next;
  return first ? [{ ...first, alike: false }, ...rest] : next;
}

/**
 * Which part of the requests each row gets, of those that are tried as early.
 * @param {readonly Row[]} rows
 */
export function sharesOf(rows) {
  const routes = toRoutes(rows);
  return routes.map(({ priority, weight }) => {
    const alike = routes.filter((one) => one.priority === priority);
    const sum = alike.reduce((total, one) => total + one.weight, 0);
    return alike.length < 2 ? null : sum ? weight / sum : 1 / alike.length;
  });
}

/**
 * @param {string} path of the model
 * @param {readonly Route[]} routes
 * @param {() => readonly string[]} channels
 * @param {import("../core/signals.js").Signal<boolean>} unsaved whether something in it is not saved
 * @param {() => void} done
 */
export function routesCard(path, routes, channels, unsaved, done) {
  const { draft, keep } = draftOf(path);
  const before = toRows(routes);
  const saved = draft?.saved ?? JSON.stringify(toRoutes(before));
  const rows = signal(draft?.rows ?? before);
  const shares = computed(() => sharesOf(rows.value));
  const isChanged = computed(() => JSON.stringify(toRoutes(rows.value)) !== saved);
  effect(() => {
    unsaved.value = isChanged.value;
  });
  let isOver = false;
  onEnd(() => keep(isChanged.peek() && !isOver ? { rows: rows.peek(), saved } : undefined));
  const end = () => {
    isOver = true;
    keep(undefined); // also where the page was left before the answer
    done();
  };
  const failed = signal(/** @type {unknown} */ (null));
  const change = (/** @type {number} */ id, /** @type {Partial<Row>} */ fields) => {
    rows.value = rows.peek().map((row) => (row.id === id ? { ...row, ...fields } : row));
  };
  const body = el("ol", { class: "rows routes", "aria-label": "Routes, in the order in which they are tried" });
  list(body, () => rows.value, (row) => row.id, (row) => routeRow(row));

  async function save() {
    failed.value = null;
    try {
      const { body: now, etag } = await callTagged("GET", path);
      if (JSON.stringify(toRoutes(toRows(now.routes))) !== saved) {
        throw new ApiError(412, "precondition", "Somebody changed the routes meanwhile", "Discard to see theirs.");
      }
      await call("PATCH", path, { body: { routes: toRoutes(rows.peek()) }, ifMatch: etag });
      toast("The routes are saved");
      end();
    } catch (error) {
      if (!(error instanceof ApiError)) reportError(error);
      failed.value = error;
    }
  }

  /** @param {import("../core/signals.js").ReadonlySignal<Row>} row */
  function routeRow(row) {
    const { id } = row.peek();
    const position = computed(() => rows.value.findIndex((one) => one.id === id));
    const share = computed(() => shares.value[position.value] ?? null);
    const move = (/** @type {number} */ to) => {
      rows.value = moveRow(rows.peek(), id, to);
      queueMicrotask(() => /** @type {HTMLElement | null} */ (node.querySelector(".grip"))?.focus());
    };
    /** @type {HTMLElement} */
    const node = el("li", { class: () => (row.value.alike ? "route alike" : "route") },
      el("button", { class: "grip", changes: "administrator", type: "button", title: "Drag, or Alt ↑↓",
        "aria-label": () => `Move the route through ${row.value.channel}`,
        onpointerdown: (/** @type {PointerEvent} */ event) => drag(event, node, id) }, icon("grip")),
      el("span", { class: "name" }, el("span", { class: "chip num" }, () => (row.value.alike ? "or" : position.value ? "then" : "first")),
        el("b", null, el("bdi", null, () => row.value.channel)),
        () => (row.value.model ? el("small", null, row.value.model) : null),
        () => (row.value.prices
          ? el("span", { class: "chip num" },
            `${price(Number(row.value.prices.input))} in, ${price(Number(row.value.prices.output))} out`)
          : null)),
      el("span", { class: "ends" },
        () => (share.value === null ? null : el("label", { class: "weight" }, el("span", null, `${Math.round((share.value ?? 0) * 100)} %`),
          el("input", { class: "input", inputmode: "numeric", "aria-label": `Weight of ${row.peek().channel}`, value: row.peek().weight,
            onchange: (/** @type {Event} */ event) => {
              const input = /** @type {HTMLInputElement} */ (event.target);
              const typed = Math.trunc(Number(input.value));
              const weight = Number.isFinite(typed) ? Math.max(0, Math.min(1000, typed)) : row.peek().weight;
              input.value = String(weight);
              change(id, { weight });
            } }))),
        menuButton({ class: "btn plain icon small", "aria-label": `Actions for the route through ${row.peek().channel}` },
          [icon("more")], () => [
            { label: "Edit", icon: "pencil", changes: "administrator",
              onselect: () => void editRoute(row.peek(), channels(), (fields) => change(id, fields)) },
            position.peek() > 0 && (row.peek().alike
              ? { label: "Try it after the one above", changes: "administrator", onselect: () => change(id, { alike: false }) }
              : { label: "Share with the one above, by weight", changes: "administrator", onselect: () => change(id, { alike: true }) }),
            { label: "Move up", icon: "up", hint: "Alt ↑", disabled: position.peek() === 0, changes: "administrator",
              onselect: () => move(position.peek() - 1) },
            { label: "Move down", icon: "down", hint: "Alt ↓", disabled: position.peek() === rows.peek().length - 1,
              changes: "administrator", onselect: () => move(position.peek() + 1) },
            null,
            { label: "Remove", icon: "trash", danger: true, disabled: rows.peek().length < 2, changes: "administrator",
              note: rows.peek().length < 2 ? "A model needs one route" : "", onselect: () => {
                const [first, ...rest] = rows.peek().filter((one) => one.id !== id);
                if (first) rows.value = [{ ...first, alike: false }, ...rest];
              } },
          ])));
    node.addEventListener("keydown", (event) => {
      const by = event.key === "ArrowUp" ? -1 : event.key === "ArrowDown" ? 1 : 0;
      if (!event.altKey || !by) return;
      event.preventDefault();
      event.stopPropagation();
      const to = position.peek() + by;
      if (to >= 0 && to < rows.peek().length) move(to);
    });
    return node;
  }

  /** @param {PointerEvent} event @param {HTMLElement} node @param {number} id */
  function drag(event, node, id) {
    if (event.button) return;
    const grip = /** @type {HTMLElement} */ (event.currentTarget);
    grip.setPointerCapture(event.pointerId);
    const before = rows.peek();
    const follow = (/** @type {PointerEvent} */ now) => {
      node.classList.add("lift");
      const others = [...body.children].filter((one) => one !== node);
      const to = others.filter((one) => one.getBoundingClientRect().top + one.getBoundingClientRect().height / 2 < now.clientY).length;
      rows.value = moveRow(before, id, to);
    };
    grip.addEventListener("pointermove", follow);
    grip.addEventListener("lostpointercapture", () => {
      grip.removeEventListener("pointermove", follow);
      node.classList.remove("lift");
    }, { once: true });
  }

  const add = () => editRoute(null, channels(), (fields) => {
    rows.value = [...rows.peek(), { id: ++ids, channel: "", model: "", weight: 1, prices: null, alike: false, ...fields }];
  });
  return card({
    title: "Routes", text: "The channels that serve it, tried in this order; channels of the same priority are chosen by weight.",
    actions: [
      el("button", { class: "btn", changes: "administrator", disabled: () => !channels().length, onclick: () => void add() },
        icon("plus"), "Add a route"),
    ],
  }, body,
  el("div", { role: "alert" }, () => (failed.value ? el("div", { class: "inside" }, failureLine(failed.value)) : null)),
  () => (isChanged.value ? el("footer", null, el("span", { class: "grow" }, "Not saved"),
    el("button", { class: "btn plain", onclick: end }, "Discard"),
    el("button", { class: "btn main", changes: "administrator", onclick: () => void save() }, "Save routes")) : null));
}

/**
 * @param {Row | null} row null: a new one
 * @param {readonly string[]} channels
 * @param {(fields: Partial<Row>) => void} done
 */
function editRoute(row, channels, done) {
  return openDialog(row ? "Edit the route" : "Add a route", (close) => {
    const names = row && !channels.includes(row.channel) ? [...channels, row.channel] : channels;
    const form = resourceForm([
      { name: "channel", label: "Channel", kind: "choice", options: names.map((name) => [name, name]), required: true },
      { name: "model", label: "The supplier's name of the model", hint: "Leave empty if it is the same as here." },
      { name: "own", label: "Own prices, in place of the model's", kind: "check", wide: true },
      ...PRICE_FIELDS.map((field) => ({ ...field, required: REQUIRED.includes(field.name), when: hasOwnPrices })),
    ], { channel: row?.channel ?? channels[0] ?? "", model: row?.model ?? "", own: Boolean(row?.prices), prices: row?.prices ?? null });
    const send = async () => {
      const changes = form.changes();
      const prices = form.value("own") ? changes.prices ?? row?.prices ?? null : null;
      close();
      done({ channel: form.value("channel"), model: form.value("model").trim(), prices });
    };
    return [sendForm({ action: row ? "Change" : "Add", oncancel: () => close(), send }, form.node)];
  }, { wide: true });
}
