/** Push notifications: what this browser needs for them, and switching them on and off. */

import { ApiError, get, put, remove, session } from "../core/api.js";
import { link } from "../core/router.js";
import * as store from "../core/store.js";
import { registerWorker } from "../core/trusted.js";

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

/** The worker that shows notifications; where the browser refuses it, it would be waited for without end. */
async function findWorker() {
  try {
    await registerWorker(link("/sw.js"));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ApiError(0, "worker", "This browser does not run the worker that shows notifications",
      `${reason} It must trust agentd's certificate; to go on after its warning is not enough.`);
  }
  return navigator.serviceWorker.ready;
}

/** @param {string} publicKey */
async function subscribe(publicKey) {
  const { pushManager } = await findWorker();
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
