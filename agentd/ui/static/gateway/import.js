/** Moving from another gateway: its configuration is pasted or chosen, what becomes of it is shown, and then created. */

import { post } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { beginningOf, counted } from "../core/counts.js";
import { link } from "../core/router.js";
import { computed, signal } from "../core/signals.js";
import { toast } from "../parts/toast.js";
import { card, labelled, sendForm } from "../settings/frame.js";
import { forAdministrators, gatewayFrame } from "./frame.js";

/**
 * @typedef {import("../api.d.ts").ImportFileView} Plan
 * @typedef {import("../core/el.js").Single} Single
 */

const PATH = "/api/agent/import/file";
/** What the daemon takes at once, with some room for how JSON writes it. */
const MOST_CHARACTERS = 900_000;
const TOO_LARGE = "This is too large: import it in several parts.";
const ORIGINS = /** @type {const} */ ([
  ["", "found by its content"], ["litellm", "LiteLLM: config.yaml"], ["new-api", "new-api: channels or users as JSON"],
]);

export const page = forAdministrators("Import", () => {
  const plan = signal(/** @type {Plan | null} */ (null));
  const name = signal("");
  const forget = () => (plan.value = null);
  const text = el("textarea", { class: "input mono", rows: 10, required: true, spellcheck: "false", autocomplete: "off",
    placeholder: "model_list:\n- model_name: …", oninput: () => {
      text.setCustomValidity(text.value.length > MOST_CHARACTERS ? TOO_LARGE : "");
      forget();
    } });
  const origin = el("select", { class: "input", onchange: forget }, ORIGINS.map(([value, label]) => el("option", { value }, label)));
  const file = el("input", { class: "input", type: "file", accept: ".yaml,.yml,.json,.jsonl,.txt", onchange: () => void choose() });
  const choose = async () => {
    const [chosen] = file.files ?? [];
    forget();
    if (!chosen) return;
    name.value = chosen.name;
    text.value = chosen.size > MOST_CHARACTERS ? "" : await chosen.text();
    file.setCustomValidity(chosen.size > MOST_CHARACTERS ? TOO_LARGE : "");
    file.reportValidity();
  };
  const body = () => ({
    text: text.value, ...(name.peek() ? { name: beginningOf(name.peek(), 200) } : {}), ...(origin.value ? { origin: origin.value } : {}),
  });
  const send = async () => {
    if (!plan.peek()) {
      plan.value = await post(`${PATH}?dry_run=true`, body());
      return;
    }
    plan.value = await post(PATH, body());
    toast("The import is done; Changes can undo it");
  };
  const isNew = (/** @type {Plan | null} */ found) =>
    found !== null && found.channels.length + found.models.length + found.budgets.length > 0;
  const act = () => (plan.peek() && !isNew(plan.peek()) ? Promise.resolve() : send());
  const action = () => (isNew(plan.value) ? `Create ${countWords(/** @type {Plan} */ (plan.value))}` : "Plan");
  const isDone = computed(() => Boolean(plan.value?.change));
  const form = sendForm({ action, class: "card-form", send: act },
    el("div", { class: "inside stack" },
      el("div", { class: "form-grid" }, labelled("File", file, "Or paste its content below."), labelled("Whose it is", origin)),
      labelled("Configuration", text, "Suppliers’ keys in it are stored, and never shown again. " +
        "Variables such as os.environ/NAME are not looked up: their channels wait, disabled, for their key."),
      () => (plan.value ? null : el("p", { class: "quiet" }, "This shows what would be created, and changes nothing."))));
  return {
    title: "Import",
    body: gatewayFrame({ title: "Import", narrow: true },
      card({ title: "Move from another gateway",
        text: "The config.yaml of a LiteLLM proxy, or the channels or users of new-api as JSON. " +
          "What exists here stays as it is, and no key of a caller is moved." },
        el("div", { class: "loaded" }, () => (isDone.value ? null : form))),
      () => (plan.value ? el("div", { class: "loaded", role: "status" }, outcome(plan.value, forget)) : null)),
  };
});

/** @param {Plan} plan */
function countWords({ channels, models, budgets }) {
  const counts = /** @type {const} */ ([[channels.length, "channel"], [models.length, "model"], [budgets.length, "budget"]]);
  return counts.filter(([many]) => many).map(([many, noun]) => counted(many, noun)).join(", ");
}

/** @param {Plan} plan @param {() => void} again @returns {Single[]} */
function outcome(plan, again) {
  const { channels, models, budgets, notTaken, notes, cataloguePriced, change } = plan;
  const missing = channels.filter((one) => !one.enabled);
  const words = countWords(plan);
  const to = (/** @type {string} */ path, /** @type {string} */ name) => {
    const title = el("b", null, el("bdi", null, name));
    return change ? el("a", { href: link(`${path}${encodeURIComponent(name)}`) }, title) : title;
  };
  return [
    card({ title: change ? `Created as change no. ${change}` : words ? "What will be created" : "Nothing new",
      text: words || "All of it exists here, or cannot be taken.", actions: change ? [
        el("a", { class: "btn", href: link("/gateway/changes?resource=import") }, icon("history"), "Changes"),
        el("button", { class: "btn", onclick: again }, "Import more"),
      ] : [] }, el("ul", { class: "rows" },
      channels.map((one) => el("li", null,
        el("span", { class: "name" }, dot(one.enabled ? "good" : "need"), to("/gateway/channels/", one.name),
          el("span", { class: "chip" }, "channel")),
        el("small", null, `${one.dialects.join(", ")} · ${one.url}`),
        one.enabled ? null : el("small", { class: "need" }, "Disabled until its key is filled in."))),
      models.map((one) => el("li", null,
        el("span", { class: "name" }, dot("good"), to("/gateway/models/", one.name), el("span", { class: "chip" }, "model")),
        el("small", null, one.channels.join(", "), cataloguePriced.includes(one.name) ? " · prices of the catalogue" : ""),
        one.priced ? null : el("small", { class: "need" }, "No prices"))),
      budgets.map((one) => el("li", null,
        el("span", { class: "name" }, dot("good"), el("b", null, el("bdi", null, one.name)), el("span", { class: "chip" }, "budget")),
        el("small", null, one.owner ? `of the owner ${one.owner}` : `of the tag ${one.tag}`))))),
    missing.length && change
      ? card({ title: "To be filled in", text: "Give these channels their keys, and enable them." }, el("ul", { class: "rows" },
        missing.map((one) => el("li", null, el("span", { class: "name" }, to("/gateway/channels/", one.name)),
          el("small", null, one.url)))))
      : null,
    notTaken.length ? card({ title: `Not taken: ${notTaken.length}`, text: "Each with its place in the file." }, el("ul", { class: "rows" },
      notTaken.map(({ place, why }) =>
        el("li", null, el("span", { class: "name" }, el("code", { class: "place" }, place)), el("small", null, why))))) : null,
    notes.length ? card({ title: "Taken in another form" }, el("ul", { class: "rows" },
      notes.map((note) => el("li", null, el("small", null, note))))) : null,
  ];
}
