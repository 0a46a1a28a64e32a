// The official TypeScript client: goes through all that an editor does, and prints it as JSON.
// Its argument is {"command", "env", "folder"}.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const wish = JSON.parse(process.argv[2]);
const [program, ...words] = wish.command;
const child = spawn(program, words, { env: wish.env, stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

let updates = [];
const asked = [];
const kinds = () => [...new Set(updates.map((one) => one.sessionUpdate))].sort();
const reply = () => updates.filter((one) => one.sessionUpdate === "agent_message_chunk").map((one) => one.content.text).join("");

const editor = acp.client({ name: "editor" })
  .onNotification(acp.methods.client.session.update, ({ params }) => { updates.push(params.update); })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    asked.push(params.toolCall.title);
    const option = params.options.find((one) => one.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  });

const { agent } = acp.methods;
const found = await editor.connectWith(stream, async (context) => {
  const begun = await context.request(agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const pairs = [{ name: "A", value: "1" }];
  const program = { name: "a", command: "x", args: ["y"], env: pairs };
  const address = { type: "http", name: "b", url: "https://docs.example/mcp", headers: pairs };
  const place = { cwd: wish.folder, mcpServers: [program, address] };
  const { sessionId } = await context.request(agent.session.new, place);
  const say = (text) => context.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  const told = await say("Go");
  const shown = kinds();
  updates = [];
  const stopped = await say("run ls");
  await context.request(agent.session.setMode, { sessionId, modeId: "deny" });
  const { configOptions } = await context.request(agent.session.setConfigOption, { sessionId, configId: "model", value: "mine" });
  const said = reply();
  updates = [];
  await context.request(agent.session.load, { ...place, sessionId });
  const replayed = kinds();
  const { sessions } = await context.request(agent.session.list, {});
  await context.request(agent.session.close, { sessionId });
  return {
    kinds: shown,
    told: told.stopReason,
    agent: begun.agentInfo.name,
    asked,
    stopped: stopped.stopReason,
    reply: said,
    replayed,
    models: configOptions.map((one) => one.currentValue),
    listed: sessions.length === 1 && sessions[0].sessionId === sessionId,
  };
});
child.stdin.end();
process.stdout.write(JSON.stringify(found), () => process.exit(0));
