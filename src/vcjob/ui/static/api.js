// Requests to the server. The token comes in the fragment of the URL, is kept for this tab, and leaves it in a header only.

const KEY = "vcjob-token";
const RETRY = [500, 1000, 2000, 5000];
/** The server sends something every 15 seconds; a connection that is silent for longer than this is dead. */
const SILENCE = 40_000;

let token = sessionStorage.getItem(KEY) ?? "";
const tabs = new BroadcastChannel(KEY);

/** @param {string} given */
function keep(given) {
  token = given;
  sessionStorage.setItem(KEY, given);
}

/** Takes the token out of the address, for this tab and for those that a restarted server has locked out. */
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return false;
  keep(given);
  tabs.postMessage(given);
  history.replaceState(null, "", `${location.pathname}#/`);
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

/** An answer with an error: its message and hint are for people. */
export class ApiError extends Error {
  /** @param {number} status @param {{message: string, hint?: string, problems?: any[]}} error */
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.hint = error.hint;
    this.problems = error.problems ?? [];
  }
}

/** @param {string} path @param {RequestInit} [options] */
async function request(path, options = {}) {
  // Behind an authenticating proxy there is no token, and this header may be the proxy's own.
  const headers = token ? { ...options.headers, Authorization: `Bearer ${token}` } : options.headers;
  const response = await fetch(path, { ...options, headers });
  if (!response.ok) {
    const body = await response.json().catch(() => ({ error: { message: response.statusText } }));
    throw new ApiError(response.status, body.error);
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

/** @param {string} path @returns {Promise<Blob>} */
export async function download(path) {
  return (await request(path)).blob();
}

/** An error as one line for people. @param {unknown} error */
export function sentence(error) {
  if (error instanceof ApiError) return [error.message, error.hint].filter(Boolean).join(" — ");
  return error instanceof Error ? error.message : String(error);
}

/** The path of a job in the interface. @param {{namespace: string, name: string}} job */
export function jobPath(job) {
  return `/api/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;
}

/**
 * Server-sent events that come back after a disconnect. `receive` gets (event, data); `state` gets "open", "lost" or an
 * ApiError. Returns a function that ends the stream.
 * @param {string} path
 * @param {(event: string, data: any) => void} receive
 * @param {(state: "open" | "lost" | ApiError) => void} [state]
 */
export function stream(path, receive, state = () => {}) {
  const abort = new AbortController();
  let failures = 0;
  const run = async () => {
    while (!abort.signal.aborted) {
      try {
        const response = await request(path, { signal: abort.signal });
        failures = 0;
        state("open");
        if (await read(/** @type {ReadableStream<Uint8Array>} */ (response.body), receive)) return;
      } catch (error) {
        if (abort.signal.aborted) return;
        if (error instanceof ApiError && error.status !== 503) {
          state(error);
          return;
        }
      }
      if (abort.signal.aborted) return;
      state("lost");
      await new Promise((resolve) => setTimeout(resolve, RETRY[Math.min(failures++, RETRY.length - 1)]));
    }
  };
  run();
  return () => abort.abort();
}

/** True if the server said that nothing more will come. @param {ReadableStream<Uint8Array>} body @param {(event: string, data: any) => void} receive */
async function read(body, receive) {
  const decoder = /** @type {ReadableWritablePair<string, Uint8Array>} */ (/** @type {unknown} */ (new TextDecoderStream()));
  const reader = body.pipeThrough(decoder).getReader();
  let rest = "";
  for (;;) {
    const watchdog = setTimeout(() => reader.cancel(), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(watchdog));
    if (done) return false;
    const messages = (rest + value).split("\n\n");
    rest = /** @type {string} */ (messages.pop());
    for (const message of messages) {
      const event = /^event: (.*)$/m.exec(message)?.[1];
      const data = /^data: (.*)$/m.exec(message)?.[1];
      if (event === undefined || data === undefined) continue;
      receive(event, JSON.parse(data));
      if (event === "end" || event === "gone") return true;
    }
  }
}
