/** The budgets: limits that the access keys of an owner, or with a tag, share. */

import { dot, el, icon } from "../core/el.js";
import { counted } from "../core/counts.js";
import { usd } from "../core/money.js";
import { emptyState } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { card } from "../settings/frame.js";
import { createDialog, editDialog } from "./form.js";
import { forAdministrators, gatewayFrame, limitBar, requestsLink } from "./frame.js";
import { COUNTS, LIMIT_FIELDS, limitChips, limitWords, raiseItems } from "./limits.js";
import { forecast } from "./overview_data.js";
import { resourceList, usualItems } from "./resource_list.js";

/**
 * @typedef {import("../api.d.ts").BudgetView} Budget
 * @typedef {import("./form.js").Field} Field
 */

const AGAIN = 3000;

/** @type {readonly Field[]} */
const FIELDS = [
  { name: "name", label: "Name", required: true, hint: "Refusals and alerts call it so." },
  { name: "owner", label: "Of the owner", hint: "As the keys name it, such as an address; leave it empty for a tag." },
  { name: "tag", label: "Of the tag", hint: "All keys with this tag share it; leave it empty for an owner." },
  ...LIMIT_FIELDS,
];

export const page = forAdministrators("Budgets", () => {
  const newButton = () =>
    el("button", { class: "btn main", changes: "administrator", onclick: () => void create() }, icon("plus"), "New budget");
  const list = resourceList({
    resource: "budgets", noun: "budgets", every: AGAIN, events: ["gatewayConfigUpdate"], row: budgetRow,
    empty: () => emptyState("gauge", "No budgets yet",
      "A budget limits what the access keys of one owner, or with one tag, may spend together. Give keys an owner or tags first.",
      newButton()),
  });
  return {
    title: "Budgets",
    body: gatewayFrame({ title: "Budgets", narrow: true, actions: [newButton()] },
      card({ title: "Budgets",
        text: "Each holds for all keys of one owner, or with one tag, beside the keys' own limits. They are in budgets.yml." }, list.node)),
  };

  function create() {
    return createDialog({ title: "New budget", path: "/api/agent/budgets", fields: FIELDS, action: "Create budget", done: list.reload });
  }

  /** @param {Budget} budget @returns {HTMLElement} */
  function budgetRow(budget) {
    const path = `/api/agent/budgets/${encodeURIComponent(budget.name)}`;
    const isUsedUp = budget.limitUsage.some((one) => one.used >= one.limit && !(one.name in COUNTS));
    const { spent } = budget;
    return el("li", { class: "key-row" },
      el("span", { class: "name" }, dot(!budget.enabled ? "off" : isUsedUp ? "bad" : "good"), el("b", null, el("bdi", null, budget.name)),
        el("span", { class: "chip", title: budget.owner || budget.tag }, budget.owner ? "owner " : "tag ",
          el("bdi", null, budget.owner || budget.tag)),
        budget.enabled ? null : el("span", { class: "chip" }, "disabled"), limitChips(budget.softUsage, budget.raised)),
      el("small", null, `${counted(budget.keys, "key")} · `,
        el("a", { href: requestsLink(budget.owner ? { owner: budget.owner } : { tag: budget.tag }) },
          `${usd(spent.day)} today · ${usd(spent.month)} this month · ${usd(spent.total)} in all`)),
      budget.limitUsage.map((one) => {
        const line = budget.forecast.find((other) => other.name === one.name);
        return el("div", { class: "row-limit" }, limitBar(one),
          el("small", null, limitWords(one), line && one.used ? ` · ${forecast({ ...one, ...line })}` : ""));
      }),
      el("span", { class: "ends" },
        menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${budget.name}` }, [icon("more")], () => [
          { label: "Edit and set limits", icon: "pencil", changes: "administrator",
            onselect: () => void editDialog({ title: `Edit ${budget.name}`, path, fields: FIELDS, done: list.reload }) },
          ...raiseItems(budget, path, budget.name, list.reload),
          null,
          ...usualItems({ path, name: budget.name, enabled: budget.enabled, reload: list.reload, copies: false,
            removeText: "Its limits hold no longer. What was spent stays known, and the keys' own limits go on." }),
        ])));
  }
});
