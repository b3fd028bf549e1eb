// How phases and pods look: one of five colours, the same everywhere.

import { h } from "./dom.js";
import { language, t } from "./i18n.js";

/** @type {Map<string, string>} */
const KINDS = new Map([
  ["Pending", "wait"], ["Restarting", "wait"], ["Aborting", "wait"], ["Terminating", "wait"], ["Unknown", "wait"],
  ["Running", "run"], ["Completing", "run"], ["Completed", "ok"], ["Succeeded", "ok"], ["Failed", "bad"], ["Damaged", "bad"],
  ["Terminated", "idle"], ["Aborted", "idle"],
]);

/** @param {string} phase */
export function kind(phase) {
  return KINDS.get(phase) ?? "idle";
}

/** @param {string} phase */
export function chip(phase) {
  return h("span", { class: `chip ${kind(phase)}`, title: language() === "en" ? null : phase }, t(phase));
}

/** A bar of how many pods are in each state. @param {any} job */
export function podBar(job) {
  const total = Math.max(job.replicas, 1);
  const parts = [["ok", job.pods.up - job.pods.running], ["run", job.pods.running], ["bad", job.pods.failed], ["wait", job.pods.pending]];
  const bar = h("span", { class: "bar", "aria-hidden": "true" });
  for (const [name, count] of parts) {
    if (!count) continue;
    const part = h("i", { class: String(name) });
    part.style.width = `${(100 * Number(count)) / total}%`;
    bar.append(part);
  }
  return bar;
}
