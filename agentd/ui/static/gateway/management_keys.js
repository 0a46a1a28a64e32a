/** The management keys: the programs that manage the gateway, what each may do, and when it last did. */

import { BASE } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { agoTime, fullTime } from "../core/time.js";
import { emptyState } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { showOnce } from "../parts/show_once.js";
import { card } from "../settings/frame.js";
import { createDialog, editDialog } from "./form.js";
import { forAdministrators, gatewayFrame } from "./frame.js";
import { resourceList, usualItems } from "./resource_list.js";

/**
 * @typedef {{ name: string, scope: "read" | "keys" | "all", enabled: boolean, created: string, createdBy: string,
 *   lastUsed: string | null }} ManagementKey
 * @typedef {import("./form.js").Field} Field
 */

const AGAIN = 10_000;
const SCOPES = { read: "reads", keys: "access keys", all: "everything" };

/** @type {Field} */
const SCOPE = { name: "scope", label: "May do", kind: "choice", initial: "read", options: [
  ["read", "read what shows no secrets, such as a spending monitor"], ["keys", "read and change access keys, nothing else"],
  ["all", "everything, as an administrator"]] };
/** @type {readonly Field[]} */
const FIELDS = [
  { name: "name", label: "Name", required: true,
    hint: "The program that will use it: letters, digits, dots, dashes. The journal of changes shows it." },
  SCOPE,
];

export const page = forAdministrators("Management keys", () => {
  const list = resourceList({
    resource: "management-keys", noun: "keys", every: AGAIN, events: ["gatewayConfigUpdate"], row: keyRow,
    empty: () => emptyState("key", "No management keys yet",
      "A key lets a program manage the gateway, such as a monitor that only reads what was spent.",
      el("button", { class: "btn main", changes: "administrator", onclick: () => void create() }, icon("plus"), "New key")),
  });
  return {
    title: "Management keys",
    body: gatewayFrame({ title: "Management keys", narrow: true, actions: [
      el("button", { class: "btn main", changes: "administrator", onclick: () => void create() }, icon("plus"), "New key"),
    ] },
      card({
        title: "Management keys",
        text: "Each opens /api/agent for one program, as far as its scope allows. The key of PROXY_APP_HASH is not listed. " +
          "They are in management-keys.yml.",
      }, list.node)),
  };

  function create() {
    return createDialog({
      title: "New management key", path: "/api/agent/management-keys", fields: FIELDS, action: "Create key",
      done: async (made) => {
        list.reload();
        const root = `${location.origin}${BASE}`.replace(/\/$/, "");
        await showOnce(made.name, made.key, `curl -H "X-API-Key: $AGENTD_MANAGEMENT_KEY" \\\n  ${root}/api/agent`);
      },
    });
  }

  /** @param {ManagementKey} key @returns {HTMLElement} */
  function keyRow(key) {
    const path = `/api/agent/management-keys/${encodeURIComponent(key.name)}`;
    const used = key.lastUsed ? el("span", { title: fullTime(key.lastUsed) }, `last used ${agoTime(key.lastUsed)}`) : "never used";
    return el("li", null,
      el("span", { class: "name" }, dot(key.enabled ? "good" : ""), el("b", null, key.name),
        el("span", { class: "chip" }, SCOPES[key.scope]),
        key.enabled ? null : el("span", { class: "chip" }, "disabled")),
      el("small", null,
        key.created ? `Made ${agoTime(key.created)}${key.createdBy ? ` by ${key.createdBy}` : ""} · ` : "Written by hand · ", used),
      el("span", { class: "ends" },
        menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${key.name}` }, [icon("more")], () => [
          { label: "Change its scope", icon: "pencil", changes: "administrator",
            onselect: () => void editDialog({ title: `Scope of ${key.name}`, path, fields: [SCOPE], done: list.reload }) },
          null,
          ...usualItems({ path, name: key.name, enabled: key.enabled, reload: list.reload, copies: false,
            removeText: "It is refused from the next request on, and its open streams end. Access keys that it made stay." }),
        ])));
  }
});
