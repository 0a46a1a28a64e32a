/** Light, dark, or as the system: kept in a cookie, so that the first paint already has it. */

import { BASE } from "../core/api.js";
import { signal } from "../core/signals.js";

/** @typedef {"" | "light" | "dark"} Theme */

/** What was chosen; empty: as the system. */
export const theme = signal(/** @type {Theme} */ (document.documentElement.dataset["theme"] ?? ""));

/** @param {Theme} chosen */
export function setTheme(chosen) {
  theme.value = chosen;
  if (chosen) document.documentElement.dataset["theme"] = chosen;
  else delete document.documentElement.dataset["theme"];
  const age = chosen ? 31536000 : 0;
  document.cookie = `agentd-theme=${chosen}; Path=${BASE}; Max-Age=${age}; SameSite=Lax`;
}
