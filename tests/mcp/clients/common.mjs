// What both TypeScript clients go through; the ways in which they differ are given.

const PATIENCE = 60_000;

export const readWish = () => JSON.parse(process.argv[2]);

export async function goThrough(client, transport, ways, getRevision) {
  const progress = [];
  const asked = [];
  const timeout = setTimeout(() => process.exit(3), 2 * PATIENCE);
  let hear;
  const changed = new Promise((resolve) => (hear = resolve));
  ways.onAsked((request) => {
    asked.push(request.params.message);
    return { action: "accept", content: { decision: "allow", note: "go on" } };
  });
  ways.onChanged((message) => hear(message.params.uri));
  await client.connect(transport);

  const call = (name, values, options = {}) =>
    ways.callTool({ name, arguments: values }, options);
  const { tools } = await client.listTools();
  const made = await call("create_chat", { prompt: "run ls" });
  const chatId = made.structuredContent.chatId;
  const outcome = await call(
    "wait_for_chat",
    { chatId },
    { onprogress: (one) => progress.push(one.message), timeout: PATIENCE },
  );
  const uri = `agentd://chats/${chatId}`;
  const { contents } = await client.readResource({ uri });
  const refused = await call("get_chat", { chatId: 999_999 });
  const { resources } = await client.listResources();
  const { resourceTemplates } = await client.listResourceTemplates();
  await ways.subscribe(uri);
  await call("queue_prompt", { chatId, prompt: "More" });
  const seen = (await changed) === uri;
  clearTimeout(timeout);
  console.log(
    JSON.stringify({
      revision: getRevision(),
      tools: tools.map((one) => one.name),
      outcome: outcome.structuredContent,
      resources: resources.map((one) => one.uri),
      templates: resourceTemplates.length,
      read: JSON.parse(contents[0].text).chat.chatId === chatId,
      refused: refused.isError,
      changed: seen,
      progress,
      asked,
    }),
  );
  await client.close();
  process.exit(0);
}
