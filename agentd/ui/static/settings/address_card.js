/** How a phone reaches this daemon: its address as a QR code, with or without a sign-in code. */

import { BASE, may, post } from "../core/api.js";
import { el, icon, svg } from "../core/el.js";
import { link } from "../core/router.js";
import { signal } from "../core/signals.js";
import { countdown } from "../core/durations.js";
import { ticking } from "../core/time.js";
import { loaded } from "../parts/frame.js";
import { toastError } from "../parts/toast.js";
import { card } from "./frame.js";

const MARGIN = 4;
const LOOPBACK = /^(localhost|127\..*|\[::1\])$/;

const ours = () => location.origin + BASE;

/** The card "This address": where it is reached, and whether on the way others can read it. */
export function addressCard() {
  return card({ title: "This address", text: "Open it on a phone in the same network: point the camera at the code." },
    el("div", { class: "inside" }, el("div", { class: "qr" },
      qrCode(ours()),
      el("div", null,
        el("p", null, el("code", null, ours())),
        LOOPBACK.test(location.hostname) ? unreachable() : null,
        el("p", null, location.protocol === "https:"
          ? "Encrypted (https): nobody in between can read along."
          : LOOPBACK.test(location.hostname)
            ? "Not encrypted (http), which is right for this machine alone."
            : ["Not encrypted (http): others in the network can read along, ",
              "and a phone allows no microphone, notifications or installation. Run ", el("code", null, "agentd tls"),
              " for a certificate that the devices of your network can trust, or put a reverse proxy with https before it."]),
        may("administrator") ? el("a", { href: link("/settings/agent") }, "Change where it listens") : null))));
}

/** The card that signs a phone in. */
export function phoneCard() {
  const code = signal(/** @type {{ text: string, until: number } | null} */ (null));
  async function make() {
    try {
      const made = await post("/api/agent/session", {});
      code.value = { text: String(made.code), until: Date.parse(made.expiresAt) };
    } catch (error) {
      toastError(error, () => void make());
    }
  }
  return card({ title: "Your phone", text: "A code signs in once, as an administrator, without a password.", actions: [
    el("button", { class: "btn", changes: "administrator", onclick: () => void make() },
      icon("key"), () => (code.value ? "Another code" : "Make a code")),
  ] }, () => (code.value ? shownCode(code.value) : null));
}

/** @param {{ text: string, until: number }} code */
function shownCode(code) {
  const tick = ticking();
  const over = () => tick.value >= code.until;
  return el("div", { class: "inside" }, () => over()
    ? el("p", null, "This code is too old; make another one.")
    : el("div", { class: "qr" },
      qrCode(`${ours()}login#code=${encodeURIComponent(code.text)}`),
      el("div", null,
        el("p", null, "Point the phone's camera at it, or type the code at ", el("code", null, `${ours()}login`)),
        el("p", { class: "secret-once" }, code.text),
        el("p", { class: "num" }, () => `It works once, for ${countdown(code.until - tick.value)}.`),
        LOOPBACK.test(location.hostname) ? unreachable() : null)));
}

function unreachable() {
  return el("p", { class: "warn" }, icon("warning"), el("span", null,
    "Only this machine reaches this address. Open agentd by its name in the network, or let it listen there first (host: 0.0.0.0)."));
}

/** @param {string} text */
function qrCode(text) {
  return loaded(() => post("/api/qr", { text }), ({ size, path }) => {
    const side = size + 2 * MARGIN;
    return svg("svg", { viewBox: `${-MARGIN} ${-MARGIN} ${side} ${side}`, role: "img", "aria-label": "QR code of the address",
      "shape-rendering": "crispEdges" },
      svg("path", { d: path }));
  }).node;
}

