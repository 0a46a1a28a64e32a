// The official TypeScript client (version 2): goes through all that /mcp can do, and prints what it
// saw as JSON. Its argument is that of with_python.py.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { goThrough, readWish } from "./common.mjs";

const wish = readWish();
const client = new Client(
  { name: "agentd-tests", version: "1" },
  {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: wish.mode },
  },
);
const ways = {
  callTool: (params, options) => client.callTool(params, options),
  onAsked: (answer) => client.setRequestHandler("elicitation/create", answer),
  onChanged: (hear) => client.setNotificationHandler("notifications/resources/updated", hear),
  subscribe: (uri) =>
    wish.mode === "legacy"
      ? client.subscribeResource({ uri })
      : client.listen({ resourceSubscriptions: [uri] }),
};
const transport = wish.command
  ? new StdioClientTransport({ command: wish.command[0], args: wish.command.slice(1), env: wish.env })
  : new StreamableHTTPClientTransport(new URL(wish.url), {
      requestInit: { headers: wish.headers },
    });
await goThrough(client, transport, ways, () => client.getNegotiatedProtocolVersion());
