/** Push notifications of this device: one button, or the reason why there are none. */

import { get } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { link } from "../core/router.js";
import { signal } from "../core/signals.js";
import { loaded } from "../parts/frame.js";
import { disablePush, enablePush, findBrowserProblem, isSubscribedHere } from "../parts/push.js";
import { toast, toastError } from "../parts/toast.js";
import { card } from "./frame.js";

/** The card "Notifications". */
export function pushCard() {
  const read = loaded(readState, ({ status, here }) => show(status, here, () => void read.reload()));
  return card({ title: "Notifications",
    text: "Questions of the agent and finished work, on this device, also while agentd is closed. " +
      "They are encrypted: only this browser can read them." },
    el("div", { class: "inside" }, read.node));
}

async function readState() {
  return { status: await get("/api/me/push"), here: await isSubscribedHere() };
}

/**
 * @param {import("../api.d.ts").PushStatusView} status
 * @param {boolean} here
 * @param {() => void} reload
 */
function show(status, here, reload) {
  const problem = findBrowserProblem();
  if (problem) return el("div", { class: "notified" }, el("p", null, WHY[problem]));
  if (!status.available) return el("div", { class: "notified" }, el("p", null, "This agentd cannot send notifications. ", status.problem));
  const busy = signal(false);
  const change = async () => {
    busy.value = true;
    try {
      if (here && status.subscribed) {
        await disablePush();
        toast("This device is no longer notified");
      } else if (await enablePush(status.publicKey)) toast("This device is notified from now on");
    } catch (error) {
      toastError(error instanceof DOMException ? new Error(`The browser's push service gives no address: ${error.message}`) : error);
    }
    busy.value = false;
    reload();
  };
  const on = here && status.subscribed;
  return el("div", { class: "notified" },
    el("p", { role: "status" }, on ? "This device is notified until it is signed out." : "This device is not notified."),
    el("button", { class: on ? "btn" : "btn main", changes: "viewer", disabled: () => busy.value, onclick: () => void change() },
      icon("inbox"), on ? "Stop notifying this device" : "Notify this device"));
}

/** @type {Record<string, import("../core/el.js").Child>} */
const WHY = {
  insecure: ["Browsers allow notifications over https only. ",
    el("code", null, "agentd tls"), " makes a certificate for your network. Without it, a ",
    el("a", { href: link("/settings/bots") }, "Telegram bot"), " can carry questions to your phone."],
  unsupported: ["This browser cannot receive notifications while agentd is closed. A ",
    el("a", { href: link("/settings/bots") }, "Telegram bot"), " can carry questions to your phone."],
  homescreen: "On iPhones and iPads, only installed pages are notified: choose Share, then Add to Home Screen, and open agentd from there.",
  blocked: "Notifications of this address are blocked in the settings of this browser. Allow them there, then open this page again.",
};
