/** Signing in: by name and password, or by a one-time code, which a link may carry behind its `#`. */

import { ApiError, call, get, may, session } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { link, navigate, query } from "../core/router.js";
import { signal } from "../core/signals.js";
import { startSession } from "../main.js";
import { buildMark } from "../shell.js";

/** @returns {import("../core/router.js").Page} */
export function page() {
  const failure = signal(/** @type {ApiError | null} */ (null));
  const busy = signal(false);
  const byCode = signal(false);
  const carried = new URLSearchParams(location.hash.slice(1)).get("code");
  if (carried) history.replaceState(null, "", location.pathname + location.search);
  const showAgain = hideDialogs();

  /** @param {Record<string, string>} proof */
  async function signIn(proof) {
    busy.value = true;
    failure.value = null;
    const before = session.peek();
    try {
      session.value = { kind: "user", ...(await call("POST", "/api/session", { body: proof })) };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      failure.value = error;
      busy.value = false;
      return;
    }
    if (before && before.user !== session.peek()?.user) { // this page has data of somebody else
      location.replace(link(await findNext()));
      return;
    }
    await startSession();
    await navigate((await isFirstRun()) ? "/welcome" : await findNext(), { replace: true });
    showAgain();
  }

  /** @param {SubmitEvent} event */
  function submit(event) {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const field = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
    if (busy.peek()) return;
    void signIn(byCode.peek() ? { code: field("code") } : { user: field("user"), password: String(form.get("password") ?? "") });
  }

  if (carried) {
    byCode.value = true;
    void signIn({ code: carried });
  }

  const body = el("div", { class: "login" },
    el("div", { class: "brand" }, buildMark(), "agentd"),
    el("form", { class: "card", onsubmit: submit },
      el("h1", null, "Sign in"),
      el("p", { class: "host" }, location.host),
      () => byCode.value
        ? [labelled("One-time code", { name: "code", autocomplete: "one-time-code", spellcheck: "false", class: "input mono",
          value: carried ?? "" }),
          el("p", { class: "hint" }, "An administrator makes one: ", el("code", null, "agentd login-code"))]
        : [labelled("Name", { name: "user", autocomplete: "username", autocapitalize: "none", spellcheck: "false" }),
          labelled("Password", { name: "password", type: "password", autocomplete: "current-password" })],
      el("div", { role: "alert" }, () => failure.value ? el("p", { class: "failure" }, icon("warning"),
        el("span", null, failure.value.message, failure.value.details ? el("small", null, failure.value.details) : null)) : null),
      el("button", { class: "btn main wide", disabled: () => busy.value }, () => (busy.value ? "Signing in…" : "Sign in")),
      el("button", { type: "button", class: "btn plain wide", onclick: () => (byCode.value = !byCode.peek()) },
        () => (byCode.value ? "Use a name and a password" : "Use a one-time code"))));
  return { title: "Sign in", body };
}

/**
 * Take the dialogs away that are open as the login ends: they would lie over this page, and have what was typed.
 * @returns {() => void} shows them again
 */
function hideDialogs() {
  const open = /** @type {HTMLDialogElement[]} */ ([...document.querySelectorAll("dialog[open]")]);
  for (const dialog of open) dialog.remove();
  return () => {
    for (const dialog of open) {
      dialog.removeAttribute("open"); // one that was taken away is no longer modal
      document.body.append(dialog);
      dialog.showModal();
    }
  };
}

/**
 * @param {string} label
 * @param {import("../core/el.js").Attributes} attributes
 */
function labelled(label, attributes) {
  return el("label", { class: "labelled" }, el("span", null, label),
    el("input", { class: "input", required: true, autofocus: attributes["name"] !== "password", ...attributes }));
}

/** True if nobody has a password yet: then the link sets agentd up. */
async function isFirstRun() {
  if (!may("administrator")) return false;
  try {
    return !(await get("/api/users")).users.length;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return false;
  }
}

async function hasChats() {
  try {
    return (await get("/api/chats", { limit: 1 })).chats.length > 0;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return false;
  }
}

/** Where the person wanted to go, only within agentd; else, on a phone, the chats: no page has their list beside it. */
async function findNext() {
  const home = matchMedia("(max-width: 720px)").matches && (await hasChats()) ? "/chats" : "/";
  const wanted = query.peek().get("next") ?? home;
  const url = new URL(link(wanted), location.origin);
  return wanted.startsWith("/") && !wanted.startsWith("//") && url.origin === location.origin ? wanted : home;
}
