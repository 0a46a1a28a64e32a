/** Repricing of recorded requests: what it would change is shown first; the first cost is kept. */

import { post } from "../core/api.js";
import { el } from "../core/el.js";
import { count, counted } from "../core/counts.js";
import { usd } from "../core/money.js";
import { signal } from "../core/signals.js";
import { now } from "../core/time.js";
import { toast } from "../parts/toast.js";
import { card, labelled, sendForm } from "../settings/frame.js";
import { addDays, forAdministrators, gatewayFrame } from "./frame.js";

/** @typedef {{ requests: number, changed: number, unpriced: number, before: number, after: number, change: number | null }} Difference */

const DAYS = 30;

export const page = forAdministrators("Repricing", () => ({
  title: "Repricing",
  body: gatewayFrame({ title: "Repricing", narrow: true }, repriceCard()),
}));

function repriceCard() {
  const plan = signal(/** @type {Difference | null} */ (null));
  const forget = () => (plan.value = null);
  const today = new Date(now()).toISOString().slice(0, 10);
  const day = (/** @type {string} */ value) => el("input", { class: "input", type: "date", required: true, value, onchange: forget });
  const from = day(addDays(today, 1 - DAYS));
  const to = day(today);
  const prices = el("select", { class: "input", onchange: forget },
    el("option", { value: "current" }, "the models' present prices"),
    el("option", { value: "catalogue" }, "the price catalogue's prices of each request's day"));
  const body = () => ({ from: from.value, to: to.value, prices: prices.value });
  const look = async () => {
    plan.value = await post("/api/agent/requests/reprice?dry_run=true", body());
  };
  const apply = async () => {
    const done = /** @type {Difference} */ (await post("/api/agent/requests/reprice", body()));
    const undo = done.change ? `; no. ${done.change} in Changes undoes it` : "";
    toast(`${counted(done.changed, "request")} repriced: ${usd(done.before)} before, ${usd(done.after)} now${undo}`);
    forget();
  };
  return card({ title: "Reprice recorded requests",
    text: "For prices that were wrong or not known when requests were made. Each request keeps the cost that it had first; " +
      "reports and limits count the new one. “Changes” undoes it, until they are repriced again." },
    el("div", { class: "loaded" }, sendForm({
      action: () => (plan.value?.changed ? `Reprice ${counted(plan.value.changed, "request")}` : "Plan"), class: "card-form",
      send: () => (plan.peek()?.changed ? apply() : look()),
    }, el("div", { class: "inside stack" },
      el("div", { class: "form-grid" }, labelled("First day (UTC)", from), labelled("Last day, included", to, "At most 92 days at once."),
        labelled("By", prices, "What the catalogue does not list is priced by present prices.")),
      () => (plan.value ? planned(plan.value) : el("p", { class: "quiet" }, "This shows what would change, and changes nothing."))))));
}

/** @param {Difference} plan */
function planned({ requests, changed, unpriced, before, after }) {
  /** @type {[string, string][]} */
  const facts = [
    ["Requests with tokens", count(requests)], ["Would change", count(changed)],
    ["Without known prices", unpriced ? `${count(unpriced)}, which stay as they are` : "none"],
    ["Cost before", usd(before)], ["Cost after", usd(after)],
    ["Difference", `${after > before ? "+" : ""}${usd(after - before)}`],
  ];
  return el("div", { role: "status" }, changed ? null : el("p", null, "Nothing would change."),
    el("dl", { class: "pair" }, facts.map(([name, value]) => [el("dt", null, name), el("dd", { class: "num" }, value)]).flat()));
}
