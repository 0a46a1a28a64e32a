/** Who answers: a coding agent of this machine, a supplier's model by its key, or the offline engine. */

import { post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { signal } from "../core/signals.js";
import { failureNote } from "../parts/fields.js";

/** @typedef {import("./welcome.js").Setup} Setup */
/** @typedef {import("./welcome.js").InstalledAgent} InstalledAgent */
/** @typedef {{ ok: boolean, seconds: number, models: string[], steps: { name: string, ok: boolean, detail: string }[] }} Trial */
/** @typedef {{ name: string, title: string, chip?: string, text: string }} Choice */

const SUPPLIER = "supplier";
const OFFLINE = "offline";

const DIALECTS = [
  { name: "anthropic", label: "Anthropic", url: addressOf("api.anthropic.com") },
  { name: "openai-responses", label: "OpenAI", url: addressOf("api.openai.com/v1") },
  { name: "openai-chat", label: "Any other with OpenAI’s API", url: "" },
];

/**
 * @param {Setup} setup
 * @param {(model: string) => void} onused
 */
export function engineStep(setup, onused) {
  const choices = listChoices(setup.agents);
  const signedIn = setup.agents.find((agent) => agent.signedIn);
  const chosen = signal(signedIn?.program ?? (setup.agents.length ? choices[0]?.name ?? OFFLINE : SUPPLIER));
  const busy = signal("");
  const trial = signal(/** @type {Trial | null} */ (null));
  const failure = signal(/** @type {unknown} */ (null));
  const supplier = supplierForm(() => (trial.value = null), trial);

  const choose = (/** @type {string} */ name) => {
    chosen.value = name;
    trial.value = null;
    failure.value = null;
  };
  const request = () => {
    if (chosen.peek() === OFFLINE) return {};
    return chosen.peek() === SUPPLIER ? { supplier: supplier.value() } : { program: chosen.peek() };
  };

  /** @param {"try" | "use"} action */
  async function act(action) {
    if (busy.peek()) return;
    busy.value = action;
    failure.value = null;
    const asked = chosen.peek();
    try {
      const answer = await post(`/api/setup/${action}`, request());
      if (asked !== chosen.peek()) return;
      if (action === "use") onused(answer.model);
      else trial.value = answer;
    } catch (error) {
      if (asked === chosen.peek()) failure.value = error;
    } finally {
      busy.value = "";
    }
  }

  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const isReady = chosen.peek() === OFFLINE || (trial.peek()?.ok && (chosen.peek() !== SUPPLIER || supplier.value().model));
    void act(isReady ? "use" : "try");
  };
  return el("form", { onsubmit: submit },
    el("fieldset", { class: "pick" }, el("legend", { class: "hidden" }, "Who answers?"),
      choices.map((choice) => card(choice, chosen, choose))),
    () => (chosen.value === SUPPLIER ? supplier.node : el("p", null, explain(setup.agents.find((one) => one.program === chosen.value)))),
    rungs(trial, busy),
    () => (chosen.value !== SUPPLIER && trial.value?.models.length ? el("p", null, `Its models: ${nameSome(trial.value.models)}.`) : null),
    failureNote(failure),
    el("div", { class: "acts" },
      el("button", { class: "btn main", changes: "administrator", disabled: () => Boolean(busy.value) },
        () => labelOf(chosen.value, trial.value, busy.value, supplier)),
      () => (trial.value && !trial.value.ok && chosen.value !== OFFLINE
        ? el("button", { class: "btn", changes: "administrator", type: "button", onclick: () => void act("use"),
          disabled: () => Boolean(busy.value) }, "Use it anyway")
        : null)));
}

/**
 * @param {string} chosen
 * @param {Trial | null} trial
 * @param {string} busy
 * @param {{ hasModel: () => boolean }} supplier
 */
function labelOf(chosen, trial, busy, supplier) {
  if (busy) return busy === "try" ? "Trying…" : "Saving…";
  if (chosen === OFFLINE) return "Use it";
  if (trial?.ok) return chosen === SUPPLIER && !supplier.hasModel() ? "Choose a model above" : "Use it";
  return trial ? "Try it again" : "Try it";
}

/** @param {string[]} names */
function nameSome(names) {
  const more = names.length - 8;
  return `${names.slice(0, 8).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** @param {string} place */
function addressOf(place) {
  return `https://${place}`;
}

/** @param {InstalledAgent[]} agents */
function listChoices(agents) {
  /** @type {Choice[]} */
  const found = agents.map((agent) => ({
    name: agent.program, title: agent.title, chip: "found",
    text: `${agent.version || agent.program} in ${folderOf(agent.path)}, ` +
      (agent.signedIn ? "signed in. It uses its own account." : "no sign-in found."),
  }));
  return [...found,
    { name: SUPPLIER, title: "A model by its key",
      text: "Anthropic, OpenAI, or any compatible address, also one on this machine." },
    { name: OFFLINE, title: "No model yet",
      text: "The built-in offline engine: no language model. It lists, reads and searches files, and runs commands." }];
}

/** @param {InstalledAgent | undefined} agent */
function explain(agent) {
  if (!agent) {
    return ["The offline engine understands simple requests in plain English, such as “list the files” or “search for TODO”. ",
      "Connect a model whenever you like."];
  }
  return ["“Try it” starts the program without a prompt: nothing is spent. ",
    agent.signedIn ? null : el("span", null, "If it does not answer, sign in on this machine first: ", el("code", null, agent.signIn))];
}

/** @param {string} path */
function folderOf(path) {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

/**
 * @param {Choice} choice
 * @param {import("../core/signals.js").Signal<string>} chosen
 * @param {(name: string) => void} choose
 */
function card(choice, chosen, choose) {
  return el("label", { class: () => (chosen.value === choice.name ? "on" : "") },
    el("input", { type: "radio", name: "engine", value: choice.name, class: "radio", checked: () => chosen.value === choice.name,
      onchange: () => choose(choice.name) }),
    el("b", null, choice.title, choice.chip ? el("span", { class: "chip" }, choice.chip) : null),
    el("small", null, choice.text));
}

/**
 * What was tried, step by step.
 * @param {import("../core/signals.js").Signal<Trial | null>} trial
 * @param {import("../core/signals.js").Signal<string>} busy
 */
function rungs(trial, busy) {
  return el("div", { class: "rungs", role: "status" }, () => {
    if (busy.value === "try") return el("span", { class: "trying" }, "Starting, and waiting for an answer…");
    const done = trial.value;
    if (!done) return null;
    return [...done.steps.map(({ name, ok, detail }) => el("span", { class: ok ? "" : "bad" }, icon(ok ? "check" : "close"),
      el("span", { class: "hidden" }, ok ? "Done: " : "Failed: "), ok ? name : `${name}: ${detail}`)),
    done.ok ? el("span", null, `in ${done.seconds.toFixed(1)} s`) : null];
  });
}

/**
 * @param {() => void} onchange
 * @param {import("../core/signals.js").Signal<Trial | null>} trial
 */
function supplierForm(onchange, trial) {
  const hasModel = signal(false);
  const url = /** @type {HTMLInputElement} */ (el("input", { class: "input mono", type: "url", required: true, maxlength: 1000,
    placeholder: addressOf("…"), value: DIALECTS[0]?.url, spellcheck: "false" }));
  const key = /** @type {HTMLInputElement} */ (el("input", { class: "input mono", type: "password", maxlength: 4096,
    autocomplete: "off", spellcheck: "false" }));
  const model = /** @type {HTMLInputElement} */ (el("input", { class: "input mono", maxlength: 200, list: "welcome-models",
    autocomplete: "off", spellcheck: "false" }));
  const dialect = /** @type {HTMLSelectElement} */ (el("select", { class: "input" },
    DIALECTS.map(({ name, label }) => el("option", { value: name }, label))));
  dialect.addEventListener("change", () => {
    const usual = DIALECTS.find((one) => one.name === dialect.value)?.url ?? "";
    if (!url.value || DIALECTS.some((one) => one.url === url.value)) url.value = usual;
    onchange();
  });
  for (const input of [url, key]) input.addEventListener("input", onchange);
  model.addEventListener("input", () => (hasModel.value = Boolean(model.value.trim())));
  const field = (/** @type {string} */ label, /** @type {HTMLElement} */ input, hint = "") =>
    el("label", { class: "labelled" }, el("span", null, label), input, hint ? el("small", null, hint) : null);
  const node = el("div", { class: "pair" },
    field("Supplier", dialect), field("Address", url),
    field("Key", key, "Or env:NAME, or file:PATH. It stays on this machine; a local model needs none."),
    field("Model", model, "Its name; after “Try it” you can choose."),
    el("datalist", { id: "welcome-models" }, () => (trial.value?.models ?? []).map((name) => el("option", { value: name }))));
  return {
    node,
    hasModel: () => hasModel.value,
    value: () => ({ dialect: dialect.value, url: url.value.trim(), key: key.value.trim(), model: model.value.trim() }),
  };
}
