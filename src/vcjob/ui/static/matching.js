// The two ways to filter lines: words in this thread, and the user's regular expressions in a worker with a time limit.

import { t } from "./i18n.js";

/** How long a regular expression may take for one slice of lines, also where the machine is busy. */
const LIMIT = 5000;
/** What is matched of one line by a regular expression. */
const WIDEST = 2000;

/** @typedef {{who: string, text: string}} Line */
/** The places of the lines that match. @typedef {(lines: Line[]) => Promise<number[]>} Match */

const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("vcjob", { createScriptURL: (/** @type {string} */ path) => path });

/** @param {string} wanted @returns {Match} */
export function containing(wanted) {
  const lower = wanted.toLowerCase();
  return async (lines) => lines.flatMap((line, place) => (line.text.toLowerCase().includes(lower) || line.who.includes(lower) ? [place] : []));
}

/** One worker for the expressions of one log; it is started when the first one is used. */
export function expressions() {
  /** @type {Promise<Worker> | null} */
  let worker = null;

  function start() {
    return /** @type {Promise<Worker>} */ (new Promise((resolve, reject) => {
      const started = new Worker(policy ? policy.createScriptURL("/static/match.js") : "/static/match.js");
      started.onmessage = () => resolve(started);
      started.onerror = () => { worker = null; reject(new Error(t("The connection was lost; trying again …"))); };
    }));
  }

  function end() {
    worker?.then((running) => running.terminate(), () => {});
    worker = null;
  }

  return {
    end,
    /** A match; it rejects if the expression takes too long. @param {string} pattern a valid expression @returns {Match} */
    matching: (pattern) => async (lines) => {
      const running = await (worker ??= start());
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => { end(); reject(new Error(t("The expression takes too long"))); }, LIMIT);
        running.onmessage = (event) => { clearTimeout(timer); resolve(event.data); };
        running.postMessage({ pattern, lines: lines.map((line) => line.text.slice(0, WIDEST)) });
      });
    },
  };
}
