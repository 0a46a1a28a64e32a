/** The settings of the gateway (`proxy.yml`), each with its purpose, and its licence. */

import { call, callTagged, get, put } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { effect, onEnd, signal, untracked } from "../core/signals.js";
import { fullTime } from "../core/time.js";
import { toast } from "../parts/toast.js";
import { cardDrafts } from "../settings/drafts.js";
import { card, failureLine, labelled, sendForm } from "../settings/frame.js";
import { conflict, resourceForm } from "./form.js";
import { following, forAdministrators, gatewayFrame, part, shown } from "./frame.js";
import { rateFields } from "./price_fields.js";

/** @typedef {import("./form.js").Field} Field */
/** @typedef {{ name: string, value: any, default: any, description: string }} Setting */

const zones = () => /** @type {string[]} */ (Intl.supportedValuesOf?.("timeZone") ?? []);

/** @type {readonly { id: string, title: string, text: string, fields: () => Field[] }[]} */
const CARDS = [
  { id: "money", title: "Money and time", text: "Where days begin, and what happens to requests without a price.", fields: () => [
    { name: "time_zone", label: "Time zone", required: true, suggestions: zones() },
    { name: "unknown_price", label: "Price not known", kind: "choice",
      options: [["refuse", "refuse the request"], ["estimate", "count the assumed prices"], ["flag", "let it through and mark it"]] },
    ...rateFields("assumed_prices", "Assumed price", "USD per million tokens."),
  ] },
  { id: "requests", title: "Requests", text: "The requests that are accepted, and the time limits of suppliers.", fields: () => [
    { name: "max_body", label: "Largest request", kind: "number", hint: "In bytes." },
    { name: "idle_timeout", label: "Silence of a stream", kind: "number", hint: "Seconds." },
    { name: "tries", label: "Channels asked for one request", kind: "number", hint: "Maximum, for each model that is tried." },
    { name: "disable_channel_after", label: "Disable a channel after", kind: "number",
      hint: "Calls in a row in which its supplier did not accept its key. Empty: never." },
    { name: "mask_secrets", label: "Hide secrets from suppliers", kind: "check" },
  ] },
  { id: "ledger", title: "Ledger and bodies", text: "What is recorded, how safely, and for how long.", fields: () => [
    { name: "on_ledger_failure", label: "While it cannot be written", kind: "choice",
      options: [["refuse", "refuse requests"], ["continue", "answer them unrecorded"]] },
    { name: "keep_days", label: "Keep the ledger", kind: "number", placeholder: "for ever", hint: "Days." },
    { name: "bodies.keep_days", label: "Keep bodies", kind: "number", hint: "Days; only for keys that store bodies." },
    { name: "bodies.max_bytes", label: "Largest body", kind: "number", hint: "In bytes; longer bodies are truncated." },
    { name: "sync_ledger", label: "A reply ends only when its line would survive a power cut", kind: "check" },
  ] },
  { id: "export", title: "Export", text: "The analytics database (ClickHouse) to which the ledger is sent day by day.", fields: () => [
    { name: "export.url", label: "Address", wide: true, placeholder: "nothing is sent",
      hint: "The URL of its HTTP interface. After a change, enter the password again." },
    { name: "export.database", label: "Database" }, { name: "export.table", label: "Table" }, { name: "export.user", label: "User" },
    { name: "export.password", label: "Password", kind: "secret", hint: "A masked value stays unchanged." },
    { name: "export.since", label: "First day", placeholder: "all", hint: "Such as 2026-01-31 (UTC)." },
    { name: "export.enabled", label: "Send days", kind: "check" },
    { name: "export.today", label: "Send the present day each hour, too", kind: "check" },
  ] },
  { id: "alerts", title: "Alerts", text: "The thresholds of alerts. Who is notified is set on the page Alerts.", fields: () => [
    { name: "alerts.near_limit", label: "A limit is near from", kind: "number", hint: "Percent of a limit in USD." },
    { name: "alerts.error_rate", label: "Failed requests from", kind: "number", placeholder: "never", hint: "Percent. Empty: never." },
    { name: "alerts.error_minutes", label: "Counted in the last", kind: "number", hint: "Minutes." },
    { name: "alerts.error_requests", label: "Of at least", kind: "number", hint: "Requests: fewer say nothing." },
  ] },
  { id: "tracing", title: "Tracing",
    text: "The OpenTelemetry collector that gets a span of each request and of each attempt, without any content.",
    fields: () => [
      { name: "tracing.endpoint", label: "Address", wide: true, placeholder: "nothing is sent",
        hint: "Of its OTLP receiver over HTTP, such as http://127.0.0.1:4318. After a change, enter the headers again." },
      { name: "tracing.headers", label: "Headers", kind: "pairs", wide: true, placeholder: "Name: value",
        hint: "Sent with the spans, one per line. A masked value stays unchanged." },
      { name: "tracing.sample", label: "Share of requests", kind: "number", placeholder: "all",
        hint: "From 0 to 1. A caller’s traceparent decides for itself." },
      { name: "tracing.enabled", label: "Send spans", kind: "check" },
      { name: "tracing.forward_context", label: "Pass traceparent on to suppliers", kind: "check" },
    ] },
];

const draftOf = /** @type {typeof cardDrafts<import("./form.js").Draft>} */ (cardDrafts)();

export const page = forAdministrators("Gateway settings", () => {
  const reading = following((abort) => get("/api/agent/settings", {}, abort), { events: ["gatewayConfigUpdate"] });
  const reload = () => void reading.reload();
  queueMicrotask(() => void scrollToHash());
  return {
    title: "Gateway settings",
    body: gatewayFrame({ title: "Settings", narrow: true }, licenceCard(), shown(reading, (latest) => el("div", { class: "loaded" },
      part(() => latest.value.problems, (problems) => problems.length
        ? card({ title: "Problems in proxy.yml" },
          el("div", { class: "inside" }, problems.map((/** @type {string} */ problem) => failureLine(new Error(problem)))))
        : null),
      CARDS.map((one) => settingsCard(one, () => latest.value.settings, reload))))),
  };
});

/** Go to the card that the address names, once it is there. */
async function scrollToHash() {
  const id = location.hash.slice(1);
  for (let frames = 0; id && frames < 120; frames++) {
    const found = document.getElementById(`card-${id}`);
    if (found) return found.scrollIntoView();
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
}

/** @param {Setting[]} settings @param {Field[]} fields */
function valuesOf(settings, fields) {
  const names = new Set(fields.map((field) => field.name.split(".")[0]));
  return Object.fromEntries(settings.filter((one) => names.has(one.name)).map((one) => [one.name, one.value]));
}

/**
 * A card that stays while others change settings: what is typed in it is kept, and its other fields show what was changed.
 * @param {typeof CARDS[number]} about
 * @param {() => Setting[]} settings
 * @param {() => void} reload
 */
function settingsCard({ id, title, text, fields }, settings, reload) {
  const first = untracked(settings);
  const described = fields().map((field) => ({
    ...field, hint: field.hint ?? first.find((one) => one.name === field.name)?.description ?? "",
  }));
  const { draft, keep } = draftOf(id);
  const form = resourceForm(described, draft?.before ?? valuesOf(first, described));
  for (const [name, text] of draft?.texts ?? []) form.set(name, text);
  onEnd(() => keep(form.typed()));
  const others = signal(/** @type {import("./form.js").Difference[]} */ ([]));
  let isSending = false;
  /** Whether nobody else changed what was changed here, too. @param {Setting[]} now */
  const take = (now) => {
    const found = form.take(valuesOf(now, described));
    if (found.length) others.value = found;
    return !found.length;
  };
  effect(() => {
    const now = settings();
    if (!isSending) untracked(() => take(now));
  });
  const send = async () => {
    const { body, etag } = await callTagged("GET", "/api/agent/settings");
    if (!take(body.settings)) return;
    const changes = form.changes();
    if (!Object.keys(changes).length) return toast("All of it is saved already");
    const saved = form.sending();
    isSending = true;
    try {
      const answer = await call("PATCH", "/api/agent/settings", { body: changes, ifMatch: etag });
      saved();
      take(answer.settings);
    } finally {
      isSending = false;
    }
    others.value = [];
    toast("Saved; it holds from the next request on");
    return reload();
  };
  const shownCard = card({ title, text }, el("div", { class: "loaded" },
    sendForm({ action: "Save", class: "card-form", send }, el("div", { class: "inside" }, form.node,
      el("div", { role: "status" }, () => (others.value.length ? conflict(others.value, form) : null))))));
  shownCard.id = `card-${id}`;
  return shownCard;
}

function licenceCard() {
  const reading = following((abort) => get("/api/agent/licence", {}, abort), { events: ["gatewayConfigUpdate"] });
  const reload = () => void reading.reload();
  return shown(reading, (latest) => part(() => latest.value, ({ state, reason, licence }) =>
    card({ title: "Licence", text: "Model requests need one; the administration does not." },
      el("div", { class: "inside" },
        el("p", { class: "with-dot" }, dot(state === "valid" ? "good" : "bad"),
          state === "valid" && licence ? `Valid until ${fullTime(licence.expires)}` : reason || state),
        licence
          ? el("dl", { class: "pair" }, [["Holder", licence.holder], ["Edition", licence.edition], ["Issued", fullTime(licence.issued)]]
            .map(([name, value]) => [el("dt", null, name), el("dd", null, value)]).flat())
          : null,
        install(reload)))));
}

/** @param {() => void} done */
function install(done) {
  const preview = signal(/** @type {any} */ (null));
  const token = el("textarea", { class: "input mono", rows: 2, required: true, spellcheck: "false", placeholder: "agentd-licence.v1.…",
    oninput: () => (preview.value = null) });
  const send = async () => {
    const body = { token: token.value.trim() };
    if (preview.peek()) {
      await put("/api/agent/licence", body);
      toast("The licence is installed");
      token.value = "";
      preview.value = null;
      return done();
    }
    preview.value = await put("/api/agent/licence?dry_run=true", body);
  };
  const words = (/** @type {any} */ licence) => [
    licence?.holder ?? "", licence?.edition ?? "", `until ${licence ? fullTime(licence.expires) : "?"}`,
  ].join(" · ");
  return el("details", null, el("summary", null, "Install another licence"),
    el("div", { class: "loaded" }, sendForm({ action: () => (preview.value ? "Install it" : "Look at it"), send, class: "licence-form" },
      labelled("Signed licence", token),
      () => (preview.value ? el("p", { role: "status", class: "with-dot" }, icon("check"), words(preview.value.licence)) : null))));
}
