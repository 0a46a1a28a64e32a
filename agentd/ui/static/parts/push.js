/** Push notifications: what this browser needs for them, and switching them on and off. */

import { get, put, remove, session } from "../core/api.js";
import * as store from "../core/store.js";

/** What this browser keeps: who switched it on here, so that the next login of the same person has it, too. */
const MARK = "push";

/** Why this browser can receive none; empty if it can. */
export function findBrowserProblem() {
  if (!window.isSecureContext) return "insecure";
  if (!("serviceWorker" in navigator)) return "unsupported";
  if (!("PushManager" in window) || !("Notification" in window)) return isApplePhone() ? "homescreen" : "unsupported";
  return Notification.permission === "denied" ? "blocked" : "";
}

/** Safari on phones gives push to installed pages only. */
function isApplePhone() {
  return /iPhone|iPad/.test(navigator.userAgent) || (navigator.userAgent.includes("Macintosh") && navigator.maxTouchPoints > 1);
}

/** Whether this browser has a subscription. */
export async function isSubscribedHere() {
  if (findBrowserProblem()) return false;
  const worker = await navigator.serviceWorker.getRegistration();
  return Boolean(await worker?.pushManager.getSubscription());
}

/**
 * Ask for the permission, subscribe, and tell the daemon. Call it at a click.
 * @param {string} publicKey the daemon's
 */
export async function enablePush(publicKey) {
  if ((await Notification.requestPermission()) !== "granted") return false;
  await subscribe(publicKey);
  store.write(MARK, session.peek()?.user);
  return true;
}

/** Tell the daemon to send none, and end the subscription. */
export async function disablePush() {
  store.write(MARK, null);
  await remove("/api/me/push");
  const worker = await navigator.serviceWorker.getRegistration();
  await (await worker?.pushManager.getSubscription())?.unsubscribe();
}

/** Whether the person who is signed in switched it on in this browser. */
export function isWanted() {
  return store.read(MARK, "") === session.peek()?.user;
}

/** After a new login, or once the browser renewed its subscription: let the daemon know this browser again. */
export async function keepPush() {
  if (!isWanted() || findBrowserProblem() || Notification.permission !== "granted") return;
  const { available, publicKey, subscribed } = await get("/api/me/push");
  if (available && !(subscribed && (await isSubscribedHere()))) await subscribe(publicKey);
}

/** @param {string} publicKey */
async function subscribe(publicKey) {
  const { pushManager } = await navigator.serviceWorker.ready;
  const options = { userVisibleOnly: true, applicationServerKey: publicKey };
  /** @type {PushSubscription} */
  let made;
  try {
    made = await pushManager.subscribe(options);
  } catch (error) {
    if (!(error instanceof DOMException) || error.name !== "InvalidStateError") throw error;
    await (await pushManager.getSubscription())?.unsubscribe(); // it was made with another key of the daemon
    made = await pushManager.subscribe(options);
  }
  const { endpoint, keys } = made.toJSON();
  await put("/api/me/push", { endpoint, keys });
}
