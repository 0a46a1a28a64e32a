/** Where somebody is signed in: each login with its device, and a button that ends it. */

import { get, remove } from "../core/api.js";
import { el } from "../core/el.js";
import { onEnd } from "../core/signals.js";
import { agoTime, fullTime } from "../core/time.js";
import { openDialog } from "../parts/dialog.js";
import { loaded } from "../parts/frame.js";
import { toast, toastError } from "../parts/toast.js";
import { card, follow, listView, longList } from "./frame.js";

/**
 * @typedef {{ id: string, device: string, address: string, createdAt: string, usedAt: string, expiresAt: string,
 *   byCode: boolean, current: boolean }} Login
 */

/** The card with the own logins. */
export function sessionsCard() {
  const read = sessionList("/api/sessions");
  const seen = () => !document.hidden && void read.reload();
  document.addEventListener("visibilitychange", seen);
  onEnd(() => document.removeEventListener("visibilitychange", seen));
  follow([], () => void read.reload());
  return card({ title: "Signed in",
    text: "Every browser and program that has a login of yours. One that you do not know: end it, and change your password." }, read.node);
}

/**
 * The logins of somebody else, for administrators.
 * @param {string} name
 */
export function showSessionsOf(name) {
  return openDialog(`Logins of ${name}`, () => [
    el("div", { class: "settings" }, sessionList(`/api/users/${encodeURIComponent(name)}/sessions`).node),
  ], { wide: true });
}

/** @param {string} path */
function sessionList(path) {
  const view = listView();
  const read = loaded(() => get(path), ({ sessions }) => (sessions.length
    ? longList(sessions, (one) => `${one.device} ${one.address}`, row, "logins", view)
    : el("p", { class: "none" }, "Not signed in anywhere.")));
  return read;

  /** @param {Login} login */
  function row(login) {
    const used = login.current ? "in use now" : `used ${agoTime(login.usedAt)}`;
    return el("li", null,
      el("span", { class: "name" }, el("b", null, el("bdi", null, login.device)),
        login.current ? el("span", { class: "chip" }, "this one") : null),
      el("small", null, [login.address, used, login.byCode ? "by a code or link" : ""].filter(Boolean).join(" · "), " · since ",
        el("time", { datetime: login.createdAt }, fullTime(login.createdAt))),
      login.current ? null : el("span", { class: "ends" },
        el("button", { class: "btn", changes: "viewer", "aria-label": `End the login of ${login.device}, ${login.address}`,
          onclick: () => void end(login) }, "End")));
  }

  /** @param {Login} login */
  async function end(login) {
    try {
      await remove(`${path}/${login.id}`);
      toast(`${login.device} is signed out`);
    } catch (error) {
      toastError(error, () => void end(login));
    }
    await read.reload();
  }
}
