// The official TypeScript client of version 1, which most programs have: as with_typescript.mjs.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema, ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { goThrough, readWish } from "./common.mjs";

const wish = readWish();
const client = new Client(
  { name: "agentd-tests", version: "1" },
  { capabilities: { elicitation: {} } },
);
const ways = {
  callTool: (params, options) => client.callTool(params, undefined, options),
  onAsked: (answer) => client.setRequestHandler(ElicitRequestSchema, answer),
  onChanged: (hear) => client.setNotificationHandler(ResourceUpdatedNotificationSchema, hear),
  subscribe: (uri) => client.subscribeResource({ uri }),
};
const transport = wish.command
  ? new StdioClientTransport({ command: wish.command[0], args: wish.command.slice(1), env: wish.env })
  : new StreamableHTTPClientTransport(new URL(wish.url), {
      requestInit: { headers: wish.headers },
    });
let revision = "";
transport.setProtocolVersion = ((given) => (version) => {
  revision = version;
  given?.call(transport, version);
})(transport.setProtocolVersion);
await goThrough(client, transport, ways, () => revision);
