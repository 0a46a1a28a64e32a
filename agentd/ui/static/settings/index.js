/** `/settings` alone leads to the first of its pages. */

import { el } from "../core/el.js";
import { navigate } from "../core/router.js";

/** @returns {import("../core/router.js").Page} */
export function page() {
  queueMicrotask(() => void navigate("/settings/you", { replace: true }));
  return { title: "Settings", body: el("div"), area: "settings" };
}
