/** The card "Access keys": made, shown once, listed by maker and last use, renewed, revoked. */

import { call, get, may, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { counted } from "../core/counts.js";
import { fullTime, shortTime } from "../core/time.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { emptyState, loaded } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { showOnce } from "../parts/show_once.js";
import { toast, toastError } from "../parts/toast.js";
import { card, failureLine, follow, labelled, listView, longList, makerOf, sendForm } from "./frame.js";

/**
 * @typedef {{ name: string, created: string, lastUsed: string | null, revoked: boolean, createdBy: string,
 *   children: string[], accessKeys: { name?: string }[], answers?: boolean }} Key
 */

const EXAMPLE = `curl -H "X-API-Key: $AGENTD_KEY" \\\n  ${location.origin}/api/remote/bots`;

/** The card, which follows the keys. */
export function keysCard() {
  const view = listView();
  const read = loaded(() => get("/api/keys"), ({ keys, problem }) => el("div", null,
    problem ? el("div", { class: "inside" }, failureLine(new Error(problem))) : null,
    keys.length ? longList(keys, (key) => `${key.name} ${key.createdBy}`, keyRow, "keys", view) : problem ? null : nothing()));
  follow(["keysUpdate"], () => void read.reload());
  return card({
    title: "Access keys",
    text: "Each opens the remote API for one device or program. A revoked key is refused from the next request on.",
    actions: [el("button", { class: "btn main", changes: "manager", onclick: () => void generate(read.reload) },
      icon("plus"), "Generate key")],
  }, read.node);

  /** @param {Key} key */
  function keyRow(key) {
    const used = key.lastUsed ? el("span", { title: fullTime(key.lastUsed) }, `last used ${when(key.lastUsed)}`) : "never used";
    return el("li", null,
      el("span", { class: "name" }, el("b", null, key.name),
        key.revoked ? el("span", { class: "chip" }, "revoked") : null,
        key.answers === false ? el("span", { class: "chip", title: "It cannot decide what agents ask." }, "no answers") : null,
        key.children.length
          ? el("span", { class: "chip", title: key.children.join(", ") }, `made ${counted(key.children.length, "key")}`)
          : null),
      el("small", null, `Made ${when(key.created)}${key.createdBy ? ` by ${makerOf(key.createdBy)}` : ""} · `, used),
      el("span", { class: "ends" }, may("manager")
        ? menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${key.name}` }, [icon("more")], () => [
          { label: "Replace by another key", icon: "reload", changes: "manager", onselect: () => void regenerate(key, read.reload) },
          null,
          { label: "Revoke", icon: "trash", danger: true, changes: "manager", onselect: () => void revoke(key, read.reload) },
        ])
        : null));
  }
}

function nothing() {
  return emptyState("key", "No keys yet", "A key lets a script, another computer or a voice assistant create chats and read the answers.");
}

/** @param {string} moment */
function when(moment) {
  const text = shortTime(moment);
  return text === "now" ? "just now" : text.endsWith(" m") ? `${text}in ago` : text;
}

/** @param {() => void} reload */
async function generate(reload) {
  await openDialog("Generate key", (close) => {
    const name = el("input", { name: "name", class: "input", autofocus: true, required: true, maxlength: 64,
      pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", autocapitalize: "none", spellcheck: "false" });
    const answers = el("input", { type: "checkbox", checked: true });
    const send = async () => {
      const made = await post("/api/keys", { name: name.value.trim(), answers: answers.checked });
      close();
      reload();
      await showOnce(made.name, made.key, EXAMPLE);
    };
    return [sendForm({ action: "Generate key", oncancel: () => close(), send },
      labelled("Name", name, "The device or program that will use it: letters, digits, dots, dashes."),
      el("label", { class: "checked" }, answers,
        el("span", null, "May answer agents' questions: allow or deny what they ask for, and release spent budgets")))];
  });
}

/**
 * @param {Key} key
 * @param {() => void} reload
 */
async function regenerate(key, reload) {
  const sure = await confirm({ title: `Replace the key of ${key.name}?`, text: "Its present key stops working.", action: "Replace" });
  if (!sure) return;
  try {
    const made = await post(`/api/keys/${encodeURIComponent(key.name)}/regenerate`);
    reload();
    await showOnce(made.name, made.key, EXAMPLE);
  } catch (error) {
    toastError(error);
  }
}

/**
 * @param {Key} key
 * @param {() => void} reload
 */
async function revoke(key, reload) {
  const made = key.children.length + key.accessKeys.length;
  await openDialog(`Revoke ${key.name}?`, (close) => {
    const all = el("input", { type: "checkbox", checked: true });
    const send = async () => {
      const query = made && all.checked ? { children: true } : {};
      await call("DELETE", `/api/keys/${encodeURIComponent(key.name)}`, { query });
      close();
      reload();
      toast(`The key ${key.name} is revoked`);
    };
    return [sendForm({ action: "Revoke", danger: true, oncancel: () => close(), send },
      el("p", null, "It stops working at once, and its open connections end within a second. This cannot be undone."),
      made
        ? el("label", { class: "checked" }, all, el("span", null, `Revoke the ${counted(made, "key")} that it made, too, as after a leak: `,
          [...key.children, ...key.accessKeys.map((one) => one.name ?? "")].filter(Boolean).join(", ")))
        : null)];
  });
}
