/** Dialogs of access keys: create and change one, show it once, reissue it. */

import { BASE, post } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { computed, signal } from "../core/signals.js";
import { openDialog } from "../parts/dialog.js";
import { toast } from "../parts/toast.js";
import { labelled, sendForm } from "../settings/frame.js";
import { chatModelsFirst, exportLines, smallModel } from "./export_lines.js";
import { createDialog, editDialog } from "./form.js";
import { readAll } from "./frame.js";
import { LIMIT_FIELDS, MODEL_LIMITS_FIELD } from "./limits.js";

/** @typedef {import("./form.js").Field} Field */

/** @type {readonly Field[]} */
const FIELDS = [
  { name: "name", label: "Name", required: true, hint: "The program or person that will use it." },
  { name: "expires", label: "Expires", kind: "moment", hint: "It stops working then; empty for never." },
  { name: "models", label: "Models", kind: "lines", placeholder: "all",
    hint: "Names or patterns such as gpt-*, one per line; empty for all." },
  { name: "channels", label: "Channels", kind: "lines", placeholder: "all",
    hint: "The channels that its requests may use, in the same form." },
  { name: "addresses", label: "Addresses", kind: "lines", placeholder: "all",
    hint: "From which it is accepted: addresses or networks such as 10.0.0.0/8, one per line; empty for all." },
  { name: "owner", label: "Owner", hint: "Who answers for what it spends; keys of one owner can share a budget." },
  { name: "tags", label: "Tags", kind: "lines", hint: "Such as a project, one per line; keys with one tag can share a budget." },
  ...LIMIT_FIELDS,
  MODEL_LIMITS_FIELD,
  { name: "keepBodies", label: "Keep the bodies of its requests", kind: "check", hint: "For some days, with secrets masked." },
];

/** @param {() => void} reload */
export function createKey(reload) {
  return createDialog({
    title: "New access key", path: "/api/agent/keys", fields: FIELDS, action: "Create key",
    done: async (made) => {
      reload();
      await showKeyOnce(made.name, made.key, made.models);
    },
  });
}

/** @param {string} id @param {string} name @param {() => void} reload */
export function editKey(id, name, reload) {
  return editDialog({ title: `Edit ${name}`, path: `/api/agent/keys/${id}`, fields: FIELDS, done: reload });
}

const GRACES = /** @type {const} */ ([
  ["0", "nothing: it is refused at once"], ["3600", "an hour"], ["86400", "a day"], ["604800", "a week"], ["2592000", "30 days"],
]);

/** @param {{ id: string, name: string, models: string[] | null }} key @param {() => void} reload */
export function reissueKey(key, reload) {
  return openDialog(`Reissue ${key.name}`, (close) => {
    const grace = el("select", { class: "input", autofocus: true }, GRACES.map(([value, label]) => el("option", { value }, label)));
    grace.value = "3600";
    const send = async () => {
      const made = await post(`/api/agent/keys/${key.id}/reissue`, { grace: Number(grace.value) });
      close();
      reload();
      await showKeyOnce(made.name, made.key, made.models);
    };
    return [sendForm({ action: "Reissue", oncancel: () => close(), send },
      el("p", null, "The key gets another secret, which is shown once. Its limits, what it has spent and its requests stay."),
      labelled("The secret before stays good for", grace, "So that programs can be changed one after the other."))];
  });
}

/**
 * Show a key this once: nothing keeps it, not this page either.
 * @param {string} name
 * @param {string} key
 * @param {readonly string[] | null} allowed patterns of the models that it may call
 */
export async function showKeyOnce(name, key, allowed) {
  /** @type {any[]} */
  let models = [];
  try {
    models = (await readAll("models")).filter((one) => one.enabled && (!allowed || allowed.some((glob) => matches(glob, one.name))));
  } catch {
    models = []; // the lines then name no model of ours
  }
  models = models.length ? chatModelsFirst(models) : [{ name: "MODEL" }];
  const root = `${location.origin}${BASE}`.replace(/\/$/, "");
  await openDialog(`The key of ${name}`, (close) => {
    const chosen = signal("Codex");
    const model = signal(models[0]);
    const small = signal(smallModel(models, models[0]));
    const lines = computed(() => exportLines(root, key, model.value, small.value));
    const text = el("div", { class: "secret-once", tabindex: 0, role: "textbox", "aria-readonly": "true", "aria-label": "Key",
      autofocus: true }, key); // not a button: Enter, pressed again, would close what is shown once
    const copy = async (/** @type {string} */ what, /** @type {string} */ said) => {
      try {
        await navigator.clipboard.writeText(what);
        toast(said);
      } catch {
        getSelection()?.selectAllChildren(text);
        toast("Press Ctrl C to copy it: the browser lets no page copy without https");
      }
    };
    return [
      el("div", { class: "stack" }, text,
        el("p", null, "It is shown only now: only a salted hash of it is stored."),
        el("div", { class: "seg clients", role: "group", "aria-label": "Lines for" }, Object.keys(lines.peek()).map((client) =>
          el("button", { "aria-pressed": () => String(chosen.value === client), onclick: () => (chosen.value = client) }, client))),
        el("div", { class: "form-grid" }, modelChoice("Model", models, model), modelChoice("Model for small tasks", models, small)),
        el("pre", { tabindex: 0, class: "export-lines", role: "region", "aria-label": "Lines for a terminal" },
          () => lines.value[chosen.value] ?? "")),
      el("footer", null,
        el("button", { class: "btn", onclick: () => void copy(key, "The key is copied") }, icon("copy"), "Copy the key"),
        el("button", { class: "btn", onclick: () => void copy(lines.peek()[chosen.peek()] ?? "", "The lines are copied") },
          icon("copy"), "Copy the lines"),
        el("button", { class: "btn main", onclick: () => close() }, "Done")),
    ];
  }, { wide: true });
}

/**
 * A choice of the model that the lines name.
 * @param {string} label
 * @param {readonly import("./export_lines.js").Model[]} models
 * @param {import("../core/signals.js").Signal<any>} chosen
 */
function modelChoice(label, models, chosen) {
  const select = el("select", { class: "input" }, models.map((one) => el("option", null, one.name)));
  select.onchange = () => (chosen.value = models[select.selectedIndex]);
  select.selectedIndex = models.indexOf(chosen.peek());
  return labelled(label, select);
}

/** @param {string} glob @param {string} name */
function matches(glob, name) {
  const pattern = glob.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  return new RegExp(`^${pattern}$`).test(name);
}
