/** Starts the browser interface: who is signed in, the live events, the page of the address. */

import { ApiError, refreshSession } from "./core/api.js";
import { el, fill } from "./core/el.js";
import * as live from "./core/live.js";
import { link, navigate, path, startRouter } from "./core/router.js";
import * as store from "./core/store.js";
import { registerWorker } from "./core/trusted.js";
import { effect } from "./core/signals.js";
import { asking, loadChats } from "./agent/chats.js";
import { PAGES } from "./pages.js";
import { showBare, showFailure, showPage } from "./shell.js";

const RETRY = 2000;

/** Go to the login, and come back to this page after it. */
function requireLogin() {
  if (path.peek() !== "/login") void navigate(loginAddress(), { replace: true });
}

/** Whether somebody is signed in; asks until the daemon answers. */
async function findSession() {
  for (;;) {
    try {
      return await refreshSession();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401) return null;
      fill(document.body, el("div", { class: "waiting", role: "status" },
        el("span", { class: "dot need" }), "agentd does not answer · trying again"));
      await new Promise((resolve) => setTimeout(resolve, RETRY));
    }
  }
}

/** Begin what needs a login; at the start, and after signing in. */
export async function startSession() {
  await live.start();
  void loadChats().then(followQuestions);
  if (store.read("push", "")) void import("./parts/push.js").then((push) => push.keepPush()).catch(() => {}); // Settings says so
}

/** Notifications are started where they are allowed, and else once there is something to ask for. */
function followQuestions() {
  let started = false;
  effect(() => {
    const allowed = "Notification" in window && Notification.permission === "granted";
    if (started || !(asking.value || allowed)) return;
    started = true;
    void import("./parts/notify.js").then((notify) => notify.startNotifications());
  });
}

/** The document's icons and manifest are where they were, also once its address has another depth. */
function fixAddresses() {
  /** @type {NodeListOf<HTMLLinkElement>} */
  const links = document.querySelectorAll("link:not([rel=stylesheet], [rel=modulepreload])");
  for (const one of links) one.setAttribute("href", one.href);
}

async function main() {
  fixAddresses();
  live.onSignedOut(requireLogin);
  const signedIn = path.peek() === "/login" ? null : await findSession();
  if (signedIn) await startSession();
  else if (path.peek() !== "/login") history.replaceState(null, "", link(loginAddress()));
  await startRouter(PAGES, {
    show: (page, route) => (route.bare ? showBare(page) : showPage(page)),
    fail: showFailure,
  });
  registerWorker(link("/sw.js")).catch(() => {});
}

function loginAddress() {
  const here = location.pathname.startsWith(link("/")) ? path.peek() + location.search + location.hash : "/";
  return here === "/" ? "/login" : `/login?next=${encodeURIComponent(here)}`;
}

void main();
