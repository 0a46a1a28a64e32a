/** The models that a chat can choose: their prices, the default, and whether each could begin now. */

import { get, may, post, remove } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { count } from "../core/counts.js";
import { price } from "../core/money.js";
import { link } from "../core/router.js";
import { confirm } from "../parts/dialog.js";
import { emptyState, loaded } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { toast, toastError } from "../parts/toast.js";
import { tightWindows, windowsText } from "../parts/usage_limits.js";
import { card, failureLine, follow, listView, longList, settingsPage } from "./frame.js";
import { editModel } from "./model_form.js";

/** @typedef {import("./model_form.js").ListedModel} ListedModel */

/** @returns {import("../core/router.js").Page} */
export function page() {
  const view = listView();
  const read = loaded(() => get("/api/models"), show);
  const reload = () => void read.reload();
  follow(["modelsUpdate", "engineUpdate"], reload);
  const isAdmin = may("administrator");
  return settingsPage("Models", card({
    title: "Models", text: "The models that chats can use; a chat without one uses the default. They are in models.yml.",
    actions: [
      el("button", { class: "btn", onclick: reload }, icon("reload"), "Check again"),
      isAdmin
        ? el("button", { class: "btn main", changes: "administrator", onclick: () => void editModel(null, reload) },
          icon("plus"), "Add a model")
        : null,
    ],
  }, read.node));

  /** @param {any} found */
  function show(found) {
    return el("div", null,
      found.problems.length
        ? el("div", { class: "inside" },
          failureLine(new Error(`models.yml has problems: what it said before stays in force. ${found.problems[0].what}`)),
          el("a", { href: link("/settings/configuration") }, "Show all problems"))
        : null,
      found.models.length
        ? longList(found.models, (model) => `${model.name} ${model.engine} ${model.model} ${model.supplier}`, modelRow, "models", view)
        : emptyState("cube", "No models yet",
          "The built-in offline engine lists, reads, searches and runs commands. A model, or an installed coding agent, does the rest.",
          isAdmin
            ? el("button", { class: "btn main", changes: "administrator", onclick: () => void editModel(null, reload) }, "Add a model")
            : null));
  }

  /** @param {ListedModel} model */
  function modelRow(model) {
    const facts = [model.engine, model.model, model.supplier && `via ${model.supplier}`, model.effort && `effort ${model.effort}`,
      model.context && `${count(model.context)} tokens`].filter(Boolean).join(" · ");
    const tight = tightWindows(model.program.limits);
    return el("li", null,
      el("span", { class: "name" }, el("b", null, model.name), model.default ? el("span", { class: "chip" }, "default") : null),
      el("small", null, facts),
      model.problem
        ? el("small", { class: "need" }, model.problem)
        : model.prices ? el("small", { class: "num" }, priceText(model.prices)) : null,
      tight.length ? el("small", { class: "need" }, windowsText(tight)) : null,
      el("span", { class: "ends" },
        el("span", { class: model.available ? "state good" : "state need" },
          dot(model.available ? "good" : "need"), model.available ? "Ready" : "Not ready"),
        may("manager")
          ? menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${model.name}` }, [icon("more")], () => [
            { label: "Make it the default", icon: "check", disabled: model.default, changes: "manager",
              onselect: () => void choose(model.name) },
            model.default ? { label: "No default", changes: "manager", onselect: () => void choose("") } : false,
            { label: "Edit", icon: "pencil", changes: "administrator", onselect: () => void editModel(model.name, reload) },
            isAdmin && null,
            { label: "Remove", icon: "trash", danger: true, disabled: model.default, changes: "administrator",
              note: model.default ? "Choose another default first" : "", onselect: () => void removeModel(model.name) },
          ])
          : null));
  }

  /** @param {string} name */
  async function choose(name) {
    try {
      await post("/api/models/select", { model: name });
      toast(name ? `${name} is the default` : "No model is the default");
    } catch (error) {
      toastError(error, () => void choose(name));
    }
    reload();
  }

  /** @param {string} name */
  async function removeModel(name) {
    const text = "Chats that use it need another model before they continue.";
    const sure = await confirm({ title: `Remove ${name}?`, text, action: "Remove", danger: true });
    if (!sure) return;
    try {
      await remove(`/api/models/${encodeURIComponent(name)}`);
      toast(`${name} is removed`);
    } catch (error) {
      toastError(error);
    }
    reload();
  }
}

/** @param {{ input: number | string, output: number | string }} prices */
function priceText(prices) {
  return `${price(Number(prices.input))} in, ${price(Number(prices.output))} out per million tokens`;
}
