/** Dialogs: modal, closed by ×, Escape or Back unless a form was filled, with the focus kept inside by the browser. */

import { el, icon } from "../core/el.js";
import { holdBack } from "../core/router.js";
import { detached } from "../core/signals.js";
import { rememberFocus } from "./focus.js";

/** The first field of a form. */
const FIRST = "form :is(input, select, textarea):not([disabled], [hidden], [type=hidden], [readonly])";

/** The address of the page under the dialog that was opened last. */
let address = "";

// Who goes back in the browser wants to leave a dialog; over another page it would seem to be about that.
holdBack(() => {
  const form = document.querySelector("dialog[open] [data-filled]")?.closest("dialog");
  const closeAll = () => document.querySelectorAll("dialog").forEach((one) => one.close());
  if (!form) {
    closeAll();
    return false;
  }
  history.pushState(null, "", address);
  void askWhetherToDiscard(form).then((isLeft) => {
    if (!isLeft) return;
    closeAll();
    history.back();
  });
  return true;
});

// The browser asks in words of its own whether to reload or leave the page.
addEventListener("beforeunload", (event) => {
  if (document.querySelector("dialog[open] [data-filled]")) event.preventDefault();
});

/**
 * Show a dialog until it is closed. One that is open already is not opened again, as by a second click on a button
 * whose dialog first reads something.
 * @param {string} title
 * @param {(close: (value?: string) => void) => import("../core/el.js").Single[]} content
 * @param {{ wide?: boolean, plain?: boolean }} [options] `plain`: without a head of its own
 * @returns {Promise<string>} what it was closed with; empty when it was dismissed
 */
export function openDialog(title, content, options = {}) {
  if ([...document.querySelectorAll("dialog[open]")].some((one) => one.ariaLabel === title)) return Promise.resolve("");
  return new Promise((resolve) => {
    /** @type {HTMLDialogElement} */
    const dialog = el("dialog", { class: options.wide ? "dialog wide" : "dialog", "aria-label": title });
    const close = (value = "") => dialog.close(value);
    const giveFocusBack = rememberFocus(); // what opened it may be replaced meanwhile
    const head = el("header", null, el("h2", null, title), el("span", { class: "grow" }),
      el("button", { class: "btn plain icon small", "aria-label": "Close", onclick: () => void dismiss() }, icon("close")));
    const [inside, end] = detached(() => el("div", { class: "inside" }, options.plain ? null : head, content(close)));
    dialog.append(inside);
    dialog.addEventListener("input", ({ target }) => /** @type {HTMLInputElement} */ (target).form?.setAttribute("data-filled", ""));
    const isFilled = () => dialog.querySelector("[data-filled]") !== null;
    const dismiss = async () => {
      if (!isFilled() || await askWhetherToDiscard(dialog)) close();
    };
    let isPressedBeside = false; // a text that is selected with the mouse may end beside the dialog
    dialog.addEventListener("pointerdown", (event) => (isPressedBeside = event.target === dialog));
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog && isPressedBeside) void dismiss();
    });
    dialog.addEventListener("cancel", (event) => {
      if (event.target !== dialog || !isFilled()) return; // a field for files tells this, too
      event.preventDefault();
      void dismiss();
    });
    dialog.addEventListener("keydown", (event) => { // a key that is held down answers no question that it has opened
      if (event.repeat && event.key === "Enter" && !(event.target instanceof HTMLTextAreaElement)) event.preventDefault();
    });
    address = location.href;
    dialog.addEventListener("close", () => {
      dialog.remove();
      giveFocusBack();
      end();
      resolve(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.showModal();
    /** @type {HTMLElement | null} */ (dialog.querySelector("[autofocus]") ?? dialog.querySelector(FIRST))?.focus();
  });
}

/**
 * Ask whether what was typed into a form may be lost; a form that is saved meanwhile takes the question with it.
 * @param {HTMLDialogElement} form
 */
async function askWhetherToDiscard(form) {
  const answer = await openDialog("Discard what you entered?", (close) => {
    form.addEventListener("close", () => close(), { once: true });
    return [el("footer", null,
      el("button", { class: "btn danger", onclick: () => close("yes") }, "Discard"),
      el("button", { class: "btn main", autofocus: true, onclick: () => close() }, "Keep editing"))];
  });
  return answer === "yes";
}

/**
 * Ask whether something is to be done. What cannot be undone is not what the Enter key chooses.
 * @param {{ title: string, text: string, action: string, danger?: boolean }} question
 * @returns {Promise<boolean>}
 */
export async function confirm({ title, text, action, danger = false }) {
  const answer = await openDialog(title, (close) => [
    el("p", null, text),
    el("footer", null,
      el("button", { class: "btn", autofocus: danger, onclick: () => close() }, "Cancel"),
      el("button", { class: danger ? "btn danger" : "btn main", changes: "viewer", autofocus: !danger, onclick: () => close("yes") },
        action)),
  ]);
  return answer === "yes";
}

/**
 * Ask for a line of text.
 * @param {{ title: string, label: string, value?: string, action: string }} question
 * @returns {Promise<string>} empty when it was dismissed
 */
export function ask({ title, label, value = "", action }) {
  return openDialog(title, (close) => {
    const input = el("input", { class: "input", value, autofocus: true, required: true, maxlength: 1000 });
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (input.value.trim()) close(input.value.trim());
    };
    queueMicrotask(() => input.select());
    return [
      el("form", { onsubmit: submit },
        el("label", { class: "labelled" }, el("span", null, label), input),
        el("footer", null,
          el("button", { class: "btn", type: "button", onclick: () => close() }, "Cancel"),
          el("button", { class: "btn main", changes: "viewer" }, action))),
    ];
  });
}
