/** The card "People": who may sign in, as what; added, changed, signed out, removed. */

import { get, post, put, remove, session } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { emptyState, loaded } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { toast, toastError } from "../parts/toast.js";
import { card, labelled, listView, longList, sendForm } from "./frame.js";
import { showSessionsOf } from "./sessions_card.js";

/** @typedef {{ name: string, role: "viewer" | "manager" | "administrator" }} Person */

/** @type {readonly Person["role"][]} */
const ROLES = ["viewer", "manager", "administrator"];
const MAY = { viewer: "reads", manager: "works with chats", administrator: "everything" };

/** The card, for administrators. */
export function peopleCard() {
  const view = listView();
  const read = loaded(() => get("/api/users"), ({ users }) => (users.length
    ? longList(users, (person) => `${person.name} ${person.role}`, personRow, "people", view)
    : emptyState("people", "Nobody has a password yet", "Add yourself first; one-time codes go on working.")));
  const { reload } = read;
  return card({
    title: "People", text: "The people who can sign in to this interface. A changed role or password signs them out.",
    actions: [el("button", { class: "btn", changes: "administrator", onclick: () => void add(reload) }, icon("plus"), "Add a person")],
  }, read.node);

  /** @param {Person} person */
  function personRow(person) {
    const mine = person.name === session.peek()?.user;
    return el("li", null,
      el("span", { class: "name" }, el("b", null, person.name), mine ? el("span", { class: "chip" }, "you") : null),
      el("small", null, `${person.role}: ${MAY[person.role]}`),
      el("span", { class: "ends" },
        menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${person.name}` }, [icon("more")], () => [
          ...ROLES.map((role) => /** @type {import("../parts/menu.js").Item} */ ({
            label: `Role: ${role}`, note: MAY[role], checked: role === person.role, disabled: mine && role !== person.role,
            changes: "administrator", onselect: () => void change(person, { role }),
          })),
          null,
          { label: "Set a password", icon: "key", disabled: mine, note: mine ? "Yours: under You" : "", changes: "administrator",
            onselect: () => void setPassword(person) },
          { label: "Logins…", icon: "eye", onselect: () => void showSessionsOf(person.name) },
          { label: "Sign out everywhere", icon: "out", changes: "administrator", onselect: () => void signOut(person) },
          { label: "Remove", icon: "trash", danger: true, disabled: mine, changes: "administrator",
            onselect: () => void removePerson(person) },
        ])));
  }

  /**
   * @param {Person} person
   * @param {{ role?: Person["role"] }} changes
   */
  async function change(person, changes) {
    if (changes.role === person.role) return;
    await attempt(() => put(at(person), changes), `${person.name} is ${changes.role} now, and signed out`);
  }

  /** @param {Person} person */
  async function signOut(person) {
    await attempt(() => remove(`${at(person)}/sessions`), `${person.name} is signed out everywhere`);
  }

  /** @param {Person} person */
  async function removePerson(person) {
    const left = await keysMadeBy(person);
    const sure = await confirm({
      title: `Remove ${person.name}?`,
      text: `Every login of theirs ends. What they did stays in the chats.${left.length
        ? ` Access keys that they made stay valid until you revoke them: ${left.join(", ")}.` : ""}`,
      action: "Remove", danger: true,
    });
    if (sure) await attempt(() => remove(at(person)), `${person.name} is removed`);
  }

  /**
   * @param {() => Promise<unknown>} act
   * @param {string} done
   */
  async function attempt(act, done) {
    try {
      await act();
      toast(done);
    } catch (error) {
      toastError(error, () => void attempt(act, done));
    }
    await reload();
  }
}

/**
 * The names of the valid access keys that this person made; none where they cannot be read.
 * @param {Person} person
 * @returns {Promise<string[]>}
 */
async function keysMadeBy(person) {
  try {
    /** @type {{ keys: { name: string, createdBy: string, revoked: boolean }[] }} */
    const { keys } = await get("/api/keys");
    return keys.filter((key) => key.createdBy === `user:${person.name}` && !key.revoked).map((key) => key.name);
  } catch {
    return [];
  }
}

/** @param {Person} person */
function at(person) {
  return `/api/users/${encodeURIComponent(person.name)}`;
}

/** @param {() => void} reload */
function add(reload) {
  return openDialog("Add a person", (close) => {
    const name = el("input", { name: "name", class: "input", autofocus: true, required: true, maxlength: 64, autocapitalize: "none",
      autocomplete: "off", spellcheck: "false" });
    const password = newPassword();
    const role = el("select", { name: "role", class: "input" }, ROLES.map((one) => el("option", { value: one }, `${one}: ${MAY[one]}`)));
    role.value = "manager";
    const send = async () => {
      await post("/api/users", { name: name.value.trim(), role: role.value, password: password.value });
      close();
      reload();
      toast(`${name.value.trim()} may sign in`);
    };
    return [sendForm({ action: "Add", oncancel: () => close(), send },
      labelled("Name", name), labelled("Role", role), labelled("Password", password, "12 characters or more."))];
  });
}

/** @param {Person} person */
function setPassword(person) {
  return openDialog(`A password for ${person.name}`, (close) => {
    const password = newPassword();
    const send = async () => {
      await put(at(person), { password: password.value });
      close();
      toast(`${person.name} has another password, and is signed out`);
    };
    return [sendForm({ action: "Set password", oncancel: () => close(), send }, labelled("Password", password, "12 characters or more."))];
  });
}

function newPassword() {
  return el("input", { name: "password", class: "input", type: "password", autocomplete: "new-password", required: true,
    minlength: 12, maxlength: 1024 });
}
