/** What the gear at the foot of the sidebar offers: the look, the settings, signing out. */

import { may, remove, session } from "../core/api.js";
import * as live from "../core/live.js";
import { navigate, path } from "../core/router.js";
import * as store from "../core/store.js";
import { chats, loading } from "../agent/chats.js";
import { chooseTheme } from "../agent/me.js";
import { placesOf } from "../pages.js";
import { openKeys, openPalette } from "./keys.js";
import { theme } from "./theme.js";
import { toastError } from "./toast.js";

/** @typedef {import("./menu.js").Item} Item */

/** @returns {(Item | null)[]} */
export function accountItems() {
  const first = placesOf("settings")[0];
  return [
    ...firstRunItem(),
    ...(first ? [{ label: "Settings", icon: "settings", onselect: () => void navigate(first.path) }, null] : []),
    { label: "Look: as the system", checked: theme.peek() === "", changes: "viewer", onselect: () => chooseTheme("") },
    { label: "Look: light", checked: theme.peek() === "light", changes: "viewer", onselect: () => chooseTheme("light") },
    { label: "Look: dark", checked: theme.peek() === "dark", changes: "viewer", onselect: () => chooseTheme("dark") },
    null,
    { label: "Keyboard", icon: "keyboard", hint: "?", onselect: openKeys },
    { label: "Sign out", icon: "out", changes: "viewer", onselect: () => void signOut() },
  ];
}

/** The way back to the first run's steps, for who may take them, while no prompt was ever sent. */
export function firstRunItem() {
  const isNew = may("administrator") && loading.peek() === "ready" && chats.peek().size === 0;
  return isNew ? [{ label: "Set agentd up", icon: "spark", onselect: () => void navigate("/welcome") }] : [];
}

/** On phones: the pages that the bar below has no room for, and what the sidebar's foot offers elsewhere. @returns {(Item | null)[]} */
export function morePages() {
  const places = placesOf("agent").filter((place) => place.path !== "/inbox" && may(place.role ?? "viewer"));
  return [
    { label: "Search", icon: "search", onselect: openPalette }, null,
    ...places.map((place) => ({
      label: place.tab ?? place.label, icon: place.icon, ...(path.peek() === place.path ? { checked: true } : {}),
      onselect: () => void navigate(place.path),
    })),
    null, ...firstRunItem(), { label: "Sign out", icon: "out", changes: "viewer", onselect: () => void signOut() },
  ];
}

/** End the login; what this browser kept is forgotten. */
export async function signOut() {
  try {
    await remove("/api/session");
  } catch (error) {
    toastError(error);
    return;
  }
  live.stop({ everywhere: true });
  store.clear();
  session.value = null;
  location.reload();
}
