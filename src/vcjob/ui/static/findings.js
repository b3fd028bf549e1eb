// The top of a job's page: why it failed, what it waits for, or what stands out while it runs.

import { h, plain } from "./dom.js";
import { meaning, t } from "./i18n.js";
import { kind } from "./phases.js";

const NAMED = 12;

/** One panel that says why the job fails or waits, then what could not be read, and the notes. @param {any} parts */
export function findingPanels({ job, failure, findings = [], notes = [], missing = [] }) {
  const shown = [];
  const look = kind(job?.phase ?? "");
  const culprit = failure?.culprit;
  const reason = job?.reason && ["wait", "bad"].includes(look);
  if (findings.length || culprit || reason) {
    const bad = culprit || look === "bad";
    shown.push(
      h(
        "section",
        { class: `panel ${bad ? "bad" : "wait"}` },
        h("h2", null, t(bad ? "Why it failed" : look === "wait" ? "What it waits for" : "What stands out")),
        findings.flatMap(finding),
        findings.length ? null : culprit ? firstFailure(culprit) : h("p", null, h("b", null, job.reason), " ", meaning(job.reason), " ", job.message),
        culprit?.stderr?.length ? h("details", { open: true }, h("summary", null, `${t("Last lines")}: ${who(culprit)}`), h("pre", { tabindex: "0" }, plain(culprit.stderr.slice(-12).join("\n")))) : null,
        failure?.victims?.length ? h("p", { class: "dim" }, `${t("Ended because of it")}: ${some(failure.victims)}`) : null,
      ),
    );
  }
  if (missing.length) shown.push(h("section", { class: "panel wait" }, h("h2", null, t("What you may not see")), missing.map((/** @type {string} */ text) => h("p", null, text))));
  if (notes.length) shown.push(h("details", { class: "dim notes" }, h("summary", null, `${t("Notes")} (${notes.length})`), h("ul", null, notes.map((/** @type {string} */ note) => h("li", null, note)))));
  return shown;
}

/** @param {any} each */
function finding(each) {
  const evidence = (each.evidence ?? []).map((/** @type {any} */ item) => `${item.source}: ${item.text}`);
  return [
    h("p", null, h("b", null, each.message), " ", h("span", { class: "chip" }, each.cause), " ", meaning(each.cause)),
    each.hint ? h("p", null, each.hint) : null,
    evidence.length ? h("details", null, h("summary", null, t("Evidence")), h("pre", { tabindex: "0" }, plain(evidence.join("\n")))) : null,
  ];
}

/** @param {any} culprit */
function who(culprit) {
  const pod = `${culprit.task}-${culprit.index}`;
  return culprit.rank === null || culprit.rank === undefined ? pod : `rank ${culprit.rank} (${pod})`;
}

/** @param {any} culprit */
function firstFailure(culprit) {
  return [
    h("p", null, h("b", null, who(culprit)), `: ${culprit.signal ?? `${t("Exit code")} ${culprit.exitCode}`}, ${t("Container")} ${culprit.container}`),
    culprit.exception ? h("p", { class: "mono" }, culprit.exception) : null,
    culprit.frame ? h("p", { class: "mono dim" }, culprit.frame) : null,
  ];
}

/** The grid shows which they are: ranks that follow each other are one range. @param {string[]} names */
function some(names) {
  const ranks = names.flatMap((each) => /^rank (\d+) /.exec(each)?.[1] ?? []).map(Number).sort((a, b) => a - b);
  /** @type {[number, number][]} */
  const ranges = [];
  for (const rank of ranks) {
    const last = ranges.at(-1);
    if (last && rank === last[1] + 1) last[1] = rank;
    else ranges.push([rank, rank]);
  }
  const shown = ranges.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  if (shown.length) shown[0] = `${ranks.length > 1 ? "ranks" : "rank"} ${shown[0]}`;
  shown.push(...names.filter((each) => !/^rank \d+ /.test(each)));
  const more = shown.length - NAMED;
  return shown.slice(0, NAMED).join(", ") + (more > 0 ? ` … (+${more})` : "");
}
