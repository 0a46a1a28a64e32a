/** The models and skills that a chat can be given, and the schema that a reply has to fit. */

import { ApiError, get } from "../core/api.js";
import { el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { signal } from "../core/signals.js";
import { tightWindows, windowsText } from "../parts/usage_limits.js";

/**
 * @typedef {import("../api.d.ts").ModelStatusList} Models
 * @typedef {import("../api.d.ts").SkillsView} Skills
 * @typedef {import("../api.d.ts").ProgramStateView} ProgramState
 */

const NOTHING_TOLD = /** @type {ProgramState} */ ({ limits: [], modes: [] });

export const models = signal(/** @type {Pick<Models, "models" | "default" | "defaultEngine">} */ ({ models: [], default: "", defaultEngine: { engine: "", program: NOTHING_TOLD } }));
export const skills = signal(/** @type {Pick<Skills, "skills" | "default">} */ ({ skills: [], default: "" }));
let areRead = false;

/**
 * Take up what the daemon has; events keep it current.
 * @param {Models} foundModels
 * @param {Skills} foundSkills
 */
export function takeChoices(foundModels, foundSkills) {
  models.value = foundModels;
  skills.value = foundSkills;
  areRead = true;
}

const readChoices = async () => takeChoices(...await Promise.all([get("/api/models"), get("/api/skills")]));

/** Read them again. */
export async function loadChoices() {
  try {
    await readChoices();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

/**
 * What was remembered may be gone by now: the model and the skill, as far as they are still there.
 * @param {{ model?: string | undefined, skill?: string | undefined }} remembered
 * @throws {ApiError} if it cannot be read whether they are
 */
export async function keepKnown({ model, skill }) {
  if ((model || skill) && !areRead) await readChoices();
  const isKnown = (/** @type {string | undefined} */ name, /** @type {readonly { name: string }[]} */ all) => all.some((one) => one.name === name);
  return {
    ...(model && isKnown(model, models.peek().models) ? { model } : {}),
    ...(skill && isKnown(skill, skills.peek().skills) ? { skill } : {}),
  };
}

live.on("modelsUpdate", () => void loadChoices());
live.on("engineUpdate", () => void loadChoices());
live.on("skillsUpdate", () => void loadChoices());

/**
 * What the program behind a model told of itself.
 * @param {string} chosen the model of a chat; empty: the default
 * @returns {ProgramState}
 */
export function programOf(chosen) {
  const { models: all, default: usual, defaultEngine } = models.value;
  const name = chosen || usual;
  return name ? all.find((one) => one.name === name)?.program ?? NOTHING_TOLD : defaultEngine.program;
}

/**
 * The entries of a menu of models.
 * @param {string} chosen
 * @param {(name: string) => void} choose
 */
export function modelItems(chosen, choose) {
  const { models: all, default: usual } = models.peek();
  const other = usual ? `Default: ${usual}` : "Default engine";
  return [
    { label: other, checked: chosen === "", onselect: () => choose("") },
    ...all.map((model) => ({
      label: model.name, note: model.problem || windowsText(tightWindows(model.program.limits)) || [model.engine, model.supplier].filter(Boolean).join(" · "),
      checked: chosen === model.name, disabled: !model.available, onselect: () => choose(model.name),
    })),
  ];
}

/**
 * The part of a model's menu that chooses the mode of its program: an entry for each, after a line.
 * @param {string} model
 * @param {string} chosen
 * @param {(mode: string) => void} choose
 */
export function modeItems(model, chosen, choose) {
  const { modes } = programOf(model);
  if (!modes.length && !chosen) return [];
  return [
    null,
    { label: "Usual mode", checked: chosen === "", onselect: () => choose("") },
    ...modes.map((mode) => ({ label: `Mode: ${mode.name}`, note: mode.description, checked: chosen === mode.id, onselect: () => choose(mode.id) })),
  ];
}

/**
 * The mode that goes with another model: the chosen one, if its program has it, else the usual one.
 * @param {string} model
 * @param {string} mode
 */
export function keepMode(model, mode) {
  return programOf(model).modes.some((one) => one.id === mode) ? mode : "";
}

/**
 * @param {string} chosen
 * @param {string} [mode]
 */
export function modelLabel(chosen, mode = "") {
  const model = chosen || models.value.default || "Default engine";
  return mode ? `${model} · ${programOf(chosen).modes.find((one) => one.id === mode)?.name ?? mode}` : model;
}

/**
 * The entries of a menu of skills.
 * @param {string} chosen
 * @param {(name: string) => void} choose
 */
export function skillItems(chosen, choose) {
  return [
    { label: "No skill", checked: !chosen || chosen === "none", onselect: () => choose("") },
    ...skills.peek().skills.map((skill) => ({ label: skill.name, note: skill.description, checked: chosen === skill.name, onselect: () => choose(skill.name) })),
  ];
}

/**
 * The schema that the reply to the next prompt has to fit, and how to choose it: a button, which a
 * phone has no place for until there is a schema, and an entry of a menu. The dialog is loaded once
 * it is wanted.
 * @returns {{ button: HTMLElement, item: () => import("../parts/menu.js").Item, take: () => { outputSchema?: object } }} `take` returns the schema once
 */
export function schemaHolder() {
  const chosen = signal("");
  const button = el("button", { class: () => `btn plain small${chosen.value ? "" : " not-phone"}`, type: "button", "aria-label": "Output schema", "aria-pressed": () => String(chosen.value !== ""), title: "The reply to the next prompt is JSON that fits a schema",
    onclick: () => void choose() }, () => (chosen.value ? icon("check") : null), "{ }");

  async function choose() {
    const { askSchema, NONE } = await import("./output_schema.js");
    const answer = await askSchema(chosen.peek());
    if (answer) chosen.value = answer === NONE ? "" : answer;
  }

  function take() {
    const text = chosen.peek();
    chosen.value = "";
    return text ? { outputSchema: JSON.parse(text) } : {};
  }

  const item = () => ({ label: "Output schema…", note: "The next reply is JSON that fits it", toggles: true, checked: chosen.peek() !== "", onselect: () => void choose() });
  return { button, item, take };
}
