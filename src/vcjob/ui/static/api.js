// Requests to the server. The token comes in the fragment of the URL, is kept for this tab, and leaves it in a header only.

import { t } from "./i18n.js";

const KEY = "vcjob-token";
const RETRY = [500, 1000, 2000, 5000];
/** The server sends something every 15 seconds; a connection that is silent for longer than this is dead. */
const SILENCE = 40_000;
/** How long a request waits for the begin of its answer; reading the stacks of many ranks takes a while. */
const ANSWER = 120_000;
/** How long messages are handled in one task; then the page answers what else is asked of it. */
const TURN = 8;
/** After these events nothing more will come, or a new connection is wanted. */
const OVER = ["end", "gone"];
const AGAIN = "again";

let token = sessionStorage.getItem(KEY) ?? "";
const tabs = new BroadcastChannel(KEY);
/** Gets the event "token" when there is a new one: streams that were refused wait for it. */
const tokens = new EventTarget();

/** @param {string} given */
function keep(given) {
  token = given;
  sessionStorage.setItem(KEY, given);
  tokens.dispatchEvent(new Event("token"));
}

/** Takes the token out of the address, for this tab and for those that a restarted server has locked out. @param {string} [hash] the view, where the address names no job */
export function takeToken(hash = "#/") {
  const address = new URLSearchParams(location.hash.slice(1));
  const given = address.get("token");
  if (!given) return false;
  keep(given);
  tabs.postMessage(given);
  const job = address.get("job")?.split("/").map(encodeURIComponent).join("/");
  history.replaceState(null, "", `${location.pathname}${job ? `#/jobs/${job}` : hash}`);
  return true;
}

/** Calls a function when another tab has a new token. @param {() => void} changed */
export function onToken(changed) {
  tabs.addEventListener("message", (event) => {
    if (event.data === token) return;
    keep(event.data);
    changed();
  });
}

/** An answer with an error: its message and hint are for users. */
export class ApiError extends Error {
  /** @param {number} status @param {{message: string, hint?: string, problems?: any[]}} error */
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.hint = error.hint;
    this.problems = error.problems ?? [];
  }
}

/** What a proxy says to a request whose session is over. @param {Response} response */
function isLogin(response) {
  const page = response.ok && response.headers.get("Content-Type")?.startsWith("text/html");
  return response.type === "opaqueredirect" || response.status === 401 || page;
}

const sessionEnded = () => new ApiError(401, { message: t("Your session has ended; reload the page") });

/** @param {string} path @param {RequestInit} [options] @param {number} [patience] how long it may take until the answer begins */
async function request(path, options = {}, patience = ANSWER) {
  // Behind an authenticating proxy there is no token, and this header may be the proxy's own.
  const headers = token ? { ...options.headers, Authorization: `Bearer ${token}` } : options.headers;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), patience);
  const signal = options.signal ? AbortSignal.any([options.signal, late.signal]) : late.signal;
  const response = await fetch(path, { ...options, headers, signal, redirect: "manual" })
    .catch((error) => { throw late.signal.aborted ? new Error(t("The server does not answer")) : error; })
    .finally(() => clearTimeout(timer));
  if (isLogin(response)) throw sessionEnded();
  if (!response.ok) {
    const body = await response.json().catch(() => null); // of a proxy
    throw new ApiError(response.status, body?.error ?? { message: `${t("The server answered with")} HTTP ${response.status}` });
  }
  return response;
}

/** @param {string} path @returns {Promise<any>} */
export async function get(path) {
  return (await request(path)).json();
}

/** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export async function post(path, body) {
  const options = { method: "POST", body: JSON.stringify(body ?? {}), headers: { "Content-Type": "application/json" } };
  return (await request(path, options)).json();
}

/**
 * A file of any size. Rejects if nothing comes for too long.
 * @param {string} path
 * @param {(bytes: number) => void} progress
 */
export async function download(path, progress) {
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ ((await request(path)).body).getReader();
  /** What was read last, and before it the rest, which the browser may keep on the disk. @type {BlobPart[]} */
  let parts = [];
  let size = 0;
  for (;;) {
    let late = false;
    const watchdog = setTimeout(() => { late = true; reader.cancel(); }, SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(watchdog));
    if (late) throw new Error(t("The server does not answer"));
    if (done) return new Blob(parts);
    parts.push(value);
    size += value.length;
    if (parts.length > 100) parts = [new Blob(parts)];
    progress(size);
  }
}

/** An error as one line for users. @param {unknown} error */
export function sentence(error) {
  if (error instanceof ApiError) return [error.message, error.hint].filter(Boolean).join(" — ");
  return error instanceof Error ? error.message : String(error);
}

/** The state of a stream as one line for users; nothing while it is open. @param {"open" | "lost" | ApiError} state */
export function connectionText(state) {
  if (state === "open") return "";
  return state === "lost" ? t("The connection was lost; trying again …") : sentence(state);
}

/** The path of a job in the interface. @param {{namespace: string, name: string}} job */
export function jobPath(job) {
  return `/api/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;
}

/**
 * Server-sent events that come back after a disconnect. A hidden tab has no connection: browsers open about six to one
 * server for all tabs together. `path` gets the newest id that was received, or "". `receive` gets (event, data); `state`
 * gets "open", "lost" or an ApiError. A stream whose token was refused waits for another token. Returns a function that
 * ends the stream.
 * @param {string | ((id: string) => string)} path
 * @param {(event: string, data: any) => void} receive
 * @param {(state: "open" | "lost" | ApiError) => void} [state]
 */
export function stream(path, receive, state = () => {}) {
  const ended = new AbortController();
  let failures = 0;
  let newest = "";
  /** @type {Receive} */
  const take = (event, data, id) => {
    failures = 0;
    receive(event, data);
    newest = id || newest;
  };
  const run = async () => {
    while (await shown(ended.signal)) {
      const connection = new AbortController();
      const leave = () => { if (ended.signal.aborted || hidden()) connection.abort(); };
      document.addEventListener("visibilitychange", leave);
      ended.signal.addEventListener("abort", leave);
      leave(); // the stream may have ended since the tab was seen to be shown
      /** @type {unknown} */
      let failure = null;
      const used = token;
      try {
        const response = await request(typeof path === "string" ? path : path(newest), { signal: connection.signal }, SILENCE);
        if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) throw sessionEnded();
        state("open");
        const last = await read(/** @type {ReadableStream<Uint8Array>} */ (response.body), take, connection.signal);
        if (OVER.includes(last)) return;
        if (last === AGAIN) connection.abort();
      } catch (error) {
        failure = error;
      } finally {
        document.removeEventListener("visibilitychange", leave);
        ended.signal.removeEventListener("abort", leave);
      }
      if (connection.signal.aborted) continue;
      state(failure instanceof ApiError ? failure : "lost");
      if (failure instanceof ApiError && failure.status === 403 && used) { if (used === token) await next(tokens, "token", ended.signal); }
      else if (failure instanceof ApiError && !isPassing(failure.status)) return;
      else await new Promise((resolve) => setTimeout(resolve, RETRY[Math.min(failures++, RETRY.length - 1)]));
    }
  };
  run();
  return () => ended.abort();
}

/** True if the next request may be answered: the server or a proxy is busy or restarts. @param {number} status */
const isPassing = (status) => status === 408 || status === 429 || status >= 500;

const hidden = () => document.visibilityState === "hidden";

/** Waits until the tab is shown; false if the stream ended. @param {AbortSignal} ended */
async function shown(ended) {
  while (!ended.aborted && hidden()) await next(document, "visibilitychange", ended);
  return !ended.aborted;
}

/** Waits for an event, or for the end of the stream. @param {EventTarget} target @param {string} event @param {AbortSignal} ended */
function next(target, event, ended) {
  return new Promise((resolve) => {
    target.addEventListener(event, resolve, { once: true, signal: ended });
    ended.addEventListener("abort", resolve, { once: true });
  });
}

/** @typedef {(event: string, data: any, id: string) => void} Receive */

/**
 * Returns the event that ended the stream, or "" where it broke off. Messages that have arrived together are handled in
 * several tasks.
 * @param {ReadableStream<Uint8Array>} body
 * @param {Receive} receive
 * @param {AbortSignal} ended
 */
async function read(body, receive, ended) {
  const decoder = /** @type {ReadableWritablePair<string, Uint8Array>} */ (/** @type {unknown} */ (new TextDecoderStream()));
  const reader = body.pipeThrough(decoder).getReader();
  const messagesOf = joined();
  let began = performance.now();
  for (;;) {
    const watchdog = setTimeout(() => reader.cancel(), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(watchdog));
    if (done) return "";
    for (const message of messagesOf(value)) {
      const event = /^event: (.*)$/m.exec(message)?.[1];
      const data = /^data: (.*)$/m.exec(message)?.[1];
      if (event === undefined || data === undefined) continue;
      receive(event, JSON.parse(data), /^id: (.*)$/m.exec(message)?.[1] ?? "");
      if (event === AGAIN || OVER.includes(event)) return event;
      if (performance.now() - began > TURN) {
        await new Promise((resolve) => setTimeout(resolve));
        began = performance.now();
      }
      if (ended.aborted) return "";
    }
  }
}

/** A function that takes the next piece of a stream and returns the messages that it completes; each piece is searched once. */
export function joined() {
  /** @type {string[]} */
  let pieces = [];
  let open = false;
  return (/** @type {string} */ piece) => {
    const complete = piece.includes("\n\n") || (open && piece.startsWith("\n"));
    open = piece.endsWith("\n");
    pieces.push(piece);
    if (!complete) return [];
    const messages = pieces.join("").split("\n\n");
    pieces = [/** @type {string} */ (messages.pop())];
    return messages;
  };
}
