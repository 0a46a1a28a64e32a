/** The models and skills that a chat can be given, and the schema that a reply has to fit. */

import { ApiError, get, sendInOrder } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { effect, signal } from "../core/signals.js";

/**
 * @typedef {import("../api.d.ts").ModelStatusList} Models
 * @typedef {import("../api.d.ts").SkillsView} Skills
 * @typedef {import("../api.d.ts").ProgramStateView} ProgramState
 */

const NOTHING_TOLD = /** @type {ProgramState} */ ({ limits: [], modes: [] });

export const models = signal(/** @type {Pick<Models, "models" | "default" | "defaultEngine">} */ ({
  models: [], default: "", defaultEngine: { engine: "", program: NOTHING_TOLD },
}));
export const skills = signal(/** @type {Pick<Skills, "skills" | "default">} */ ({ skills: [], default: "" }));
let areRead = false;

/**
 * Take up what the daemon has.
 * @param {Models} foundModels
 * @param {Skills} foundSkills
 */
export function takeChoices(foundModels, foundSkills) {
  models.value = foundModels;
  skills.value = foundSkills;
  areRead = true;
}

const readChoices = () => sendInOrder("choices", async () =>
  takeChoices(...await Promise.all([get("/api/models"), get("/api/skills")])));

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
  const isKnown = (/** @type {string | undefined} */ name, /** @type {readonly { name: string }[]} */ all) =>
    all.some((one) => one.name === name);
  return {
    ...(model && isKnown(model, models.peek().models) ? { model } : {}),
    ...(skill && isKnown(skill, skills.peek().skills) ? { skill } : {}),
  };
}

/**
 * The modes and usage limits of the program behind a model.
 * @param {string} chosen the model of a chat; empty: the default
 * @returns {ProgramState}
 */
export function programOf(chosen) {
  const { models: all, default: usual, defaultEngine } = models.value;
  const name = chosen || usual;
  return name ? all.find((one) => one.name === name)?.program ?? NOTHING_TOLD : defaultEngine.program;
}

/**
 * @param {string} chosen
 * @param {string} [mode]
 */
export function modelLabel(chosen, mode = "") {
  const model = chosen || models.value.default || "Default engine";
  return mode ? `${model} · ${programOf(chosen).modes.find((one) => one.id === mode)?.name ?? mode}` : model;
}

/** What shows usage limits, loaded once a program has told of some. */
const usage = signal(/** @type {typeof import("../parts/usage_limits.js") | null} */ (null));

/**
 * What is nearly used up of the limits of a program's sign-in.
 * @param {() => ProgramState["limits"]} windows
 */
export function limitHint(windows) {
  effect(() => {
    if (windows().length && !usage.peek()) void import("../parts/usage_limits.js").then((loaded) => (usage.value = loaded));
  });
  return () => usage.value?.limitState(windows) ?? null;
}

/**
 * The schema that the reply to the next prompt has to fit, and how to choose it: a button, which a
 * phone has no place for until there is a schema, and an entry of a menu. The dialog is loaded once
 * it is wanted.
 * @returns {{ button: HTMLElement, item: () => import("../parts/menu.js").Item, take: () => { outputSchema?: object } }}
 *   `take` returns the schema once
 */
export function schemaHolder() {
  const chosen = signal("");
  const button = el("button", { class: () => `btn plain small${chosen.value ? "" : " not-phone"}`, type: "button",
    "aria-label": "Output schema", title: "The reply to the next prompt is JSON that fits a schema",
    "aria-pressed": () => String(chosen.value !== ""), onclick: () => void choose() },
    () => (chosen.value ? icon("check") : null), "{ }");

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

  const item = () => ({
    label: "Output schema…", note: "The next reply is JSON that fits it",
    toggles: true, checked: chosen.peek() !== "", onselect: () => void choose(),
  });
  return { button, item, take };
}
