/** Errors and warnings of a build, each with its place, which leads to the file. */

import { dot, el } from "../core/el.js";
import { link } from "../core/router.js";

/**
 * @typedef {{ severity: "error" | "warning", text: string, file: string, line: number, column: number, tool: string,
 *   path: string }} Problem
 */

/**
 * @param {readonly Problem[]} problems
 * @param {number} counted all that were found, of which these are the first
 */
export function problemList(problems, counted) {
  const errors = problems.filter((one) => one.severity === "error").length;
  const open = problems.length <= 8 || errors > 0;
  return el("details", { class: "box problems", open },
    el("summary", null, el("h3", null, "Errors and warnings"), el("span", { class: "num" }, counted.toLocaleString("en"))),
    el("ul", { tabindex: 0, role: "list", "aria-label": "Errors and warnings" }, problems.map(problemRow)),
    counted > problems.length
      ? el("p", { class: "rest" }, `${(counted - problems.length).toLocaleString("en")} more are in the output`)
      : null);
}

/** @param {Problem} problem */
function problemRow(problem) {
  return el("li", null, dot(problem.severity === "error" ? "bad" : "need"),
    el("span", { class: "said" }, el("span", { class: "hidden" }, `${problem.severity}: `), problem.text),
    el("span", { class: "place" }, place(problem), problem.tool ? el("small", null, problem.tool) : null));
}

/** @param {Problem} problem */
function place({ file, line, column, path }) {
  if (!file) return null;
  const text = [file, line, column].filter(Boolean).join(":");
  const fragment = line ? `&line=${line}` : "";
  const shown = el("bdi", null, text);
  return path
    ? el("a", { href: `${link("/workspace/files")}?path=${encodeURIComponent(path)}${fragment}`, title: text }, shown)
    : el("span", { title: `${text} is not in the workspace` }, shown);
}
