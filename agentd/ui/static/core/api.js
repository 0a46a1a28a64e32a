/** Calls the daemon: its errors, the login's token, and the one place for a lost connection. */

import { signal } from "./signals.js";
import { learnTime } from "./time.js";

/** Where the daemon's addresses begin: above `/-/`, whatever path a reverse proxy adds before. */
export const BASE = new URL("../../../", import.meta.url).pathname;

/**
 * @typedef {import("../api.d.ts").SessionView} Session
 * @typedef {Session["role"]} Role
 * @typedef {import("../api.d.ts").Answers} Answers
 * @typedef {{ body?: unknown, query?: Record<string, string | number | boolean | null | undefined> | undefined,
 *   key?: string | undefined, ifMatch?: string, signal?: AbortSignal | undefined, form?: BodyInit }} Options
 */

/** @type {readonly Role[]} */
const ROLES = ["nobody", "viewer", "manager", "administrator"];

/** The signed-in user; null before that is known, and without one. */
export const session = signal(/** @type {Session | null} */ (null));

/**
 * Whether who is signed in may what this role may.
 * @param {Role} role
 */
export function may(role) {
  return ROLES.indexOf(session.value?.role ?? "nobody") >= ROLES.indexOf(role);
}

/** Whether the daemon answers: false once it has not for a while. `live.js` finds out. */
export const reachable = signal(true);

/**
 * Whether who is signed in may change what this role may, and it can be changed now.
 * @param {Role} [role]
 */
export function canChange(role = "manager") {
  return may(role) && reachable.value;
}

/** What went wrong, in the daemon's words; `status` 0: it was not reached. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   * @param {string} [details]
   */
  constructor(status, code, message, details = "") {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }

  /** Whether it may work when it is tried again. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 502;
  }
}

/** @type {() => void} */
let onSignedOut = () => {};

/**
 * Call when the daemon no longer knows the login.
 * @param {() => void} action
 */
export function whenSignedOut(action) {
  onSignedOut = action;
}

/**
 * Send a request, and return the body of the answer.
 * @param {"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} method
 * @param {string} path such as `/api/chats`
 * @param {Options} [options] `key` is the Idempotency-Key
 * @returns {Promise<any>}
 */
export async function call(method, path, options = {}) {
  const answer = await send(method, path, options);
  if (answer.status === 204) return null;
  const type = answer.headers.get("Content-Type") ?? "";
  return readBody(type.startsWith("application/json") ? answer.json() : answer.text(), options.signal);
}

/**
 * As `call`, with the `ETag` of the answer.
 * @param {"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<{ body: any, etag: string }>}
 */
export async function callTagged(method, path, options = {}) {
  const answer = await send(method, path, options);
  return { body: await readBody(answer.json(), options.signal), etag: answer.headers.get("ETag") ?? "" };
}

/**
 * Read a text with the headers of its answer.
 * @param {string} path
 * @param {Options["query"]} [query]
 * @param {AbortSignal} [abort]
 */
export async function getText(path, query, abort) {
  const answer = await send("GET", path, { query, signal: abort });
  return { text: await readBody(answer.text(), abort), headers: answer.headers };
}

/**
 * Read; the answer has its type where the path is a constant.
 * @template {string} Path
 * @param {Path} path
 * @param {Options["query"]} [query]
 * @param {AbortSignal} [abort]
 * @returns {Promise<`GET ${Path}` extends keyof Answers ? Answers[`GET ${Path}`] : any>}
 */
export function get(path, query, abort) {
  return call("GET", path, { query, signal: abort });
}

/**
 * @param {string} path
 * @param {unknown} [body]
 * @param {string} [key]
 */
export function post(path, body, key) {
  return call("POST", path, { body, key });
}

/**
 * @param {string} path
 * @param {unknown} body
 */
export function put(path, body) {
  return call("PUT", path, { body });
}

/** @param {string} path */
export function remove(path) {
  return call("DELETE", path);
}

/**
 * The address of a path of the daemon.
 * @param {string} path
 * @param {Options["query"]} [query]
 */
export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `${BASE}${path.replace(/^\//, "")}${text ? `?${text}` : ""}`;
}

/** Look who is signed in. */
export async function refreshSession() {
  session.value = await get("/api/session");
  return session.peek();
}

/** @type {Map<unknown, Promise<unknown>>} */
const unanswered = new Map();

/**
 * Send a change once those of the same thing before it are answered, so that the daemon has them in their order.
 * @template T
 * @param {unknown} thing
 * @param {() => Promise<T>} change
 * @returns {Promise<T>}
 */
export function sendInOrder(thing, change) {
  const sent = (unanswered.get(thing) ?? Promise.resolve()).then(change);
  const forget = () => void (unanswered.get(thing) === answered && unanswered.delete(thing));
  /** @type {Promise<void>} */
  const answered = sent.then(forget, forget);
  unanswered.set(thing, answered);
  return sent;
}

/**
 * A key under which a request may be repeated without being done twice.
 * @returns {string}
 */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Options} options
 */
async function send(method, path, options) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-XSRF-Token"] = session.peek()?.xsrf ?? "";
  if (options.key) headers["Idempotency-Key"] = options.key;
  if (options.ifMatch) headers["If-Match"] = options.ifMatch;
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(address(path, options.query), {
      method,
      headers,
      body: options.form ?? (options.body === undefined ? null : JSON.stringify(options.body)),
      signal: options.signal ?? null,
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw describeError(0, "");
  }
  // A page is of a proxy or a hotel's network.
  if (answer.ok && answer.headers.get("Content-Type")?.startsWith("text/html")) throw describeError(0, "");
  learnTime(answer.headers.get("Date"));
  if (answer.ok) return answer;
  const failure = await describe(answer);
  if (answer.status === 401 && path !== "/api/session") onSignedOut();
  throw failure;
}

/**
 * A body, or an error like that of a daemon that cannot be reached where the connection ends within it.
 * @template T
 * @param {Promise<T>} body
 * @param {AbortSignal | undefined} abort
 */
async function readBody(body, abort) {
  try {
    return await body;
  } catch (error) {
    if (abort?.aborted || error instanceof SyntaxError) throw error;
    throw describeError(0, "");
  }
}

/** @param {Response} answer */
async function describe(answer) {
  return describeError(answer.status, await answer.text().catch(() => ""));
}

/**
 * What an answer says that is none of success.
 * @param {number} status 0: there was no answer
 * @param {string} text its body
 */
export function describeError(status, text) {
  if (!status) return new ApiError(0, "offline", "agentd does not answer", "Try again when it is reachable.");
  try {
    const body = JSON.parse(text);
    return new ApiError(status, String(body.error), String(body.message), String(body.details ?? ""));
  } catch {
    return new ApiError(status, "unexpected", `The answer was ${status}`);
  }
}
