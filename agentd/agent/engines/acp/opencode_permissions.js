// A plugin of opencode: the person's settings and those of the workspace may allow tools, in all or
// to one agent. Here opencode has to ask agentd all the same; what they deny stays denied.
const given = JSON.parse(process.env.OPENCODE_CONFIG_CONTENT ?? "{}").permission ?? {};

function ask(value, tool) {
  if (value === "allow") return given[tool] ?? "ask";
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([one, what]) => [one, ask(what, tool)]));
}

function askForAll(permission) {
  if (typeof permission === "string") return ask(permission, "*");
  return Object.fromEntries(Object.entries(permission).map(([tool, what]) => [tool, ask(what, tool)]));
}

export const AgentdPermissions = async () => ({
  config: async (settings) => {
    const permission = askForAll(settings.permission ?? {});
    settings.permission = { ...given, ...permission }; // of several rules, the last one counts
    for (const agent of Object.values(settings.agent ?? {})) {
      if (agent?.permission) agent.permission = askForAll(agent.permission);
    }
  },
});
