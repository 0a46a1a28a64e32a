/** Dialogs of an MCP server: adding and editing it, and what it says when it is tried out. */

import { get, post, put } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { counted } from "../core/counts.js";
import { computed, signal } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";
import { loaded } from "../parts/frame.js";
import { checkPairs, readPairs, writePairs } from "../parts/pairs.js";
import { joinWords, splitWords } from "./command_line.js";
import { beginEdit } from "./edits.js";
import { failureLine, labelled, sendForm } from "./frame.js";

/** @typedef {Required<import("../api.d.ts").McpServerForm>} Server */
/** @typedef {import("../api.d.ts").McpServerCheckView} Check */

const ENGINES = /** @type {const} */ (["native", "codex", "claude-code", "acp"]);

/** @param {{ name: string }} one */
export function at(one) {
  return `/api/mcp-servers/${encodeURIComponent(one.name)}`;
}

/**
 * Start or call a server, and show its tools or what is wrong.
 * @param {{ name: string }} one
 */
export function tryOut(one) {
  return openDialog(`Try out ${one.name}`, (close) => [
    el("div", { class: "stack" },
      el("p", null, "It is started or called for a moment; no tool is run."),
      loaded(() => post(`${at(one)}/check`), showCheck).node),
    el("footer", null, el("button", { class: "btn main", onclick: () => close() }, "Close")),
  ], { wide: true });
}

/** @param {Check} check */
function showCheck({ ok, tools, problem }) {
  if (!ok) return failureLine(new Error(problem));
  return el("div", { class: "mcp-tools" },
    el("p", { class: "state good" }, icon("check"), `It works, and offers ${counted(tools.length, "tool")}.`),
    el("ul", { "aria-label": "Tools" }, tools.map((tool) => el("li", null,
      el("code", null, tool.name), tool.reads ? el("span", { class: "chip" }, "says that it only reads") : null,
      el("small", null, tool.description)))));
}

/**
 * @param {Server | null} one null: a new one
 * @param {() => void} done
 */
export function editServer(one, done) {
  return openDialog(one ? `Edit ${one.name}` : "Add an MCP server", (close) => {
    const plain = { class: "input", autocomplete: "off", autocapitalize: "none", spellcheck: "false" };
    const kind = signal(one?.url ? "address" : "program");
    const isProgram = computed(() => kind.value === "program");
    const name = el("input", { ...plain, name: "name", value: one?.name ?? "", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,31}",
      autofocus: !one });
    const command = el("input", { ...plain, name: "command", value: joinWords(one?.command ?? []), required: () => isProgram.value,
      placeholder: "npx -y @modelcontextprotocol/server-github",
      oninput: (/** @type {any} */ event) => event.target.setCustomValidity(problemOf(event.target.value)) });
    const url = el("input", { ...plain, name: "url", value: one?.url ?? "", required: () => !isProgram.value,
      placeholder: "https://docs.example/mcp", maxlength: 2000 });
    const env = el("textarea", { ...plain, name: "env", rows: 3, placeholder: "GITHUB_TOKEN=env:GITHUB_TOKEN" },
      writePairs(one?.env ?? {}, "="));
    const headers = el("textarea", { ...plain, name: "headers", rows: 3, placeholder: "Authorization: Bearer ${DOCS_TOKEN}" },
      writePairs(one?.headers ?? {}, ": "));
    const allow = el("input", { ...plain, name: "allow", value: (one?.allow ?? []).join(", "), placeholder: "get_*, search_*" });
    const seconds = el("input", { ...plain, name: "seconds", type: "number", min: 1, max: 3600, value: one?.seconds ?? 60,
      required: true });
    const reading = el("input", { type: "checkbox", checked: one?.allow_reading ?? false });
    const engines = ENGINES.map((engine) =>
      el("input", { type: "checkbox", value: engine, checked: one?.engines.includes(engine) ?? false }));
    const read = () => ({
      name: name.value.trim(), enabled: one?.enabled ?? true, seconds: Number(seconds.value), allow_reading: reading.checked,
      allow: allow.value.split(/[\s,]+/).filter(Boolean), engines: engines.filter((box) => box.checked).map((box) => box.value),
      ...(isProgram.peek()
        ? { command: splitWords(command.value), env: readPairs(env.value, "=") }
        : { url: url.value.trim(), headers: readPairs(headers.value, ":") }),
    });
    const merge = beginEdit(read(), one ?? {});
    const send = async () => {
      if (isProgram.peek()) checkPairs(env.value, "=", "Variables", (name) => name);
      else checkPairs(headers.value, ":", "Headers");
      if (one) {
        const { servers } = await get("/api/mcp-servers");
        await put(at(one), merge(read(), servers.find((now) => now.name === one.name) ?? one));
      } else await post("/api/mcp-servers", read());
      close();
      done();
    };
    return [sendForm({ action: one ? "Save" : "Add", class: "mcp-form", oncancel: () => close(), send },
      labelled("Name", name, "Letters, digits, - and _: a model calls its tools mcp__NAME__TOOL."),
      kindChoice(kind),
      el("div", { class: "stacked", hidden: () => !isProgram.value },
        labelled("Program and arguments", command,
          "Started without a shell; everybody on this host can read its arguments. What is masked stays as it is."),
        labelled("Variables", env,
          "NAME=value, one a line. A value may be env:NAME, file:/PATH, or have ${NAME} in it; a masked one stays as it is.")),
      el("div", { class: "stacked", hidden: () => isProgram.value },
        labelled("Address", url, "It speaks Streamable HTTP. What is masked stays as it is."),
        labelled("Headers", headers, "Name: value, one a line. With another address they must be entered again.")),
      el("div", { class: "two" },
        labelled("Tools that need no approval", allow, "Names; * and ? are wildcards."),
        labelled("Seconds without progress", seconds, "A call without progress for this long is given up.")),
      el("label", { class: "checked" }, reading,
        el("span", null, "No approval for reading", el("small", null, "For tools that the server itself says only read."))),
      engineChoice(engines))];
  }, { wide: true });
}

/** @param {string} line */
function problemOf(line) {
  try {
    splitWords(line);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** @param {import("../core/signals.js").Signal<string>} kind */
function kindChoice(kind) {
  return el("fieldset", { class: "mcp-kind" }, el("legend", null, "What it is"),
    [["program", "A program"], ["address", "An address"]].map(([value = "", label = ""]) => el("label", null,
      el("input", { type: "radio", name: "mcp-kind", value, checked: kind.peek() === value, onchange: () => (kind.value = value) }),
      label)));
}

/** @param {HTMLInputElement[]} boxes */
function engineChoice(boxes) {
  return el("fieldset", { class: "mcp-kind" }, el("legend", null, "Only for these engines (none: for all)"),
    boxes.map((box) => el("label", null, box, box.value)));
}
