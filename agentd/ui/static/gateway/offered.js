/** What a channel's supplier offers: asked for on demand, picked, and created here as models with prices. */

import { get, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { count, counted } from "../core/counts.js";
import { price } from "../core/money.js";
import { link } from "../core/router.js";
import { signal } from "../core/signals.js";
import { toast } from "../parts/toast.js";
import { card, failureLine, listView, longList } from "../settings/frame.js";

/**
 * @typedef {{ model: string, title: string, context: number | null, maxOutput: number | null, models: string[],
 *   listed: import("./prices.js").Listed | null }} Offered
 */

/**
 * @param {string} name the channel
 * @param {() => void} done called when models were created
 */
export function offeredCard(name, done) {
  const path = `/api/agent/channels/${encodeURIComponent(name)}/models`;
  const offer = signal(/** @type {{ items: Offered[], complete: boolean } | null} */ (null));
  const failed = signal(/** @type {unknown} */ (null));
  const busy = signal(false);
  /** @type {import("../core/signals.js").Signal<ReadonlySet<string>>} */
  const picked = signal(new Set());
  const view = listView();
  /** @param {() => Promise<void>} action */
  const attempt = async (action) => {
    if (busy.peek()) return;
    busy.value = true;
    failed.value = null;
    try {
      await action();
    } catch (error) {
      failed.value = error;
    }
    busy.value = false;
  };
  const ask = async () => {
    offer.value = await get(path);
    picked.value = new Set();
  };
  const create = async () => {
    const items = offer.peek()?.items ?? [];
    const models = items.filter((one) => picked.peek().has(one.model))
      .map(({ model, context, maxOutput }) => ({ model, context: context && context >= 1000 ? context : null, maxOutput }));
    const made = (await post(path, { models })).items;
    const unpriced = made.filter((/** @type {any} */ one) => one.prices === null).length;
    toast(`${counted(made.length, "model")} created${unpriced ? `, ${unpriced} without prices` : ""}; Changes can undo it`);
    done();
    await ask();
  };
  const pick = (/** @type {string} */ model, /** @type {boolean} */ isPicked) => {
    const names = new Set(picked.peek());
    if (isPicked) names.add(model);
    else names.delete(model);
    picked.value = names;
  };
  const list = (/** @type {Offered[]} */ items) => items.length
    ? longList(items, (one) => `${one.model} ${one.title}`, offeredRow, "models", view)
    : el("p", { class: "none" }, "It lists no models.");
  return card({ title: "Models the supplier offers",
    text: "Asks the supplier for its own list. Picked models are created under the supplier's names, " +
      "with the catalogue's prices where it has them.",
    actions: [
      () => (offer.value
        ? el("button", { class: "btn main", changes: "administrator", disabled: () => busy.value || !picked.value.size,
          onclick: () => void attempt(create) },
          icon("plus"), () => (picked.value.size ? `Create ${counted(picked.value.size, "model")}` : "Create"))
        : null),
      el("button", { class: "btn", changes: "administrator", disabled: () => busy.value, onclick: () => void attempt(ask) },
        icon("reload"), "List them"),
    ] },
  el("div", { role: "status", class: "loaded" },
    () => (failed.value ? el("div", { class: "inside" }, failureLine(failed.value)) : null),
    () => (offer.value && !offer.value.complete ? el("p", { class: "none" }, "The supplier has more models than it lists at once.") : null),
    () => (offer.value ? list(offer.value.items) : null)));

  /** @param {Offered} one @returns {HTMLElement} */
  function offeredRow(one) {
    const sizes = [one.context ? `${count(one.context)} tokens` : "", one.maxOutput ? `replies up to ${count(one.maxOutput)}` : ""]
      .filter(Boolean).join(", ");
    const here = one.models.length > 0;
    return el("li", null,
      el("label", { class: "name checked" },
        el("input", { type: "checkbox", checked: here || picked.peek().has(one.model), disabled: here,
          onchange: (/** @type {any} */ event) => pick(one.model, event.target.checked) }),
        el("b", null, el("bdi", null, one.model))),
      one.title || sizes ? el("small", null, [one.title, sizes].filter(Boolean).join(" · ")) : null,
      one.listed
        ? el("small", { class: "num" }, `${price(one.listed.prices.input)} in, ${price(one.listed.prices.output)} out per million tokens`)
        : el("small", null, "not in the price catalogue"),
      here
        ? el("span", { class: "ends" }, el("small", null, "here as ", one.models.map((model, index) =>
          [index ? ", " : "", el("a", { href: link(`/gateway/models/${encodeURIComponent(model)}`) }, el("bdi", null, model))]).flat()))
        : null);
  }
}
