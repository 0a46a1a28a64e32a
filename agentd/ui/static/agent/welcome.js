/** The first run, in three steps: who signs in, who answers, and the first prompt. */

import { call, get, may, session } from "../core/api.js";
import { el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { link, navigate } from "../core/router.js";
import { signal } from "../core/signals.js";
import { startSession } from "../main.js";
import { emptyState, loaded } from "../parts/frame.js";
import { composer } from "../parts/composer.js";
import { failureNote, labelled } from "../parts/fields.js";
import { loadStyle } from "../parts/stylesheet.js";
import { engineStep } from "./welcome_engine.js";
import { send } from "./outbox.js";

/**
 * @typedef {{ program: string, title: string, path: string, version: string, signedIn: boolean, signIn: string }} InstalledAgent
 * @typedef {{ workspace: string, default: string, engine: string, agents: InstalledAgent[] }} Setup
 * @typedef {import("../core/el.js").Single} Single
 * @typedef {"sign-in" | "engine" | "prompt"} Step
 */

await Promise.all([loadStyle("gateway"), loadStyle("welcome")]);

const FIRST_PROMPT = "What is this folder?";

/** @returns {import("../core/router.js").Page} */
export function page() {
  const body = may("administrator")
    ? loaded(read, ({ setup, users }) => steps(setup, users)).node
    : emptyState("shield", "Only an administrator sets agentd up",
      `You are signed in as ${session.peek()?.role ?? "nobody"}.`, el("a", { class: "btn", href: link("/") }, "New chat"));
  return { title: "Welcome", area: "agent", body: el("div", { class: "frame" },
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Welcome" }, body)) };
}

/** @returns {Promise<{ setup: Setup, users: { name: string, role: string }[] }>} */
async function read() {
  const [setup, known] = await Promise.all([get("/api/setup"), get("/api/users")]);
  return { setup, users: known.users };
}

/**
 * @param {Setup} setup
 * @param {{ name: string }[]} users
 */
function steps(setup, users) {
  const hasUser = signal(users.length > 0);
  const answering = signal(setup.default);
  const open = signal(/** @type {Step} */ (users.length ? (setup.default ? "prompt" : "engine") : "sign-in"));
  const who = () => `${session.value?.user ?? ""}, ${session.value?.role ?? ""}`;
  return el("div", { class: "hello" },
    el("h1", null, "Three steps, and your agent works"),
    el("p", null, "Nothing leaves this machine until you connect a model. Everything here can be changed later in Settings."),
    el("ol", { class: "todo" },
      step(1, "sign-in", "Sign-in", () => (hasUser.value ? who() : "a name and a password"), hasUser, open, () => accountForm(() => {
        hasUser.value = true;
        open.value = answering.peek() ? "prompt" : "engine";
      })),
      step(2, "engine", "Who answers?",
        () => answering.value || (open.value === "engine" ? `${setup.agents.length ? "" : "no coding agent "}found on this machine` : ""),
        answering, open, () => engineStep(setup, (model) => {
          answering.value = model;
          open.value = "prompt";
        })),
      step(3, "prompt", "The first prompt", () => (open.value === "prompt" ? setup.workspace : `“${FIRST_PROMPT}”`),
        signal(false), open, firstPrompt)),
    el("p", { class: "later" }, "Programs, people and the phone come later: ",
      el("a", { href: link("/settings/configuration") }, "an access key"), ", ",
      el("a", { href: link("/settings/configuration") }, "other people"), ", ",
      el("a", { href: link("/settings/you") }, "the phone by a QR code"), "."));
}

/**
 * @param {number} number
 * @param {Step} name
 * @param {string} title
 * @param {() => string} note
 * @param {{ value: unknown }} done
 * @param {import("../core/signals.js").Signal<Step>} open
 * @param {() => Single} content
 */
function step(number, name, title, note, done, open, content) {
  const state = () => (open.value === name ? "now" : done.value ? "done" : "later");
  return el("li", { class: state, "aria-current": () => (open.value === name ? "step" : null) },
    el("span", { class: "no" }, () => (state() === "done" ? icon("check") : String(number))),
    el("h2", null, title,
      () => (state() === "done" ? el("span", { class: "hidden" }, " (done)") : null), el("small", { dir: "auto" }, note),
      () => (name === "engine" && state() === "done"
        ? el("button", { class: "btn small", onclick: () => (open.value = "engine") }, "Change") : null)),
    () => (open.value === name ? focused(el("div", { class: "in" }, content())) : null));
}

/**
 * Let the keyboard go on in what has just appeared.
 * @param {HTMLElement} node
 */
function focused(node) {
  const first = () => /** @type {HTMLElement | null} */ (node.querySelector("input:checked, input:not([type=radio]), textarea"));
  setTimeout(() => first()?.focus());
  return node;
}

/** @param {() => void} ondone */
function accountForm(ondone) {
  const busy = signal(false);
  const failure = signal(/** @type {unknown} */ (null));
  let added = "";

  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const name = String(form.get("user") ?? "").trim();
    const password = String(form.get("password") ?? "");
    if (busy.peek()) return;
    busy.value = true;
    failure.value = null;
    try {
      if (added !== name) await call("POST", "/api/users", { body: { name, role: "administrator", password } });
      added = name;
      await signInAgain(name, password);
      ondone();
    } catch (error) {
      failure.value = error;
    } finally {
      busy.value = false;
    }
  }

  return el("form", { onsubmit: submit },
    el("p", null, "The link has signed you in. Choose what you will sign in with from now on; you are this agentd’s administrator."),
    el("div", { class: "pair" },
      labelled("Name", { name: "user", autocomplete: "username", autocapitalize: "none", spellcheck: "false", maxlength: 64,
        autofocus: true }),
      labelled("Password", { name: "password", type: "password", autocomplete: "new-password", minlength: 12, maxlength: 1024 },
        "At least 12 characters; several words are easy to remember.")),
    failureNote(failure),
    el("div", null, el("button", { class: "btn main", changes: "administrator", disabled: () => busy.value },
      () => (busy.value ? "Saving…" : "Continue"))));
}

/**
 * Replace the login of the link by one of the new user.
 * @param {string} user
 * @param {string} password
 */
async function signInAgain(user, password) {
  live.stop();
  try {
    const answer = await call("POST", "/api/session", { body: { user, password } });
    session.value = { kind: "user", ...answer };
  } finally {
    await startSession();
  }
}

function firstPrompt() {
  const writer = composer({
    draft: "welcome", placeholder: "What should the agent do?", label: "The first prompt", autofocus: true,
    onsend: (text) => void begin(text),
  });
  if (!writer.input.value) writer.insert(FIRST_PROMPT);
  return [el("p", null, "The agent works in this folder. It asks before it runs a command or changes a file outside of it."), writer.node];
}

/** @param {string} text */
async function begin(text) {
  const created = await send({ chatId: null, text });
  if (created?.chatId && location.pathname === link("/welcome")) await navigate(`/${created.chatId}`);
}
