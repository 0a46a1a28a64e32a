/**
 * Keeps the files of the running version, so that a page opens at once, also while agentd does not
 * answer. It keeps no data.
 */

/**
 * @typedef {{ kind: string, chatId: number, id: number, title: string, body: string, answerable?: boolean }} Told
 *   what a push tells of
 * @typedef {{ chatId: number, id: number, url: string }} Shown
 *   what a notification is about: the chat, its question, its page
 */

const CACHE = "agentd-assets";
const worker = /** @type {ServiceWorkerGlobalScope} */ (/** @type {unknown} */ (self));

worker.addEventListener("install", () => worker.skipWaiting());
worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin) return;
  const base = new URL(worker.registration.scope).pathname;
  if (url.pathname.startsWith(`${base}-/`)) event.respondWith(fromCache(event.request, url));
});

/**
 * @param {Request} request
 * @param {URL} url
 */
async function fromCache(request, url) {
  const cache = await caches.open(CACHE).catch(() => null);
  const kept = await cache?.match(request).catch(() => undefined);
  if (kept) return kept;
  const answer = await fetch(request);
  if (!cache || !answer.ok) return answer;
  try {
    await forgetOthers(cache, /\/-\/[^/]+\//.exec(url.pathname)?.[0] ?? "");
    await cache.put(request, answer.clone());
  } catch {
    // a device without room for it has the file all the same
  }
  return answer;
}

/**
 * Once a file of a new version comes, those of the version before go. Another agentd of this origin, below another path, keeps its own.
 * @param {Cache} cache
 * @param {string} version
 */
async function forgetOthers(cache, version) {
  for (const { url } of await cache.keys()) {
    if (isOurs(url) && !new URL(url).pathname.includes(version)) await cache.delete(url);
  }
}

/**
 * Whether an address is below ours: behind a reverse proxy, other programs have addresses of the same origin.
 * @param {string} url
 */
function isOurs(url) {
  return url.startsWith(worker.registration.scope);
}

/** The tabs of this agentd; one may be too new to be controlled. */
async function findTabs() {
  const windows = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  return windows.filter((one) => isOurs(one.url));
}

/**
 * What the daemon tells while no page is looked at. Each push must show something, or browsers take the
 * permission away: what is no news is shown silently, and closed.
 */
worker.addEventListener("push", (event) => event.waitUntil(notify(event.data?.json())));
worker.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew()));

/** @param {Told} told */
async function notify({ kind, chatId, id, title, body, answerable }) {
  const base = worker.registration.scope;
  const tabs = await findTabs();
  const silent = tabs.some((tab) => tab.visibilityState === "visible");
  const tag = kind === "question" ? `question ${chatId} ${id}` : `turn ${chatId}`; // a hidden tab uses the same: it is shown once
  const actions = answerable ? [{ action: "allow", title: "Allow" }, { action: "deny", title: "Deny" }] : [];
  const data = { chatId, id, url: `${new URL(base).pathname}${chatId}` };
  // The types lack actions.
  const options = /** @type {NotificationOptions} */ ({ body, tag, silent, actions, icon: `${base}icon-192.png`, data });
  for (let tries = 0; tries < 3; tries++) { // Chromium forgets one if the notifications are listed at that moment
    await worker.registration.showNotification(title, options);
    if ((await worker.registration.getNotifications({ tag })).length) break;
  }
  if (silent || (kind === "question" && !(await isOpen(chatId, id)))) {
    for (const shown of await worker.registration.getNotifications({ tag })) shown.close();
  }
}

/**
 * Whether a question still waits; also while the daemon cannot be asked.
 * @param {number} chatId
 * @param {number} id
 */
async function isOpen(chatId, id) {
  try {
    const answer = await fetch(`${worker.registration.scope}api/chat/${chatId}/approvals`, { cache: "no-store" });
    if (answer.status === 404) return false;
    if (!answer.ok) return true;
    /** @type {{ approvals: { id: number }[] }} */
    const { approvals } = await answer.json();
    return approvals.some((one) => one.id === id);
  } catch {
    return true;
  }
}

/** The browser gave up the subscription: make another, and tell the daemon. */
async function renew() {
  const base = worker.registration.scope;
  const read = async (/** @type {string} */ path) => (await fetch(base + path, { cache: "no-store" })).json();
  const [status, session] = await Promise.all([read("api/me/push"), read("api/session")]);
  if (!status.publicKey || !status.subscribed) return;
  const made = await worker.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: status.publicKey });
  const { endpoint, keys } = made.toJSON();
  await fetch(`${base}api/me/push`, {
    method: "PUT", body: JSON.stringify({ endpoint, keys }), headers: { "Content-Type": "application/json", "X-XSRF-Token": session.xsrf },
  });
}

/** A click on a notification opens its chat; its buttons answer its question, also without any tab. */
worker.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { action, notification: { title, data } } = event;
  event.waitUntil(action === "allow" || action === "deny" ? answer(action, title, data) : open(data));
});

/**
 * The login is the browser's cookie; its token is asked for first, as pages do.
 * @param {"allow" | "deny"} decision
 * @param {string} title
 * @param {Shown} about
 */
async function answer(decision, title, { chatId, id, url }) {
  const base = worker.registration.scope;
  try {
    const session = await fetch(`${base}api/session`, { cache: "no-store" });
    const { xsrf } = session.ok ? await session.json() : { xsrf: "" };
    const answered = await fetch(`${base}api/chat/${chatId}/approvals/${id}`, {
      method: "POST", body: JSON.stringify({ decision }),
      headers: { "Content-Type": "application/json", "X-XSRF-Token": xsrf },
    });
    if (answered.ok || answered.status === 404) return; // somebody was faster
  } catch {
    // it is not reached: told below
  }
  await worker.registration.showNotification(title, {
    body: "Your answer did not arrive. Open the chat to answer.",
    tag: `unanswered ${chatId} ${id}`, icon: `${base}icon-192.png`, data: { chatId, id, url },
  });
}

/**
 * In the tab that shows it, or any tab, or a new one.
 * @param {Shown} about
 */
async function open({ chatId, url }) {
  const tabs = await findTabs();
  const tab = tabs.find((one) => new URL(one.url).pathname === url) ?? tabs[0];
  if (!tab) return worker.clients.openWindow(url);
  tab.postMessage({ kind: "open", chatId });
  return tab.focus();
}
