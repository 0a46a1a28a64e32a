/** Whether somebody looks at this page: it is visible, and was used a moment ago. */

import { signal } from "../core/signals.js";

/** Milliseconds after the last touch, key or movement in which somebody is taken to be there. */
const PRESENT = 180_000;

const visible = () => !document.hidden;

/** True while somebody looks at this page. */
export const attentive = signal(visible());

let used = performance.now();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

function judge() {
  const left = used + PRESENT - performance.now();
  attentive.value = visible() && left > 0;
  clearTimeout(timer);
  if (attentive.peek()) timer = setTimeout(judge, left);
}

function use() {
  used = performance.now();
  if (!attentive.peek()) judge();
}

for (const name of ["pointerdown", "pointermove", "keydown", "wheel", "focus"])
  addEventListener(name, use, { capture: true, passive: true });
document.addEventListener("visibilitychange", () => {
  if (visible()) used = performance.now();
  judge();
});
judge();
