/** The list of the keys that work now. */

import { may } from "../core/api.js";
import { el } from "../core/el.js";
import { openDialog } from "./dialog.js";

/** @param {readonly import("./keys.js").Shortcut[]} shortcuts */
export function showKeys(shortcuts) {
  void openDialog("Keys", () => [
    el("dl", { class: "keys" }, shortcuts.filter((one) => !one.hidden && may(one.changes ?? "viewer")).map(({ keys, label }) => [
      el("dt", null, keys.split(" ").map((key) => el("kbd", null, key))), el("dd", null, label)]).flat()),
  ]);
}
