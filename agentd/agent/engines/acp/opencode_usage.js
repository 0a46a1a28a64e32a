// A plugin of opencode: its answer to a prompt has the tokens of the last call only, so this tells
// those of each call, as a notification of the Agent Client Protocol among opencode's own.
export const AgentdUsage = async () => ({
  event: async ({ event }) => {
    const part = event.type === "message.part.updated" ? event.properties.part : null;
    if (part?.type !== "step-finish") return;
    const { id, sessionID: sessionId, tokens, cost } = part;
    const params = { id, sessionId, tokens, cost };
    process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", method: "_agentd/usage", params })}\n`);
  },
});
