/** The tabs of pages that stand together under one entry of the navigation. */

import { el } from "../core/el.js";
import { link, path } from "../core/router.js";
import { PAGES } from "../pages.js";

/**
 * The page with this address, and those that stand within it.
 * @param {string} first such as `/workspace/changes`
 */
export function tabs(first) {
  const members = PAGES.flatMap((one) =>
    one.place && (one.path === first || one.place.within === first) ? [{ path: one.path, ...one.place }] : []);
  return el("nav", { class: "seg page-tabs", "aria-label": members[0]?.label ?? "Pages" },
    members.map((one) => el("a", { href: link(one.path), "aria-current": () => (path.value === one.path ? "page" : null) },
      one.tab ?? one.label)));
}
