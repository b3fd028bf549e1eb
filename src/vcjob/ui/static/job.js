// The page of one job: why it fails or waits first, then charts, ranks, and the tabs.

import { connectionText, get, jobPath, post, sentence, stream } from "./api.js";
import { attemptTable } from "./attempts.js";
import { progressCharts } from "./charts.js";
import { fill, h, perFrame, whenChanged } from "./dom.js";
import { findingPanels } from "./findings.js";
import { duration, t } from "./i18n.js";
import { showLogs } from "./logs.js";
import { showManifests } from "./manifests.js";
import { chip, podBar } from "./phases.js";
import { rankGrid } from "./ranks.js";
import { showRankTable } from "./ranktable.js";
import { showStacks } from "./stacks.js";
import { eventTable, showTimeline } from "./times.js";
import { progressText } from "./usage.js";

/** @type {[string, string, string][]} */
const ACTIONS = [
  ["suspend", "Suspend", "Its pods end; the job is kept and can be resumed."],
  ["resume", "Resume", "The pods of the job start again."],
  ["restart", "Restart", "All pods end and start again; this uses one retry."],
  ["complete", "Complete", "Its pods end and the job counts as Completed."],
  ["stop", "Stop", "The job ends."],
  ["delete", "Delete", "The job ends, and its logs and history are removed."],
];
const TABS = ["Logs", "Ranks", "Events", "Timeline", "Attempts", "Stacks", "Manifest"];

/**
 * @param {HTMLElement} root
 * @param {{namespace: string, name: string}} which
 * @param {{back: () => void, banner: (text: string, source?: string) => void, readOnly: boolean, confirm: (title: string, text: string, action: string) => Promise<boolean>, state?: {tab: string, pod: string, logs: any}}} page
 */
export function showJob(root, which, page) {
  /** @type {any} */
  const parts = { usage: { pods: {}, note: "" } };
  /** @type {Record<string, string>} */
  let denied = {};
  let tab = page.state?.tab ?? "Logs";
  /** Filter and choice of the logs, also while another tab is shown. */
  let kept = page.state?.logs;
  const title = h("div", { class: "row" }, h("h1", null, which.name));
  const refusals = h("p", { class: "dim", id: "refusals", hidden: true });
  const facts = h("p", { class: "dim facts" });
  const why = h("div");
  const charts = progressCharts(h("div", { class: "charts", hidden: true }));
  const ranks = h("div");
  const tabs = TABS.map((each) => h("button", { role: "tab", id: `tab-${each}`, "aria-controls": "panel", onclick: () => openTab(each) }, t(each)));
  const list = h("div", { class: "tabs", role: "tablist", onkeydown: move }, tabs);
  const body = h("div", { role: "tabpanel", id: "panel" });
  const back = h("a", { class: "back", href: "#/" }, `← ${t("Back to the list")}`);
  fill(root, back, title, refusals, facts, why, charts.element, ranks, list, body);
  const grid = rankGrid(ranks, (pod) => {
    if (tab !== "Logs") openTab("Logs");
    logs?.choose({ pod });
  }, page.state?.pod);
  /** @type {ReturnType<typeof showLogs> | null} */
  let logs = null;
  /** Draws the open tab again after a change, where it shows something that changes. */
  let drawTab = () => {};

  const draw = perFrame(() => {
    if (parts.job) {
      drawTitle(parts.job.name, parts.job.phase, parts.job.done, denied);
      drawFacts(factsOf(parts.job), parts.job.replicas, parts.job.pods);
    }
    drawWhy({ job: parts.job && { phase: parts.job.phase, reason: parts.job.reason, message: parts.job.message }, failure: parts.failure, findings: parts.findings, notes: parts.notes, missing: parts.missing });
    charts.update(parts.history ?? []);
    grid.blame(parts.failure);
    drawTab();
  });

  const drawTitle = whenChanged(title, (/** @type {string} */ name, /** @type {string} */ phase, /** @type {boolean} */ done, /** @type {Record<string, string>} */ refused) => {
    const shown = page.readOnly ? [] : ACTIONS.filter(([verb]) => possible(verb, { phase, done }));
    const reasons = [...new Set(shown.flatMap(([verb]) => refused[verb] ?? []))];
    refusals.hidden = !reasons.length;
    refusals.textContent = reasons.join("; ");
    return [
      h("h1", null, name),
      chip(phase),
      h("span", { class: "space" }),
      ...shown.map(([verb, label, text]) =>
        h("button", { class: verb === "delete" || verb === "stop" ? "danger" : "", disabled: verb in refused, title: refused[verb], "aria-describedby": verb in refused ? "refusals" : null, onclick: () => act(verb, label, text) }, t(label)),
      ),
    ];
  });
  const drawFacts = whenChanged(facts, (/** @type {string} */ text, /** @type {number} */ replicas, /** @type {any} */ pods) => [podBar({ replicas, pods }), text]);
  const drawWhy = whenChanged(why, (/** @type {any} */ shown) => findingPanels(shown));

  /** @param {any} job */
  function factsOf(job) {
    const ended = job.finished ?? Date.now() / 1000;
    const took = job.started ? ` · ${t("Duration")}: ${duration(ended - job.started)}` : "";
    const earlier = (parts.earlier ?? []).length ? ` · ${t("Earlier runs")}: ${parts.earlier.length}` : "";
    const up = `${job.pods.up}/${job.replicas}`;
    const progress = job.progress ? ` · ${progressText(job.progress.text)}` : "";
    return `${up}${progress} · ${job.namespace} · ${t("Restarts")}: ${job.restarts} · ${t("Age")}: ${duration(Date.now() / 1000 - job.created)}${took}${earlier}`;
  }

  /** @param {string} verb @param {any} job */
  function possible(verb, job) {
    const suspended = job.phase === "Aborted" || job.phase === "Aborting";
    if (verb === "delete") return true;
    if (job.done) return false;
    return verb === "resume" ? suspended : verb === "suspend" ? !suspended : true;
  }

  /** @param {string} verb @param {string} label @param {string} text */
  async function act(verb, label, text) {
    if (!(await page.confirm(`${t(label)}: ${which.name}`, t(text), t(label)))) return;
    page.banner("");
    try {
      await post(`${jobPath(which)}/actions/${verb}`);
      if (verb === "delete") page.back();
    } catch (error) {
      page.banner(sentence(error));
    }
  }

  /** The arrow keys open the tab next to the one that has the focus. @param {KeyboardEvent} event */
  function move(event) {
    const at = tabs.indexOf(/** @type {HTMLElement} */ (event.target));
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    openTab(/** @type {string} */ (TABS.at(to % TABS.length)));
    tabs.at(to % TABS.length)?.focus();
  }

  function closeLogs() {
    kept = logs?.state() ?? kept;
    logs?.close();
    logs = null;
  }

  /** @param {string} chosen */
  function openTab(chosen) {
    tab = chosen;
    closeLogs();
    drawTab = () => {};
    tabs.forEach((button, place) => {
      button.setAttribute("aria-selected", String(TABS[place] === tab));
      button.tabIndex = TABS[place] === tab ? 0 : -1;
    });
    body.setAttribute("aria-labelledby", `tab-${tab}`);
    fill(body);
    if (tab === "Logs") {
      const shown = (logs = showLogs(body, which, page, kept));
      drawTab = () => shown.offer(grid.all());
    } else if (tab === "Ranks") drawTab = showRankTable(body, { pods: grid.pods, usage: () => parts.usage, choose: grid.select }).draw;
    else if (tab === "Stacks") showStacks(body, which, page.readOnly);
    else if (tab === "Manifest") showManifests(body, which);
    else if (tab === "Events") drawTab = drawn((/** @type {any} */ events) => eventTable(events), () => [parts.events ?? []]);
    else if (tab === "Timeline") drawTab = showTimeline(body, { pods: grid.pods, all: grid.all, job: () => parts.job }).draw;
    else drawTab = drawn((/** @type {any} */ pods, /** @type {any} */ earlier) => attemptTable(pods, earlier, which.namespace, showAttempt), () => [grid.all(), parts.earlier ?? []]);
    drawTab();
  }

  /** @param {(...values: any[]) => HTMLElement} build @param {() => any[]} values */
  function drawn(build, values) {
    const update = whenChanged(body, (/** @type {any[]} */ ...now) => [build(...now)]);
    return () => update(...values());
  }

  /** @param {number} attempt */
  function showAttempt(attempt) {
    openTab("Logs");
    logs?.choose({ attempt });
  }

  /** The job was started again under its name: shows the new run. */
  function showNewRun() {
    if (logs) logs.choose({ pod: null, attempt: "" });
    else {
      kept &&= { ...kept, choice: { ...kept.choice, pod: null, attempt: "" } };
      openTab(tab);
    }
  }

  const stop = stream(
    `${jobPath(which)}/stream`,
    (event, data) => {
      if (event === "job" && parts.job && parts.job.uid !== data.uid) showNewRun();
      if (event === "pods") grid.update(data);
      else if (event === "gone") page.banner(data.message, "job");
      else if (event === "trouble") page.banner(data ? [data.message, data.hint].filter(Boolean).join(" — ") : "", "job");
      else parts[event] = data;
      if (event === "usage") grid.usage(data.pods);
      draw();
    },
    (state) => page.banner(connectionText(state), "job"),
  );
  const tick = setInterval(draw, 5000);
  if (!page.readOnly) get(`/api/denied/${encodeURIComponent(which.namespace)}`).then((found) => { denied = found.denied; draw(); }, () => {});
  openTab(tab);
  return {
    close: () => { stop(); clearInterval(tick); logs?.close(); },
    state: () => ({ tab, pod: grid.chosen(), logs: logs?.state() ?? kept }),
    /** @param {string} key */
    key(key) {
      if (key === "/") { if (tab !== "Logs") openTab("Logs"); logs?.focus(); }
      else if (key === "Escape") { if (!logs?.clear()) page.back(); }
      else return false;
      return true;
    },
  };
}
