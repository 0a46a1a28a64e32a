/**
 * Keeps the files of the running version, so that a page opens at once, also while agentd does not
 * answer. It keeps no data.
 */

const CACHE = "agentd-assets";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin) return;
  const base = new URL(self.registration.scope).pathname;
  if (url.pathname.startsWith(`${base}-/`)) event.respondWith(fromCache(event.request, url));
});

async function fromCache(request, url) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request);
  if (kept) return kept;
  const answer = await fetch(request);
  if (answer.ok) {
    await forgetOthers(cache, /\/-\/[^/]+\//.exec(url.pathname)?.[0] ?? "");
    await cache.put(request, answer.clone());
  }
  return answer;
}

/** Once a file of a new version comes, those of the version before go. */
async function forgetOthers(cache, version) {
  for (const request of await cache.keys()) {
    if (!new URL(request.url).pathname.includes(version)) await cache.delete(request);
  }
}

/**
 * What the daemon tells while no page is looked at. Each push must show something, or browsers take the
 * permission away: what is no news is shown silently, and closed.
 */
self.addEventListener("push", (event) => event.waitUntil(notify(event.data.json())));
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew()));

async function notify({ kind, chatId, id, title, body, answerable }) {
  const base = self.registration.scope;
  const tabs = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const silent = tabs.some((tab) => tab.visibilityState === "visible");
  const tag = kind === "question" ? `question ${chatId} ${id}` : `turn ${chatId}`; // a hidden tab uses the same: it is shown once
  const actions = answerable ? [{ action: "allow", title: "Allow" }, { action: "deny", title: "Deny" }] : [];
  const data = { chatId, id, url: `${new URL(base).pathname}${chatId}` };
  for (let tries = 0; tries < 3; tries++) { // Chromium forgets one if the notifications are listed at that moment
    await self.registration.showNotification(title, { body, tag, silent, actions, icon: `${base}icon.svg`, data });
    if ((await self.registration.getNotifications({ tag })).length) break;
  }
  if (silent || (kind === "question" && !(await isOpen(chatId, id)))) {
    for (const shown of await self.registration.getNotifications({ tag })) shown.close();
  }
}

/** Whether a question still waits; also while the daemon cannot be asked. */
async function isOpen(chatId, id) {
  try {
    const answer = await fetch(`${self.registration.scope}api/chat/${chatId}/approvals`, { cache: "no-store" });
    if (answer.status === 404) return false;
    return !answer.ok || (await answer.json()).approvals.some((one) => one.id === id);
  } catch {
    return true;
  }
}

/** The browser gave up the subscription: make another, and tell the daemon. */
async function renew() {
  const base = self.registration.scope;
  const [status, session] = await Promise.all(["api/me/push", "api/session"].map(async (path) => (await fetch(base + path, { cache: "no-store" })).json()));
  if (!status.publicKey || !status.subscribed) return;
  const made = await self.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: status.publicKey });
  const { endpoint, keys } = made.toJSON();
  await fetch(`${base}api/me/push`, {
    method: "PUT", body: JSON.stringify({ endpoint, keys }), headers: { "Content-Type": "application/json", "X-XSRF-Token": session.xsrf },
  });
}

/** A click on a notification opens its chat; its buttons answer its question, also without any tab. */
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { action, notification: { title, data } } = event;
  event.waitUntil(action === "allow" || action === "deny" ? answer(action, title, data) : open(data));
});

/** The login is the browser's cookie; its token is asked for first, as pages do. */
async function answer(decision, title, { chatId, id, url }) {
  const base = self.registration.scope;
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
  await self.registration.showNotification(title, {
    body: "Your answer did not arrive. Open the chat to answer.", tag: `unanswered ${chatId} ${id}`, icon: `${base}icon.svg`, data: { chatId, id, url },
  });
}

/** In the tab that shows it, or any tab, or a new one. */
async function open({ chatId, url }) {
  const tabs = await self.clients.matchAll({ type: "window", includeUncontrolled: true }); // one may be too new to be controlled
  const tab = tabs.find((one) => new URL(one.url).pathname === url) ?? tabs[0];
  if (!tab) return self.clients.openWindow(url);
  tab.postMessage({ kind: "open", chatId });
  return tab.focus();
}
