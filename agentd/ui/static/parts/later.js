/** Asks when a prompt is to be sent. */

import { el } from "../core/el.js";
import { fullTime, now } from "../core/time.js";
import { openDialog } from "./dialog.js";

const HOUR = 3_600_000;

/**
 * Ask for a moment in the future.
 * @param {string} [chosen] the moment so far
 * @returns {Promise<string>} in ISO 8601; empty when it was dismissed
 */
export async function askLater(chosen = "") {
  const start = chosen || at(0, 1).toISOString();
  const input = el("input", { class: "input", type: "datetime-local", value: toLocal(new Date(start)), min: toLocal(new Date(now())),
    required: true, autofocus: true, "aria-describedby": "later-zone" });
  const answer = await openDialog("Send later", (close) => {
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (input.value) close(new Date(input.value).toISOString());
    };
    return [
      el("div", { class: "ideas" }, suggestions().map(([label, moment]) => el("button", {
        class: "btn small", type: "button", title: fullTime(moment.getTime()), onclick: () => close(moment.toISOString()),
      }, label))),
      el("form", { onsubmit: submit },
        el("label", { class: "labelled" }, el("span", null, "Not before"), input),
        el("p", { class: "state", id: "later-zone" },
          `In this device's time zone, ${Intl.DateTimeFormat().resolvedOptions().timeZone}. Prompts behind it do not wait for it.`),
        el("footer", null,
          el("button", { class: "btn", type: "button", onclick: () => close() }, "Cancel"),
          el("button", { class: "btn main" }, "Send later"))),
    ];
  });
  return answer;
}

/** @returns {[label: string, moment: Date][]} */
function suggestions() {
  const morning = at(1);
  const monday = at((8 - new Date(now()).getDay()) % 7 || 7);
  return [["In an hour", new Date(now() + HOUR)], ["Tomorrow, 9:00", morning], ["Monday, 9:00", monday]];
}

/**
 * Nine o'clock in so many days; or a full hour from now.
 * @param {number} days
 * @param {number} [hours]
 */
function at(days, hours = 0) {
  const moment = new Date(now());
  moment.setDate(moment.getDate() + days);
  if (hours) moment.setHours(moment.getHours() + hours, 0, 0, 0);
  else moment.setHours(9, 0, 0, 0);
  return moment;
}

/** @param {Date} moment */
function toLocal(moment) {
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day}T${two(moment.getHours())}:${two(moment.getMinutes())}`;
}
