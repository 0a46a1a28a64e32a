/** The own login: the look, the password, signing out here or everywhere, the phone. */

import { call, may, post, put, session } from "../core/api.js";
import { el, icon } from "../core/el.js";
import * as live from "../core/live.js";
import { signal } from "../core/signals.js";
import * as store from "../core/store.js";
import { fullTime } from "../core/time.js";
import { chooseTheme } from "../agent/me.js";
import { signOut } from "../parts/account.js";
import { confirm } from "../parts/dialog.js";
import { theme } from "../parts/theme.js";
import { toast, toastError } from "../parts/toast.js";
import { card, labelled, sendForm, settingsPage } from "./frame.js";
import { keepPush } from "../parts/push.js";
import { phoneCard } from "./address_card.js";
import { pushCard } from "./push_card.js";
import { sessionsCard } from "./sessions_card.js";

/** @type {readonly { name: import("../parts/theme.js").Theme, label: string, look: string }[]} */
const LOOKS = [
  { name: "", label: "As the system", look: "both" },
  { name: "light", label: "Light", look: "light" },
  { name: "dark", label: "Dark", look: "dark" },
];

/** @returns {import("../core/router.js").Page} */
export function page() {
  return settingsPage("You", who(), look(),
    ...(session.peek()?.kind === "user" ? [pushCard(), sessionsCard()] : []), password(), may("administrator") ? phoneCard() : null);
}

function who() {
  const me = session.peek();
  return card({ title: me?.user || "Signed in", actions: [
    el("button", { class: "btn", changes: "viewer", onclick: () => void signOut() }, icon("out"), "Sign out"),
    el("button", { class: "btn", changes: "viewer", onclick: () => void signOutEverywhere() }, "Sign out everywhere"),
  ] },
  el("div", { class: "inside" }, el("dl", { class: "pair" },
    el("dt", null, "Role"), el("dd", null, ROLES[me?.role ?? "nobody"]),
    me?.expiresAt ? [el("dt", null, "This login ends"), el("dd", null, `${fullTime(me.expiresAt)}, unless it is used before`)] : null)));
}

const ROLES = {
  nobody: "None",
  viewer: "Viewer: reads everything, changes nothing",
  manager: "Manager: works with chats, and changes what cannot let others in",
  administrator: "Administrator: everything, the model gateway too",
};

async function signOutEverywhere() {
  const sure = await confirm({
    title: "Sign out everywhere?", text: "Every browser and phone on which you are signed in is signed out, this one too.",
    action: "Sign out everywhere", danger: true,
  });
  if (!sure) return;
  try {
    await call("DELETE", "/api/session", { query: { everywhere: true } });
  } catch (error) {
    toastError(error, () => void signOutEverywhere());
    return;
  }
  live.stop({ everywhere: true });
  store.clear();
  session.value = null;
  location.reload();
}

function look() {
  return card({ title: "Look" }, el("div", { class: "inside" },
    el("div", { class: "swatches", role: "group", "aria-label": "Look" }, LOOKS.map(({ name, label, look: kind }) =>
      el("button", { changes: "viewer", type: "button", "aria-pressed": () => String(theme.value === name),
        onclick: () => void chooseTheme(name) },
        el("span", { class: `swatch ${kind}`, "aria-hidden": "true" }, el("i"), el("span")), label)))));
}

function password() {
  const round = signal(0);
  return card({ title: "Password", text: "All your other logins end with the old password." },
    () => passwordForm(() => (round.value += 1), round.value));
}

/**
 * @param {() => void} done
 * @param {number} _round each is an empty form
 */
function passwordForm(done, _round) {
  const old = el("input", { class: "input", type: "password", autocomplete: "current-password", required: true });
  const next = el("input", { class: "input", type: "password", autocomplete: "new-password", required: true, minlength: 12 });
  const user = session.peek()?.user ?? "";
  const send = async () => {
    await put("/api/session/password", { password: old.value, newPassword: next.value });
    live.stop();
    try {
      session.value = { kind: "user", ...(await post("/api/session", { user, password: next.value })) };
    } finally {
      await live.start();
    }
    keepPush().catch(toastError);
    toast("Your password is changed");
    done();
  };
  return sendForm({ action: "Change password", class: "card-form", send },
    el("input", { type: "text", hidden: true, autocomplete: "username", value: user, readonly: true }),
    el("div", { class: "inside" }, el("div", { class: "form-grid" },
      labelled("Current password", old),
      labelled("New password", next, "12 characters or more; some words in a row are easy to remember."))));
}

