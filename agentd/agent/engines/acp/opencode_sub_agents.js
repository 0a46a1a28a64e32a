// A plugin of opencode, which asks its client nothing that its sub-agents want to do and would wait
// for an answer for ever: this asks in its place, as requests of the Agent Client Protocol.
import path from "node:path";

const KINDS = { bash: "execute", edit: "edit", read: "read", webfetch: "fetch" };
const SEARCHES = ["glob", "grep", "list"];
const OPTIONS = [
  { optionId: "once", kind: "allow_once", name: "Allow once" },
  { optionId: "reject", kind: "reject_once", name: "Reject" },
];

function describe(asked, input, root) {
  const { permission, patterns = [], metadata = {}, tool } = asked;
  const kind = KINDS[permission] ?? (SEARCHES.includes(permission) ? "search" : "other");
  const named = [input.filePath ?? metadata.filepath ?? input.path].filter(Boolean);
  const files = permission === "edit" || !named.length ? patterns : named;
  const places = ["edit", "read"].includes(kind) ? files : named;
  return {
    toolCallId: tool?.callID ?? asked.id,
    title: permission,
    kind,
    rawInput: { ...metadata, ...input },
    locations: places.map((place) => ({ path: path.resolve(root, place) })),
  };
}

export const AgentdSubAgents = async ({ client, worktree }) => {
  const children = new Set();
  const inputs = new Map(); // of their tools, by the ids of the calls
  const open = new Map();
  let rest = "";

  const answer = ({ id, result }) => {
    const { id: permissionID, sessionID } = open.get(id);
    open.delete(id);
    const response = result?.outcome?.optionId === "once" ? "once" : "reject";
    client.postSessionIdPermissionsPermissionId({
      path: { id: sessionID, permissionID },
      body: { response },
    });
  };
  const listen = (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    // All but the answers to these questions, which are whole lines, is for opencode itself.
    for (const line of lines.filter((one) => one.startsWith("{") && one.includes('"agentd-'))) {
      const message = JSON.parse(line);
      if (open.has(message.id)) answer(message);
    }
  };

  const ask = (asked) => {
    const id = `agentd-${asked.id}`;
    open.set(id, asked);
    // Not before: whoever listens first takes what opencode itself has to read.
    if (!process.stdin.listeners("data").includes(listen)) process.stdin.on("data", listen);
    const toolCall = describe(asked, inputs.get(asked.tool?.callID) ?? {}, worktree);
    const params = { sessionId: asked.sessionID, toolCall, options: OPTIONS };
    const request = { jsonrpc: "2.0", id, method: "session/request_permission", params };
    process.stdout.write(`${JSON.stringify(request)}\n`);
  };
  const withdraw = (id) => {
    if (!open.delete(id)) return;
    const params = { requestId: id };
    const told = { jsonrpc: "2.0", method: "$/cancel_request", params };
    process.stdout.write(`${JSON.stringify(told)}\n`);
  };

  return {
    event: async ({ event: { type, properties } }) => {
      if (type === "session.created" && properties.info.parentID) children.add(properties.info.id);
      const { part } = properties;
      if (type === "message.part.updated" && part.type === "tool" && children.has(part.sessionID)) {
        inputs.set(part.callID, part.state.input);
      }
      if (type === "permission.asked" && children.has(properties.sessionID)) ask(properties);
      if (type === "permission.replied") withdraw(`agentd-${properties.requestID}`);
    },
  };
};
