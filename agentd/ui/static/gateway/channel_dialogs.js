/** Dialogs of channels: create and change one; a VPN's link is looked at before it is saved. */

import { ApiError, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { count, size } from "../core/counts.js";
import { signal } from "../core/signals.js";
import { fullTime } from "../core/time.js";
import { failureLine, labelled } from "../settings/frame.js";
import { createDialog, editDialog } from "./form.js";

/**
 * @typedef {import("./form.js").Field} Field
 * @typedef {import("./form.js").Form} Form
 * @typedef {{ title: string, servers: { name: string, type: string, host: string, port: number, engine: string | null, problem: string }[],
 *   traffic: { used: number | null, total: number | null, left: number | null, expiresAt: string | null },
 *   skipped: Record<string, number> }} Preview
 */

/** Suppliers whose address and dialects are known: the name, the dialects, and the host with its path. */
const SUPPLIERS = /** @type {const} */ ([
  ["openai", "OpenAI", "openai-responses,openai-chat", "https", "api.openai.com/v1"],
  ["anthropic", "Anthropic", "anthropic", "https", "api.anthropic.com"],
  ["gemini", "Google Gemini", "gemini", "https", "generativelanguage.googleapis.com"],
  ["openrouter", "OpenRouter", "openai-chat", "https", "openrouter.ai/api/v1"],
  ["mistral", "Mistral", "openai-chat", "https", "api.mistral.ai/v1"],
  ["deepseek", "DeepSeek", "openai-chat", "https", "api.deepseek.com/v1"],
  ["xai", "xAI", "openai-responses,openai-chat", "https", "api.x.ai/v1"],
  ["ollama", "Ollama, on this machine", "openai-chat", "http", "127.0.0.1:11434/v1"],
]);

const DIALECTS = /** @type {const} */ ([
  ["openai-chat", "OpenAI chat completions"], ["openai-responses", "OpenAI responses"],
  ["openai-responses,openai-chat", "OpenAI responses and chat"],
  ["anthropic", "Anthropic messages"], ["gemini", "Google Gemini"],
]);

/** Who tells the balance of an account. */
const BALANCES = /** @type {const} */ ([
  ["auto", "by the address"], ["off", "not read"], ["openrouter", "as OpenRouter"], ["deepseek", "as DeepSeek"],
  ["siliconflow", "as SiliconFlow"], ["moonshot", "as Moonshot (Kimi)"],
  ["novita", "as Novita"], ["new-api", "as new-api and one-api"],
]);

const isVpn = (/** @type {(name: string) => string} */ value) => value("transport.kind") === "vpn";

/** @type {readonly Field[]} */
const FIELDS = [
  { name: "name", label: "Name", required: true, hint: "The name that models and keys use." },
  { name: "dialects", label: "Dialect", kind: "set", options: DIALECTS,
    hint: "The formats that the supplier accepts. Requests in other formats are translated." },
  { name: "url", label: "Address", required: true, wide: true, hint: "The base URL, to which the paths of each dialect are added." },
  { name: "key", label: "Key", kind: "secret", wide: true,
    hint: "The supplier's key. Stored, and never shown again; a masked value stays unchanged." },
  { name: "keys", label: "Further keys", kind: "lines", wide: true,
    hint: "One per line. All keys are used in turn, and each cools down by itself. Masked values stay unchanged." },
  { name: "local", label: "The address is one of this machine or its network", kind: "check", wide: true },
  { name: "timeout", label: "Timeout", kind: "number", hint: "Seconds until its answer begins." },
  { name: "coolDown", label: "Cooldown", kind: "number", hint: "Seconds without calls after its failures." },
  { name: "onLeave", label: "When a caller leaves", kind: "choice",
    options: [["cut", "end the call"], ["drain", "hear it out for its count"]] },
  { name: "balance.source", label: "Balance", kind: "choice", initial: "auto", options: BALANCES,
    hint: "How its supplier tells what is left of the account." },
  { name: "balance.low", label: "Warn below", kind: "number", hint: "An alert, in the currency that the supplier tells; empty for none." },
  { name: "headers", label: "Headers", kind: "pairs", wide: true, placeholder: "Name: value", hint: "Sent with every call, one per line." },
  { name: "parameters", label: "Parameters", kind: "json", wide: true,
    placeholder: '{"set": {"temperature": 0.2}, "default": {"top_p": 0.9}, "remove": ["user"]}',
    hint: "Set, default or remove parameters of requests, named as in the supplier’s format." },
  { name: "transport.kind", label: "Reached", kind: "choice",
    options: [["direct", "directly"], ["http", "through an HTTP proxy"], ["socks5", "through a SOCKS5 proxy"], ["vpn", "through a VPN"]] },
  { name: "transport.url", label: "Proxy, or link of the VPN", kind: "secret", when: (value) => value("transport.kind") !== "direct",
    hint: "Such as socks5://user:password@host:1080, a link (ss://, vless://, …) or a subscription's address." },
  { name: "transport.server", label: "Server of the subscription", when: isVpn, hint: "By its name; empty for the first one." },
];

const DEFAULTS = { dialects: ["openai-chat"], transport: { kind: "direct" }, onLeave: "cut", timeout: 600, coolDown: 30 };

/** @param {(name: string) => void} done */
export function createChannel(done) {
  return createDialog({
    title: "Add a channel", path: "/api/agent/channels", fields: FIELDS, initial: DEFAULTS, action: "Add",
    intro: (form) => {
      const choose = el("select", { class: "input", autofocus: true }, el("option", { value: "" }, "another"),
        SUPPLIERS.map(([name, label]) => el("option", { value: name }, label)));
      choose.addEventListener("change", () => {
        const [name = "", , dialects = "", scheme = "", host = ""] = SUPPLIERS.find(([one]) => one === choose.value) ?? [];
        if (!name) return;
        form.set("name", form.value("name") || name);
        form.set("dialects", dialects);
        form.set("url", `${scheme}://${host}`);
        form.set("local", scheme === "http" ? "true" : "");
      });
      return labelled("Supplier", choose, "Fills in the known values.");
    },
    extra: (form) => vpnPreview(form), done: (made) => done(made.name),
  });
}

/** @param {string} name @param {(name: string) => void} done */
export function editChannel(name, done) {
  return editDialog({
    title: `Edit ${name}`, path: `/api/agent/channels/${encodeURIComponent(name)}`, fields: FIELDS, extra: (form) => vpnPreview(form),
    done: (changed) => done(changed.name),
  });
}

/**
 * What is behind a VPN's link: its servers, what is left of its traffic, and until when; never its credentials.
 * @param {Form} form
 */
function vpnPreview(form) {
  const found = signal(/** @type {Preview | null} */ (null));
  const failed = signal(/** @type {unknown} */ (null));
  const busy = signal(false);
  const look = async () => {
    const text = form.value("transport.url").trim();
    failed.value = null;
    found.value = null;
    busy.value = true;
    try {
      if (!text || text.startsWith("*")) {
        throw new ApiError(422, "input", "Paste the link again: the one that is stored is not shown, not even to this page.");
      }
      found.value = await post("/api/agent/channels/preview",
        /^https?:/i.test(text) ? { url: text, local: form.value("local") === "true" } : { link: text });
    } catch (error) {
      failed.value = error;
    }
    busy.value = false;
  };
  return el("div", { class: "vpn", hidden: () => {
    void form.version.value;
    return form.value("transport.kind") !== "vpn";
  } },
  el("button", { class: "btn", changes: "administrator", type: "button", disabled: () => busy.value, onclick: () => void look() },
    icon("eye"), () => (busy.value ? "Reading…" : "Look at the servers")),
  el("div", { role: "status" },
    () => (failed.value ? failureLine(failed.value) : null),
    () => (found.value ? servers(found.value, form) : null)));
}

/** @param {Preview} found @param {Form} form */
function servers({ title, servers: all, traffic, skipped }, form) {
  const { used, total, left, expiresAt } = traffic;
  const facts = [
    title, left !== null ? `${size(left)} left${total === null ? "" : ` of ${size(total)}`}` : used !== null ? `${size(used)} used` : "",
    expiresAt ? `until ${fullTime(expiresAt)}` : "", ...Object.entries(skipped).map(([why, many]) => `${count(many)} left out: ${why}`),
  ].filter(Boolean);
  return el("fieldset", { class: "servers" },
    el("legend", null, `${count(all.length)} ${all.length === 1 ? "server" : "servers"}`, el("small", null, facts.join(" · "))),
    all.slice(0, 200).map((server) => el("label", null,
      el("input", { type: "radio", name: "vpn-server", value: server.name, checked: form.value("transport.server") === server.name,
        onchange: () => form.set("transport.server", server.name) }),
      el("span", null, el("b", null, el("bdi", null, server.name || server.host)),
        el("small", null, `${server.type} · ${server.host}:${server.port}${server.engine ? ` · by ${server.engine}` : ""}`),
        server.problem ? el("small", { class: "bad" }, server.problem) : null))));
}
