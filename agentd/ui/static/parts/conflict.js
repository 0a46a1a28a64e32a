/** What two have changed at the same time: both versions, and the person says which counts. */

import { el } from "../core/el.js";
import { openDialog } from "./dialog.js";
import { loadStyle } from "./stylesheet.js";

await loadStyle("conflict");

/** @typedef {{ label: string, text: string, action: string }} Version */

/**
 * Show both versions side by side.
 * @param {{ title: string, text: string, mine: Version, theirs: Version }} conflict
 * @returns {Promise<"mine" | "theirs" | "">} empty when it was dismissed
 */
export async function chooseVersion({ title, text, mine, theirs }) {
  const choice = await openDialog(title, (close) => [
    el("p", null, text),
    el("div", { class: "versions" }, [mine, theirs].map((one) => el("section", { "aria-label": one.label },
      el("h3", null, one.label), el("pre", { class: "output", tabindex: 0, dir: "auto" }, one.text)))),
    el("footer", null,
      el("button", { class: "btn", onclick: () => close("theirs") }, theirs.action),
      el("button", { class: "btn main", onclick: () => close("mine") }, mine.action)),
  ], { wide: true });
  return choice === "mine" || choice === "theirs" ? choice : "";
}
