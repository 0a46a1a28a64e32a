/** The card "Files and problems": what is wrong with hand-edited files, by file and line. */

import { get } from "../core/api.js";
import { dot, el } from "../core/el.js";
import { counted } from "../core/counts.js";
import { loaded } from "../parts/frame.js";
import { card, follow, listView, longList } from "./frame.js";

/** Events after which a file may say something else. */
const EVENTS = ["settingsUpdate", "modelsUpdate", "skillsUpdate", "botsUpdate", "labelsUpdate", "keysUpdate",
  "buildsUpdate", "deploymentsUpdate", "schedulesUpdate", "mcpServersUpdate", "hooksUpdate"];

/** The card; it follows the files while one edits them. */
export function problemsCard() {
  const view = listView();
  const read = loaded(() => get("/api/settings/all"), ({ problems }) => (problems.length ? found(problems, view) : fine()));
  follow(EVENTS, () => void read.reload());
  return card({
    title: "Files and problems",
    text: "Files that are edited by hand take effect when they are saved. " +
      "While a file has a problem, its last valid content stays in effect.",
  }, read.node);
}

function fine() {
  return el("div", { class: "inside" }, el("p", { class: "state good" }, dot("good"), "No problem in any file"));
}

/**
 * @param {readonly { where: string, line: number, what: string }[]} problems
 * @param {ReturnType<typeof listView>} view
 */
function found(problems, view) {
  return el("div", null,
    el("p", { class: "none state bad" }, dot("bad"), counted(problems.length, "problem")),
    longList(problems, (one) => `${one.where} ${one.what}`, (one) => el("li", null,
      el("span", { class: "problem-at" }, one.line ? `${one.where}, line ${one.line}` : one.where),
      el("small", { class: "bad" }, one.what)), "problems", view));
}
