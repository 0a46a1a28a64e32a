/** The skills that chats can be given: their order, their colours, and the one that is offered first. */

import { get, put } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { openDialog } from "../parts/dialog.js";
import { emptyState, loaded } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { toast, toastError } from "../parts/toast.js";
import { colorDot, colorField } from "./colors.js";
import { beginEdit } from "./edits.js";
import { card, failureLine, follow, listView, longList, sendForm, settingsPage } from "./frame.js";

/** @typedef {{ name: string, description: string, source: string, color: string, default: boolean }} Skill */
/** @typedef {{ skills: Skill[], default: string, problems: { where: string, line: number, what: string }[] }} Found */

/** @returns {import("../core/router.js").Page} */
export function page() {
  /** @type {Skill[]} */
  let known = [];
  const view = listView();
  const read = loaded(() => get("/api/skills"), show);
  const reload = () => void read.reload();
  follow(["skillsUpdate"], reload);
  return settingsPage("Skills", card({
    title: "Skills",
    text: "Instructions that can be added to a chat. Each is a folder with a SKILL.md; colours and order are in skills.yml.",
  }, read.node));

  /** @param {Found} found */
  function show(found) {
    known = found.skills;
    return el("div", null,
      found.problems.map((problem) => el("div", { class: "inside" },
        failureLine(new Error(`${problem.where}${problem.line ? `, line ${problem.line}` : ""}: ${problem.what}`)))),
      found.skills.length
        ? longList(found.skills, (skill) => `${skill.name} ${skill.description}`, skillRow, "skills", view)
        : emptyState("spark", "No skills yet",
          "A skill is a folder in the folder skills beside agentd.yml, with a SKILL.md: a name, a description, and instructions."));
  }

  /** @param {Skill} skill */
  function skillRow(skill) {
    const at = known.indexOf(skill);
    return el("li", null,
      el("span", { class: "name" }, colorDot(skill.color), el("b", null, el("bdi", null, skill.name)),
        skill.default ? el("span", { class: "chip" }, "default") : null),
      el("small", null, skill.description),
      el("small", null, el("code", null, skill.source)),
      el("span", { class: "ends" },
        menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${skill.name}` }, [icon("more")], () => [
          { label: "Read", icon: "file", onselect: () => void openSkill(skill.name) },
          { label: "Colour", icon: "tag", changes: "manager", onselect: () => void recolor(skill) },
          { label: skill.default ? "No default" : "Make it the default", icon: "check", changes: "manager",
            onselect: () => void change({ default: skill.default ? "none" : skill.name },
              skill.default ? "No skill is the default" : `${skill.name} is the default`) },
          { label: "Move up", icon: "up", disabled: at === 0, changes: "manager", onselect: () => void move(at, at - 1) },
          { label: "Move down", icon: "down", disabled: at === known.length - 1, changes: "manager",
            onselect: () => void move(at, at + 1) },
        ])));
  }

  /** @param {number} from @param {number} to */
  function move(from, to) {
    const order = known.map(({ name, color }) => ({ name, color }));
    order.splice(to, 0, ...order.splice(from, 1));
    return change({ skills: order }, "");
  }

  /**
   * @param {{ default?: string, skills?: { name: string, color: string }[] }} changes
   * @param {string} done
   */
  async function change(changes, done) {
    try {
      await read.change((found) => merge(found, changes), () => put("/api/skills-settings", changes));
      if (done) toast(done);
    } catch (error) {
      toastError(error, () => void change(changes, done));
    }
  }

  /** @param {Skill} skill */
  function recolor(skill) {
    return openDialog(`Colour of ${skill.name}`, (close) => {
      const field = colorField(skill.color);
      const merge = beginEdit({ color: field.value() }, skill);
      const send = async () => {
        const { color } = merge({ color: field.value() }, known.find(({ name }) => name === skill.name) ?? {});
        close();
        void change({ skills: known.map((one) => ({ name: one.name, color: one.name === skill.name ? color : one.color })) }, "");
      };
      return [sendForm({ action: "Save", oncancel: () => close(), send }, field.node)];
    });
  }
}

/**
 * What the page shows once the daemon has the changes.
 * @param {Found} found
 * @param {{ default?: string, skills?: { name: string, color: string }[] }} changes
 */
function merge(found, { default: usual, skills: order }) {
  const skills = order
    ? order.flatMap(({ name, color }) => found.skills.filter((one) => one.name === name).map((one) => ({ ...one, color })))
    : found.skills;
  return usual === undefined
    ? { ...found, skills }
    : { ...found, default: usual, skills: skills.map((one) => ({ ...one, default: one.name === usual })) };
}

/** @param {string} name */
function openSkill(name) {
  return openDialog(name, () => {
    const read = loaded(() => get(`/api/skills/read/${encodeURIComponent(name)}`), ({ text }) => el("pre", { class: "asis", tabindex: 0 },
      text || "It has no instructions."));
    return [el("div", { class: "stack" }, read.node)];
  }, { wide: true });
}
