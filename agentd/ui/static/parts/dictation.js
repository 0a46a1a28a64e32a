/** Dictating a prompt: records the microphone, and lets the daemon transcribe it. */

import { ApiError, call, get } from "../core/api.js";
import { el } from "../core/el.js";
import { detached, signal } from "../core/signals.js";
import { countdown } from "../core/durations.js";
import { ticking } from "../core/time.js";
import { loadStyle } from "./stylesheet.js";
import { toast, toastError } from "./toast.js";

await loadStyle("attachments");

/** Samples in a second, as engines hear; a browser's own format would have to be converted by the daemon. */
const RATE = 16_000;
/** Seconds; a shorter sound is a slip of the finger. */
const LEAST = 0.2;
const HEAD = 44;

/** @typedef {import("../core/signals.js").Signal<"asking" | "listening" | "writing" | "failed">} Stage */

/**
 * Record until it is said to be enough, and give what was said to `insert`.
 * @param {HTMLElement} holder what shows how it stands
 * @param {(text: string) => void} insert
 * @param {AbortSignal} left aborted when the page is left
 */
export async function dictate(holder, insert, left) {
  const abort = new AbortController();
  left.addEventListener("abort", () => abort.abort());
  const stage = /** @type {Stage} */ (signal("asking"));
  let finish = () => {};
  const [node, end] = detached(() => bar(stage, () => finish(), () => abort.abort()));
  holder.append(node);
  /** @param {"listening" | "failed"} next @param {() => void} go what the button that it offers does */
  const offer = (next, go) => {
    finish = go;
    stage.value = next;
    setTimeout(() => /** @type {HTMLElement | null} */ (node.querySelector(".go"))?.focus());
  };
  try {
    const { seconds } = await findEngine(abort.signal);
    const audio = await record(abort.signal, seconds, (stop) => offer("listening", stop));
    stage.value = "writing";
    const wav = await toWav(audio, seconds);
    if (wav.size < HEAD + 2 * RATE * LEAST) throw new ApiError(0, "silence", "Nothing was recorded");
    let said = await transcribe(wav, abort.signal);
    while (said === null) { // what was said is not lost with the first try
      await new Promise((resolve, reject) => {
        abort.signal.addEventListener("abort", () => reject(abort.signal.reason));
        offer("failed", () => resolve(undefined));
      });
      stage.value = "writing";
      said = await transcribe(wav, abort.signal);
    }
    if (said) insert(said);
    else toast("No speech was recognized");
  } catch (error) {
    if (!abort.signal.aborted) toastError(error instanceof DOMException ? describe(error) : error);
  } finally {
    end();
    node.remove();
  }
}

/**
 * Return what was said; null if that failed, which is told then.
 * @param {Blob} wav
 * @param {AbortSignal} abort
 * @returns {Promise<string | null>}
 */
async function transcribe(wav, abort) {
  try {
    const { engine } = await findEngine(abort); // anew each time: after a failure, another may have been chosen
    const heard = await call("POST", "/api/speechrecognition/transcribe", { query: { engine }, form: wav, signal: abort });
    return heard.text.trim();
  } catch (error) {
    if (abort.aborted) throw error;
    toastError(error);
    return null;
  }
}

/**
 * The engine that hears, and how many seconds it takes at a time.
 * @param {AbortSignal} abort
 */
async function findEngine(abort) {
  const known = await get("/api/speechrecognition/engines", {}, abort);
  const usual = known.engines.find((/** @type {any} */ one) => one.name === known.default && one.available);
  const engine = usual ?? known.engines.find((/** @type {any} */ one) => one.available);
  if (engine) return { engine: engine.name, seconds: Math.min(known.maxSeconds, Math.floor(known.maxBytes / 2 / RATE) - 1) };
  throw new ApiError(0, "speech", "No speech engine can be used", known.engines[0]?.missing || "Name one in speech.yml.");
}

/**
 * @param {AbortSignal} abort
 * @param {number} seconds after which it ends by itself
 * @param {(stop: () => void) => void} begun
 * @returns {Promise<Blob>}
 */
async function record(abort, seconds, begun) {
  const stream = await openMicrophone(abort);
  try {
    const recorder = new MediaRecorder(stream);
    /** @type {Blob[]} */
    const pieces = [];
    recorder.addEventListener("dataavailable", (event) => pieces.push(event.data));
    const ended = new Promise((resolve, reject) => {
      recorder.addEventListener("stop", resolve);
      recorder.addEventListener("error", () => reject(new ApiError(0, "recorder", "The recording broke off")));
      abort.addEventListener("abort", () => reject(abort.reason));
    });
    const stop = () => recorder.state !== "inactive" && recorder.stop();
    const timer = setTimeout(stop, seconds * 1000);
    recorder.start();
    begun(stop);
    await ended.finally(() => clearTimeout(timer));
    return new Blob(pieces);
  } finally {
    for (const track of stream.getTracks()) track.stop();
  }
}

/**
 * A recording as WAV: one channel of 16 bits.
 * @param {Blob} recording
 * @param {number} seconds what is beyond them, recorded since timers are late, would have all of it refused
 */
async function toWav(recording, seconds) {
  const context = new OfflineAudioContext(1, 1, RATE); // what it decodes, it brings to its own rate
  const sound = recording.size ? await context.decodeAudioData(await recording.arrayBuffer()) : context.createBuffer(1, 1, RATE);
  const length = Math.min(sound.length, seconds * RATE);
  const data = new DataView(new ArrayBuffer(HEAD + 2 * length));
  const write = (/** @type {number} */ at, /** @type {string} */ text) =>
    [...text].forEach((letter, index) => data.setUint8(at + index, letter.charCodeAt(0)));
  write(0, "RIFF");
  data.setUint32(4, data.byteLength - 8, true);
  write(8, "WAVEfmt ");
  data.setUint32(16, 16, true); // length of what describes the samples: PCM, one channel, …
  data.setUint16(20, 1, true);
  data.setUint16(22, 1, true);
  data.setUint32(24, RATE, true);
  data.setUint32(28, 2 * RATE, true); // bytes in a second
  data.setUint16(32, 2, true); // bytes and bits of a sample
  data.setUint16(34, 16, true);
  write(36, "data");
  data.setUint32(40, 2 * length, true);
  const channels = Array.from({ length: sound.numberOfChannels }, (_, index) => sound.getChannelData(index));
  for (let at = 0; at < length; at++) {
    const sample = channels.reduce((sum, channel) => sum + (channel[at] ?? 0), 0) / channels.length;
    data.setInt16(HEAD + 2 * at, Math.max(-1, Math.min(1, sample)) * 0x7fff, true);
  }
  return new Blob([data], { type: "audio/wav" });
}

/**
 * Wait for the person to allow the microphone, and no longer than until they cancel.
 * @param {AbortSignal} abort
 * @returns {Promise<MediaStream>}
 */
function openMicrophone(abort) {
  return new Promise((resolve, reject) => {
    abort.addEventListener("abort", () => reject(abort.reason));
    navigator.mediaDevices.getUserMedia({ audio: true }).then((stream) => {
      if (abort.aborted) for (const track of stream.getTracks()) track.stop();
      resolve(stream);
    }, reject);
  });
}

/** @param {DOMException} error */
function describe(error) {
  if (error.name === "NotAllowedError")
    return new ApiError(0, "microphone", "The microphone is not allowed here", "Allow it in the browser's settings of this page.");
  if (error.name === "NotFoundError") return new ApiError(0, "microphone", "There is no microphone");
  return new ApiError(0, "microphone", "The microphone cannot be used", error.message);
}

/**
 * @param {Stage} stage
 * @param {() => void} finish
 * @param {() => void} cancel
 */
function bar(stage, finish, cancel) {
  const tick = ticking();
  let since = 0;
  const stageText = () => {
    if (stage.value === "asking") return "Waits for the microphone…";
    if (stage.value === "writing") return "Transcribing…";
    if (stage.value === "failed") return "The recording is not transcribed yet";
    since ||= tick.peek();
    return `Listening ${countdown(Math.max(0, tick.value - since))}`;
  };
  const node = el("div", { class: "dictation", role: "group", "aria-label": "Dictation" },
    el("span", { class: () => `dot ${stage.value === "listening" ? "rec" : "off"}`, "aria-hidden": "true" }),
    el("span", { class: "grow", "aria-hidden": "true" }, stageText),
    el("span", { class: "hidden", role: "status" }, () => (stage.value === "listening" ? "Listening" : stageText())),
    el("button", { class: "btn plain small", onclick: cancel }, "Cancel"),
    () => (stage.value === "listening" || stage.value === "failed"
      ? el("button", { class: "btn small go", onclick: finish }, stage.value === "listening" ? "Done" : "Retry") : null));
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    cancel();
  });
  return node;
}
