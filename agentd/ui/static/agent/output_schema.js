/** The dialog that asks for the schema that the reply to a prompt has to fit. */

import { el, icon } from "../core/el.js";
import { signal } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";

/** The dialog's answer when there is to be no schema. */
export const NONE = "none";

const EXAMPLE = `{
  "type": "object",
  "properties": { "summary": { "type": "string" } },
  "required": ["summary"],
  "additionalProperties": false
}`;

/**
 * Ask for a schema.
 * @param {string} before
 * @returns {Promise<string>} the schema, `NONE`, or nothing when it was dismissed
 */
export function askSchema(before) {
  const problem = signal("");
  const input = el("textarea", { class: "input mono", rows: 10, spellcheck: "false", autofocus: true, value: before || EXAMPLE });
  return openDialog("Output schema", (close) => {
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      problem.value = explainSchema(input.value);
      if (!problem.peek()) close(input.value);
    };
    return [
      el("form", { onsubmit: submit },
        el("label", { class: "labelled" }, el("span", null, "JSON Schema"), input,
          el("small", null,
            "The reply to the next prompt is JSON that fits this schema of an object; a turn whose reply does not has failed. ",
            "Suppliers want additionalProperties: false in every object.")),
        el("div", { class: "failure", role: "alert", hidden: () => !problem.value },
          icon("warning"), el("span", null, () => problem.value)),
        el("footer", null,
          before ? el("button", { class: "btn", type: "button", onclick: () => close(NONE) }, "No schema") : null,
          el("button", { class: "btn", type: "button", onclick: () => close() }, "Cancel"),
          el("button", { class: "btn main" }, "Use it"))),
    ];
  }, { wide: true });
}

/** Why a text is no schema of an object; the daemon looks more closely. @param {string} text */
export function explainSchema(text) {
  try {
    const schema = JSON.parse(text);
    return schema?.type === "object" ? "" : 'It must describe an object: {"type": "object", …}';
  } catch (error) {
    return `This is not JSON: ${/** @type {Error} */ (error).message}`;
  }
}
