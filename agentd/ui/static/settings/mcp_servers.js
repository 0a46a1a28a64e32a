/** The MCP servers whose tools agents use: those of mcp.yml, and those that the workspace's .mcp.json names. */

import { get, may, put, remove } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { counted } from "../core/counts.js";
import { agoTime } from "../core/time.js";
import { confirm } from "../parts/dialog.js";
import { emptyState, loaded } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { loadStyle } from "../parts/stylesheet.js";
import { toast, toastError } from "../parts/toast.js";
import { joinWords } from "./command_line.js";
import { card, decisionState, failureLine, follow, listView, longList, makerOf, settingsPage, whoMay } from "./frame.js";
import { at, editServer, tryOut } from "./mcp_server_dialogs.js";

await loadStyle("mcp_servers");

/**
 * @typedef {Required<import("../api.d.ts").McpServerForm>} Server
 * @typedef {import("../api.d.ts").McpServerStateView} State
 * @typedef {import("../api.d.ts").McpProjectServerView} ProjectServer
 * @typedef {import("../api.d.ts").McpServersView} Found
 */

/** @returns {import("../core/router.js").Page} */
export function page() {
  if (!may("administrator")) return settingsPage("MCP servers", card({ title: "MCP servers" }, whoMay("administrator")));
  const [view, projectView] = [listView(), listView()];
  const read = loaded(() => get("/api/mcp-servers"), show);
  const reload = () => void read.reload();
  follow(["mcpServersUpdate", "settingsUpdate"], reload);
  return settingsPage("MCP servers", read.node);

  /** @param {Found} found */
  function show({ servers, problems, states, project }) {
    return [
      card({
        title: "MCP servers",
        text: "Agents use the tools and resources of these servers. They are in mcp.yml; each call is asked about, " +
          "unless it needs no approval.",
        actions: [el("button", { class: "btn main", changes: "administrator", onclick: () => void editServer(null, reload) },
          icon("plus"), "Add a server")],
      },
        problems.map((problem) => el("div", { class: "inside" }, failureLine(new Error(problem)))),
        servers.length
          ? longList(/** @type {Server[]} */ (servers), (one) => `${one.name} ${launchOf(one)}`,
            (one) => serverRow(one, states[one.name]), "servers", view)
          : emptyState("plug", "No MCP servers yet", "A server is a program that agentd starts, or an address that it calls.")),
      project.servers.length || project.problems.length ? projectCard(project, states) : null,
    ];
  }

  /** @param {Server} one @param {State | undefined} state */
  function serverRow(one, state) {
    const facts = [one.engines.length ? `for ${one.engines.join(", ")}` : "for all engines", ...withoutApproval(one), secretsOf(one)]
      .filter(Boolean).join(" · ");
    return el("li", null,
      el("span", { class: "name" },
        el("b", null, el("bdi", null, one.name)), state?.tools ? el("span", { class: "chip" }, counted(state.tools, "tool")) : null),
      el("small", null, el("code", { class: "launch" }, launchOf(one))),
      el("small", null, facts),
      one.enabled && state?.problem ? el("small", { class: "bad" }, state.problem, state.at ? [" (", agoTime(state.at), ")"] : "") : null,
      el("span", { class: "ends" }, stateOf(one, state),
        menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${one.name}` }, [icon("more")], () => [
          { label: "Try it out", icon: "check", note: "Starts or calls it, and lists its tools", changes: "administrator",
            onselect: () => void tryOut(one) },
          { label: "Edit", icon: "pencil", changes: "administrator", onselect: () => void editServer(one, reload) },
          { label: one.enabled ? "Switch off" : "Switch on", icon: one.enabled ? "pause" : "play", changes: "administrator",
            onselect: () => void act(() => put(at(one), { ...one, enabled: !one.enabled })) },
          null,
          { label: "Remove", icon: "trash", danger: true, changes: "administrator", onselect: () => void drop(one) },
        ])));
  }

  /** @param {Found["project"]} project @param {Found["states"]} states */
  function projectCard({ ignored, servers, problems }, states) {
    return card({
      title: "Named by the workspace",
      text: ignored
        ? "mcp.yml says project_servers: false, so the workspace’s .mcp.json is ignored."
        : "The workspace’s .mcp.json names these. A person is asked before one is used for the first time, " +
          "and again when its entry changes.",
    },
      problems.map((problem) => el("div", { class: "inside" }, failureLine(new Error(problem)))),
      longList(servers, (one) => `${one.name} ${one.launch}`, (one) => projectRow(one, states[one.name], ignored), "decisions",
        projectView));
  }

  /** @param {ProjectServer} one @param {State | undefined} state @param {boolean} ignored */
  function projectRow(one, state, ignored) {
    const by = one.decidedBy ? ` by ${makerOf(one.decidedBy)}` : "";
    const decided = one.decidedAt
      ? [`${one.decision === "allowed" ? "Allowed" : "Denied"}${by} `, agoTime(one.decidedAt)]
      : ignored ? "Not asked about" : "Asked about with the next turn";
    return el("li", null,
      el("span", { class: "name" }, el("b", null, el("bdi", null, one.name)),
        state?.tools && one.isPresent ? el("span", { class: "chip" }, counted(state.tools, "tool")) : null),
      one.isPresent
        ? el("small", { class: "asis" }, el("code", { class: "launch" }, one.launch))
        : el("small", null, "Not in .mcp.json now, or written otherwise there; or named by an editor"),
      el("small", null, decided, state?.running && one.isPresent ? ` · running in ${counted(state.running, "chat")}` : ""),
      one.isPresent && one.decision === "allowed" && state?.problem ? el("small", { class: "bad" }, state.problem) : null,
      el("span", { class: "ends" },
        decisionState(one),
        one.decision === "undecided" ? null : el("button", {
          class: "btn small", changes: "administrator", "aria-label": `Withdraw the decision about ${one.name}`,
          onclick: () => void withdraw(one),
        }, "Withdraw")));
  }

  /** @param {ProjectServer} one */
  async function withdraw(one) {
    const text = `${one.decision === "allowed" ? "Where it is running, it is stopped. " : ""}It is asked about again with the next turn.`;
    if (await confirm({ title: `Withdraw the decision about ${one.name}?`, text, action: "Withdraw" })) {
      await act(() => remove(`/api/mcp-servers/decisions/${encodeURIComponent(one.id)}`));
    }
  }

  /** @param {() => Promise<unknown>} request */
  async function act(request) {
    try {
      await request();
    } catch (error) {
      toastError(error, () => void act(request));
    }
    reload();
  }

  /** @param {Server} one */
  async function drop(one) {
    const text = "Its entry in mcp.yml is deleted, with its variables and headers.";
    if (!await confirm({ title: `Remove ${one.name}?`, text, action: "Remove", danger: true })) return;
    await act(async () => {
      await remove(at(one));
      toast(`${one.name} is removed`);
    });
  }
}

/** @param {Server} one */
function launchOf({ command, url }) {
  return url || joinWords(command);
}

/** @param {Server} one */
function withoutApproval(one) {
  return [one.allow.length ? `no approval: ${one.allow.join(", ")}` : "", one.allow_reading ? "no approval for reading" : ""];
}

/** @param {Server} one */
function secretsOf({ env, headers }) {
  const names = Object.keys({ ...env, ...headers });
  return names.length ? `with ${names.join(", ")}` : "";
}

/** @param {Server} one @param {State | undefined} state */
function stateOf(one, state) {
  if (!one.enabled) return el("span", { class: "state" }, dot("off"), "Off");
  if (state?.running) return el("span", { class: "state good" }, dot("good"), `Running in ${counted(state.running, "chat")}`);
  if (state?.problem) return el("span", { class: "state bad" }, dot("bad"), "Failing");
  if (state?.at) return el("span", { class: "state good" }, dot("good"), "Works");
  return el("span", { class: "state" }, dot("off"), "Not used yet");
}
