// The attempts of a job side by side: when each began and ended, and which rank failed first in it.

import { h } from "./dom.js";
import { duration, moment, t } from "./i18n.js";
import { chip } from "./phases.js";
import { name as podName, restarts } from "./ranks.js";

const MOST = 12;

/**
 * @param {any[]} pods every pod of every attempt
 * @param {any[]} earlier earlier runs of the same name
 * @param {string} namespace
 * @param {(attempt: number) => void} showLogs
 */
export function attemptTable(pods, earlier, namespace, showLogs) {
  /** @type {Map<number, any[]>} */
  const groups = new Map();
  for (const pod of pods) groups.set(pod.attempt ?? 0, [...(groups.get(pod.attempt ?? 0) ?? []), pod]);
  const attempts = [...groups.keys()].sort((a, b) => b - a).slice(0, MOST);
  if (!attempts.length) return h("p", { class: "empty" }, t("No pods yet"));
  const facts = attempts.map((attempt) => factsOf(/** @type {any[]} */ (groups.get(attempt))));
  const row = (/** @type {string} */ title, /** @type {(fact: ReturnType<typeof factsOf>, place: number) => any} */ cell) =>
    h("tr", null, h("th", { scope: "row" }, t(title)), facts.map((fact, place) => h("td", { class: "message" }, cell(fact, place))));
  return h(
    "div",
    null,
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, h("th", { scope: "col" }, t("Attempt")), attempts.map((attempt, place) => h("th", { scope: "col" }, `${attempt}${place ? "" : ` (${t("newest")})`}`)))),
        h(
          "tbody",
          null,
          row("Began", (fact) => moment(fact.began)),
          row("Duration", (fact) => (fact.ended ? duration(fact.ended - fact.began) : t("running"))),
          row("Ranks", (fact) => h("span", { class: "row" }, [...fact.phases].map(([phase, count]) => h("span", null, `${count} `, chip(phase))))),
          row("Restarts", (fact) => fact.restarts),
          row("First failure", (fact) => (fact.first ? podName(fact.first.pod) : "–")),
          row("Exit code", (fact) => (fact.first ? `${fact.first.end.exitCode} ${fact.first.end.reason ?? ""}` : "–")),
          row("Message", (fact) => fact.first?.end.message ?? fact.first?.pod.message ?? "–"),
          row("Logs", (_, place) => h("button", { onclick: () => showLogs(attempts[place]) }, t("Show its logs"))),
        ),
      ),
    ),
    earlier.length ? h("h2", null, t("Earlier runs")) : null,
    earlier.length ? h("ul", null, earlier.map((run) => h("li", null, h("a", { href: `#/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(run.uid)}` }, moment(run.created)), " ", chip(run.phase)))) : null,
  );
}

/** @param {any[]} pods of one attempt */
function factsOf(pods) {
  /** @type {Map<string, number>} */
  const phases = new Map();
  /** @type {{pod: any, end: any} | null} */
  let first = null;
  let began = Infinity;
  let ended = 0;
  let running = false;
  let sum = 0;
  for (const pod of pods) {
    phases.set(pod.phase, (phases.get(pod.phase) ?? 0) + 1);
    began = Math.min(began, pod.createdAt);
    ended = Math.max(ended, pod.finishedAt ?? 0);
    running ||= !pod.finishedAt;
    sum += restarts(pod);
    for (const container of pod.containers ?? []) {
      for (const end of [container.last, container.ended]) {
        if (end && end.exitCode !== 0 && !end.stopped && (!first || end.finishedAt < first.end.finishedAt)) first = { pod, end };
      }
    }
  }
  return { phases, first, began, ended: running ? 0 : ended, restarts: sum };
}
