// What Google's own client does, one scenario at a time, with the gateway as its base URL.
// Usage: node google.mjs SCENARIO BASE KEY MODEL; prints what the program saw, as JSON.
import { ApiError, GoogleGenAI, Type } from '@google/genai';

const [, , scenario, base, key, model] = process.argv;
const client = (apiKey) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: base } });
const ai = client(key);
const PNG = 'iVBORw0KGgo=';
const declared = {
  name: 'look',
  description: 'Looks into a folder',
  parameters: { type: Type.OBJECT, properties: { path: { type: Type.STRING } }, required: ['path'] },
};
const answer = ({ id, name, args }) =>
  ({ functionResponse: { id, name, response: { output: `etc in ${args.path}` } } });
const callable = {
  tool: async () => ({ functionDeclarations: [declared] }),
  callTool: async (calls) => calls.map(answer),
};
const ask = (contents, config = {}) => ai.models.generateContent({ model, contents, config });

async function read(stream) {
  const read = { said: '', thought: '', calls: [] };
  for await (const chunk of await stream) {
    for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
      if (part.functionCall) read.calls.push(part.functionCall);
      else read[part.thought ? 'thought' : 'said'] += part.text ?? '';
    }
  }
  return read;
}

async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const told = JSON.parse(error.message.slice(error.message.indexOf('{'))).error; // after "got status: …"
    return [error.status, told.status, told.message];
  }
  return 'no error';
}

const scenarios = {
  async whole() {
    const contents = ['What is it?', { inlineData: { mimeType: 'image/png', data: PNG } }];
    const config = {
      systemInstruction: { role: 'system', parts: [{ text: 'Be brief.' }, { text: 'Be kind.' }] },
      temperature: 0.5,
      candidateCount: 1,
      presencePenalty: 0,
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
      responseModalities: ['TEXT'],
    };
    const reply = await ask(contents, config);
    const { promptTokenCount, totalTokenCount } = reply.usageMetadata;
    const { finishReason } = reply.candidates[0];
    return [reply.text, finishReason, promptTokenCount, totalTokenCount];
  },
  async thinking() {
    const config = { thinkingConfig: { includeThoughts: true, thinkingLevel: 'LOW' } };
    return await read(ai.models.generateContentStream({ model, contents: 'Hello', config }));
  },
  async chat() {
    const chat = ai.chats.create({ model, config: { systemInstruction: 'Be brief.' } });
    const said = [];
    for (const message of ['a', 'b']) said.push((await read(chat.sendMessageStream({ message }))).said);
    said.push((await chat.sendMessage({ message: ['c', { text: 'd' }] })).text);
    return said;
  },
  async 'tools by hand'() {
    const chat = ai.chats.create({ model, config: { tools: [{ functionDeclarations: [declared] }] } });
    const { calls } = await read(chat.sendMessageStream({ message: 'Look around' }));
    const last = await read(chat.sendMessageStream({ message: calls.map(answer) }));
    return [calls.map((call) => call.args), last.said];
  },
  async 'tools by hand, without ids'() {
    const mode = { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['look'] } };
    const config = { tools: [{ functionDeclarations: [declared] }], toolConfig: mode };
    const said = [{ role: 'user', parts: [{ text: 'Look around' }] }];
    const first = await ask(said, config);
    const answers = first.functionCalls.map((call) => answer({ ...call, id: undefined }));
    said.push(first.candidates[0].content, { role: 'tool', parts: answers });
    return [first.functionCalls.map((call) => call.args), (await ask(said, config)).text];
  },
  async 'tools by itself'() {
    const chat = ai.chats.create({ model, config: { tools: [callable] } });
    return [(await chat.sendMessage({ message: 'Look around' })).text];
  },
  async 'tools by itself, streamed'() {
    const chat = ai.chats.create({ model, config: { tools: [callable] } });
    return [(await read(chat.sendMessageStream({ message: 'Look around' }))).said];
  },
  async schemas() {
    const kind = { type: Type.STRING, format: 'enum', enum: ['a', 'b'], nullable: true };
    const own = { type: Type.OBJECT, properties: { kind }, propertyOrdering: ['kind'] };
    const standard = { type: 'object', properties: { kind: { type: 'string' } } };
    const config = { responseMimeType: 'application/json' };
    const said = [];
    for (const more of [{ responseSchema: own }, { responseJsonSchema: standard }, {}])
      said.push((await ask('Which?', { ...config, ...more })).text);
    return said;
  },
  async models() {
    const names = [];
    for await (const listed of await ai.models.list({ config: { pageSize: 2 } })) names.push(listed.name);
    const { totalTokens } = await ai.models.countTokens({ model, contents: ['Hello', 'there'] });
    return [names, (await ai.models.get({ model })).name, totalTokens > 0];
  },
  async embeddings() {
    const config = { outputDimensionality: 3, taskType: 'CLUSTERING' };
    const { embeddings } = await ai.models.embedContent({ model, contents: ['Hello', 'x'], config });
    return embeddings.map((one) => one.values);
  },
  async errors() {
    const streamed = () => read(ai.models.generateContentStream({ model, contents: 'Hello' }));
    return {
      refused: await failure(ask('Hello')),
      refusedStream: await failure(streamed()),
      failedStream: await failure(streamed()),
      unknown: await failure(ai.models.generateContent({ model: 'none', contents: 'Hello' })),
      unknownModel: await failure(ai.models.get({ model: 'none' })),
      key: await failure(client('wrong').models.generateContent({ model, contents: 'Hello' })),
    };
  },
  async abort() {
    const left = new AbortController();
    const config = { abortSignal: left.signal };
    let said = '';
    try {
      const stream = await ai.models.generateContentStream({ model, contents: 'Hello', config });
      for await (const chunk of stream) {
        said += chunk.text ?? '';
        if (said.includes('one')) left.abort();
      }
    } catch (error) {
      return [said.startsWith('one'), error.name];
    }
    return 'no error';
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
