/** What the secret rules would find in a text, marked while one types. Nothing of it is kept, here or on the daemon. */

import { post } from "../core/api.js";
import { ApiError } from "../core/api.js";
import { el } from "../core/el.js";
import { counted } from "../core/counts.js";
import { onEnd, signal } from "../core/signals.js";
import { failureLine } from "../settings/frame.js";

/** @typedef {{ rule: string, mode: "hide" | "block" | "report", line: number, offset: number, length: number }} Finding */

const PAUSE = 250;
const MODES = { hide: "is hidden", block: "blocks the request", report: "is reported" };

/**
 * @param {{ rule?: () => any, label?: string }} [options] `rule`: one that is tried beside those that there are
 * @returns {{ node: HTMLElement, again: () => void }}
 */
export function dryRun({ rule = () => null, label = "Text to try" } = {}) {
  const found = signal(/** @type {{ text: string, findings: Finding[], blocked: string } | null} */ (null));
  const failed = signal(/** @type {unknown} */ (null));
  let asked = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  const input = el("textarea", { class: "input mono", rows: 4, "aria-label": label,
    placeholder: "Paste or type what a program could send. It is not stored.", autocomplete: "off", spellcheck: "false",
    oninput: () => again() });
  const look = async () => {
    const text = input.value;
    const turn = ++asked;
    if (!text) {
      found.value = null;
      return;
    }
    try {
      const candidate = rule();
      const answer = await post("/api/agent/secret-rules/test", { text, ...(candidate ? { rule: candidate } : {}) });
      if (turn !== asked) return;
      failed.value = null;
      found.value = { text, ...answer };
    } catch (error) {
      if (turn !== asked) return;
      if (!(error instanceof ApiError)) reportError(error);
      failed.value = error;
    }
  };
  function again() {
    clearTimeout(soon);
    soon = setTimeout(() => void look(), PAUSE);
  }
  onEnd(() => {
    clearTimeout(soon);
    input.value = "";
    found.value = null;
  });
  const node = el("div", { class: "dry-run" }, input,
    el("div", { role: "status" }, () => {
      if (failed.value) return failureLine(failed.value);
      return found.value ? el("p", { class: "quiet" }, summary(found.value.findings, found.value.blocked)) : null;
    }),
    () => (found.value ? marked(found.value) : null));
  return { node, again };
}

/** @param {Finding[]} findings @param {string} blocked */
function summary(findings, blocked) {
  if (!findings.length) return "Nothing in it is taken for a secret.";
  const rules = [...new Set(findings.map((one) => one.rule))].join(", ");
  return `${counted(findings.length, "secret")}, found by ${rules}.${blocked ? ` A request with it is refused, by ${blocked}.` : ""}`;
}

/**
 * The text with what was found marked; offsets count characters, not UTF-16 units.
 * @param {{ text: string, findings: Finding[] }} found
 */
function marked({ text, findings }) {
  const letters = Array.from(text);
  const box = el("div", { class: "bodyjson", tabindex: 0, role: "region", "aria-label": "What would be found" });
  let at = 0;
  for (const one of [...findings].sort((first, other) => first.offset - other.offset)) {
    if (one.offset < at) continue;
    box.append(letters.slice(at, one.offset).join(""),
      el("mark", { class: one.mode, title: `${one.rule}: ${MODES[one.mode]}` },
        letters.slice(one.offset, one.offset + one.length).join("")));
    at = one.offset + one.length;
  }
  box.append(letters.slice(at).join(""));
  return box;
}
