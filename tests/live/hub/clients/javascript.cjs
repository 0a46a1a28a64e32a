// Listens with @microsoft/signalr and prints what happens, one JSON object per line.
// The only argument is JSON: url, transport, stateful, reconnect, calls, timeout (ms), catchUp (after
// a reconnection, ask for all since the last seq and runId).
// It stops when its standard input ends.

const signalR = require("@microsoft/signalr");

const EVENTS = ["messageUpdate", "chatUpdate", "queueUpdate", "keysUpdate", "gap"];

const wish = JSON.parse(process.argv[2]);
const say = (what, more) => process.stdout.write(JSON.stringify({ what, ...more }) + "\n");

process.on("unhandledRejection", (error) => say("unhandled", { error: String(error) }));

const builder = new signalR.HubConnectionBuilder()
  .withUrl(wish.url, {
    transport: signalR.HttpTransportType[wish.transport || "WebSockets"],
    headers: wish.headers || {},
  })
  .configureLogging(signalR.LogLevel.None);
if (wish.stateful) builder.withStatefulReconnect();
if (wish.reconnect) builder.withAutomaticReconnect(Array(4000).fill(50));
const connection = builder.build();
if (wish.timeout) connection.serverTimeoutInMilliseconds = wish.timeout;

let last = [];
for (const name of EVENTS) {
  connection.on(name, (...given) => {
    if (name === "chatUpdate") last = [given[0].seq, given[0].runId];
    say("event", { name, arguments: given });
  });
}
connection.onreconnecting((error) => say("reconnecting", { error: String(error || "") }));
connection.onreconnected(async (id) => {
  say("reconnected", { id });
  if (!wish.catchUp) return;
  await connection.invoke("Subscribe", "all", ...last);
  say("caught up");
});
connection.onclose((error) => say("closed", { error: String(error || "") }));

async function main() {
  try {
    await connection.start();
  } catch (error) {
    say("refused", { error: String(error) });
    return;
  }
  say("open", { id: connection.connectionId });
  for (const [method, ...given] of wish.calls || []) {
    try {
      say("result", { method, result: (await connection.invoke(method, ...given)) ?? null });
    } catch (error) {
      say("result", { method, error: String(error) });
    }
  }
  process.stdin.resume();
  process.stdin.on("end", async () => {
    await connection.stop();
    process.exit(0);
  });
}

main();
