// A plugin of opencode, which goes on without a word where an MCP server does not work: this tells
// the state of each, as a notification of the Agent Client Protocol among opencode's own.
export const AgentdServers = async ({ client }) => {
  let told = false;
  return {
    "chat.message": async () => {
      if (told) return;
      told = true;
      try {
        const { data: servers } = await client.mcp.status();
        const params = { servers };
        process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", method: "_agentd/servers", params })}\n`);
      } catch {
        // An opencode that cannot tell it takes the prompt all the same.
      }
    },
  };
};
