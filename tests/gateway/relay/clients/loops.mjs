// Tool loops of the vendors' own libraries: two turns, with one call of a tool between them.
// Usage: node loops.mjs LOOP BASE KEY MODEL; prints what was said last and the tool's arguments.
import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import OpenAI from 'openai';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const [, , loop, base, key, model] = process.argv;
const seen = [];
const parameters = z.object({ path: z.string() });
const description = 'Looks into a folder';
const messages = [{ role: 'user', content: 'Look around' }];
const run = async ({ path }) => {
  seen.push(path);
  return `etc in ${path}`;
};
const until = (isStepCount ?? stepCountIs)(4);
const look = tool({ description, inputSchema: parameters, execute: run });

async function aiSdk(languageModel, streamed) {
  const asked = { model: languageModel, messages, tools: { look }, stopWhen: until, maxRetries: 0 };
  if (!streamed) return (await generateText(asked)).text;
  const reply = streamText(asked);
  for await (const part of reply.fullStream) if (part.type === 'error') throw part.error;
  return await reply.text;
}

const anthropic = () => new Anthropic({ baseURL: base, apiKey: key, maxRetries: 0 });
const openai = () => new OpenAI({ baseURL: `${base}/v1`, apiKey: key, maxRetries: 0 });
const runner = { model, max_tokens: 500, messages };

const loops = {
  async 'anthropic tool runner'() {
    const tools = [betaZodTool({ name: 'look', description, inputSchema: parameters, run })];
    const last = await anthropic().beta.messages.toolRunner({ ...runner, tools });
    return last.content.map((block) => block.text ?? '').join('');
  },
  async 'openai run tools'() {
    const schema = { type: 'object', properties: { path: { type: 'string' } } };
    const called = { name: 'look', description, parameters: schema, parse: JSON.parse, function: run };
    const tools = [{ type: 'function', function: called }];
    return await openai().chat.completions.runTools({ model, messages, tools }).finalContent();
  },
  'ai sdk anthropic': () => aiSdk(createAnthropic({ baseURL: `${base}/v1`, apiKey: key })(model)),
  'ai sdk anthropic streamed': () =>
    aiSdk(createAnthropic({ baseURL: `${base}/v1`, apiKey: key })(model), true),
  'ai sdk chat': () => aiSdk(createOpenAI({ baseURL: `${base}/v1`, apiKey: key }).chat(model)),
  'ai sdk chat streamed': () =>
    aiSdk(createOpenAI({ baseURL: `${base}/v1`, apiKey: key }).chat(model), true),
  'ai sdk responses': () =>
    aiSdk(createOpenAI({ baseURL: `${base}/v1`, apiKey: key }).responses(model)),
  'ai sdk responses streamed': () =>
    aiSdk(createOpenAI({ baseURL: `${base}/v1`, apiKey: key }).responses(model), true),
};

console.log(JSON.stringify({ said: await loops[loop](), seen }));
