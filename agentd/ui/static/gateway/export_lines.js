/** Ready-made lines for a terminal, with which clients use the gateway. */

/** @typedef {{ name: string, context?: number | null, maxOutput?: number | null }} Model */

const NO_CHAT = /embed|rerank|moderation|whisper|transcri|tts|image|dall-e/i;
const SMALL = /haiku|mini|small|flash|nano|lite/i;

/**
 * The models that converse, by their names, before the others: a client's model is the first.
 * @template {Model} T
 * @param {readonly T[]} models
 * @returns {T[]}
 */
export function chatModelsFirst(models) {
  return [...models.filter((one) => !NO_CHAT.test(one.name)), ...models.filter((one) => NO_CHAT.test(one.name))];
}

/**
 * The model for small tasks: one whose name says that it is small, else the client's model.
 * @template {Model} T
 * @param {readonly T[]} models
 * @param {T} model
 * @returns {T}
 */
export function smallModel(models, model) {
  return models.find((one) => SMALL.test(one.name) && !NO_CHAT.test(one.name)) ?? model;
}

/**
 * The lines by client. Clients know nothing of a model by the gateway's name, so they are told its context.
 * @param {string} root address of the gateway
 * @param {string} key
 * @param {Model} model
 * @param {Model} small the model for titles, summaries and simple sub-agents
 * @returns {Record<string, string>}
 */
export function exportLines(root, key, model, small) {
  const { name, context } = model;
  const provider = `{name="agentd", base_url="${root}/v1", env_key="AGENTD_ACCESS_KEY", wire_api="responses"}`;
  const opencode = {
    $schema: "https" + "://opencode.ai/config.json", model: `agentd/${name}`, small_model: `agentd/${small.name}`,
    provider: { agentd: {
      npm: "@ai-sdk/openai-compatible", options: { baseURL: `${root}/v1`, apiKey: "{env:AGENTD_ACCESS_KEY}" },
      models: Object.fromEntries([model, small].map((one) => [one.name, opencodeLimit(one)])),
    } },
  };
  return {
    "Codex": `export AGENTD_ACCESS_KEY='${key}'\ncodex -m '${name}' -c model_provider=agentd \\\n${
      context ? `  -c model_context_window=${context} \\\n` : ""}  -c 'model_providers.agentd=${provider}'`,
    "Claude Code": [
      "unset ANTHROPIC_API_KEY", `export ANTHROPIC_BASE_URL='${root}'`, `export ANTHROPIC_AUTH_TOKEN='${key}'`,
      `export ANTHROPIC_MODEL='${name}'`,
      ...["OPUS", "SONNET", "FABLE"].map((kind) => `export ANTHROPIC_DEFAULT_${kind}_MODEL='${name}'`), // what sub-agents may ask for
      `export ANTHROPIC_DEFAULT_HAIKU_MODEL='${small.name}'`,
      ...(context ? [`export CLAUDE_CODE_MAX_CONTEXT_TOKENS=${context}`] : []),
      "claude",
    ].join("\n"),
    "opencode": `export AGENTD_ACCESS_KEY='${key}'\nexport OPENCODE_CONFIG_CONTENT='${JSON.stringify(opencode)}'\nopencode`,
    "OpenAI SDK": `export OPENAI_BASE_URL='${root}/v1'\nexport OPENAI_API_KEY='${key}'`,
    "Anthropic SDK": `unset ANTHROPIC_AUTH_TOKEN\nexport ANTHROPIC_BASE_URL='${root}'\nexport ANTHROPIC_API_KEY='${key}'`,
    "Gemini SDK": `unset GOOGLE_API_KEY\nexport GOOGLE_GEMINI_BASE_URL='${root}'\nexport GEMINI_API_KEY='${key}'`,
  };
}

/** @param {Model} model */
function opencodeLimit({ context, maxOutput }) {
  return context && maxOutput ? { limit: { context, output: maxOutput } } : {};
}
