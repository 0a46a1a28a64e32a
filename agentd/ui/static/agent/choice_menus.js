/** The entries of the menus of models, modes and skills, loaded when the first of them opens. */

import { tightWindows, windowsText } from "../parts/usage_limits.js";
import { models, programOf, skills } from "./choices.js";

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
      label: model.name,
      note: model.problem || windowsText(tightWindows(model.program.limits))
        || [model.engine, model.supplier].filter(Boolean).join(" · "),
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
    ...modes.map((mode) => ({
      label: `Mode: ${mode.name}`, note: mode.description, checked: chosen === mode.id, onselect: () => choose(mode.id),
    })),
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
 * The entries of a menu of skills.
 * @param {string} chosen
 * @param {(name: string) => void} choose
 */
export function skillItems(chosen, choose) {
  return [
    { label: "No skill", checked: !chosen || chosen === "none", onselect: () => choose("") },
    ...skills.peek().skills.map((skill) => ({
      label: skill.name, note: skill.description, checked: chosen === skill.name, onselect: () => choose(skill.name),
    })),
  ];
}
