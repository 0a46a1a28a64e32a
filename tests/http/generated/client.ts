// Uses the daemon by the types that openapi-typescript makes of its document.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };
const [baseUrl = "", key = ""] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { "X-API-Key": key } });

// Every field of a wish may be absent; every field of an answer is there.
const wish: components["schemas"]["CreateChat"] = { prompt: "Hello" };
const created = await client.POST("/api/remote/chats", { body: wish });
if (!created.data) throw new Error(created.error.message);
const params = { path: { chatId: created.data.chatId } };

const status = await client.GET("/api/remote/chats/{chatId}/status", { params });
const at: string = status.data!.createdAt;
const queue = await client.GET("/api/remote/chats/{chatId}/queue", { params });
const labels = await client.GET("/api/chat-labels");
const models = await client.GET("/api/models");
const settings = await client.GET("/api/settings/all");
const missing = await client.GET("/api/build/status/{name}", { params: { path: { name: "none" } } });
if (!missing.error) throw new Error("a build that is not there");
const kind: string = missing.error.error;

console.log(JSON.stringify({
  at,
  waiting: queue.data!.prompts.length,
  labels: labels.data!.labels.length,
  models: models.data!.models.length > 0,
  settings: settings.data!.settings.length > 0,
  kind,
}));
