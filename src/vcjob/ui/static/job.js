// The page of one job: why it fails or waits first, then ranks, logs, events, timeline and the objects.

import { ApiError, get, jobPath, post, stream } from "./api.js";
import { fill, h, perFrame, whenChanged } from "./dom.js";
import { clock, duration, t } from "./i18n.js";
import { showLogs } from "./logs.js";
import { chip, kind, podBar } from "./phases.js";
import { name as podName, rankGrid } from "./ranks.js";

/** @type {[string, string, string][]} */
const ACTIONS = [
  ["suspend", "Suspend", "Its pods end; the job is kept and can be resumed."],
  ["resume", "Resume", "The pods of the job start again."],
  ["restart", "Restart", "All pods end and start again; this uses one retry."],
  ["complete", "Complete", "Its pods end and the job counts as Completed."],
  ["stop", "Stop", "The job ends."],
  ["delete", "Delete", "The job ends, and its logs and history are removed."],
];
const TABS = ["Logs", "Events", "Timeline", "Job", "Objects"];
const BARS = 200;
const NAMED = 12;

/**
 * @param {HTMLElement} root
 * @param {{namespace: string, name: string}} which
 * @param {{back: () => void, banner: (text: string) => void, readOnly: boolean, confirm: (title: string, text: string, action: string) => Promise<boolean>}} page
 */
export function showJob(root, which, page) {
  /** @type {any} */
  const parts = {};
  let tab = "Logs";
  const title = h("div", { class: "row" });
  const facts = h("p", { class: "dim facts" });
  const why = h("div");
  const ranks = h("div");
  const tabs = TABS.map((each) => h("button", { role: "tab", "aria-controls": "panel", onclick: () => openTab(each) }, t(each)));
  const body = h("div", { role: "tabpanel", id: "panel" });
  const back = h("a", { class: "back", href: "#/" }, `← ${t("Back to the list")}`);
  fill(root, back, title, facts, why, ranks, h("div", { class: "tabs", role: "tablist" }, tabs), body);
  const grid = rankGrid(ranks, (pod) => {
    if (tab !== "Logs") openTab("Logs");
    logs?.choose(pod?.rank ?? null);
  });
  /** @type {ReturnType<typeof showLogs> | null} */
  let logs = null;

  const draw = perFrame(() => {
    if (parts.job) {
      drawTitle(parts.job.name, parts.job.phase, parts.job.done);
      drawFacts(factsOf(parts.job), parts.job.replicas, parts.job.pods);
    }
    drawWhy(parts.findings, parts.failure, parts.notes, parts.job?.phase, parts.job?.reason, parts.job?.message);
    grid.blame(parts.failure);
    if (tab === "Events") fill(body, eventTable(parts.events ?? []));
    if (tab === "Timeline") fill(body, timeline(grid.pods(), parts.job));
  });

  const drawTitle = whenChanged(title, (/** @type {string} */ name, /** @type {string} */ phase, /** @type {boolean} */ done) => [
    h("h1", null, name),
    chip(phase),
    h("span", { class: "space" }),
    ...(page.readOnly ? [] : ACTIONS.filter(([verb]) => possible(verb, { phase, done })).map(([verb, label, text]) =>
      h("button", { class: verb === "delete" || verb === "stop" ? "danger" : "", onclick: () => act(verb, label, text) }, t(label)),
    )),
  ]);
  const drawFacts = whenChanged(facts, (/** @type {string} */ text, /** @type {number} */ replicas, /** @type {any} */ pods) => [podBar({ replicas, pods }), text]);
  const drawWhy = whenChanged(why, (/** @type {any[]} */ ..._) => findings());

  /** @param {any} job */
  function factsOf(job) {
    const ended = job.finished ?? Date.now() / 1000;
    const took = job.started ? ` · ${t("Duration")}: ${duration(ended - job.started)}` : "";
    const earlier = (parts.earlier ?? []).length ? ` · ${t("Earlier runs")}: ${parts.earlier.length}` : "";
    const up = `${job.pods.running + job.pods.succeeded}/${job.replicas}`;
    const progress = parts.progress ? ` · ${parts.progress}` : "";
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
    try {
      await post(`${jobPath(which)}/actions/${verb}`);
      if (verb === "delete") page.back();
    } catch (error) {
      page.banner(error instanceof ApiError ? [error.message, error.hint].filter(Boolean).join(" — ") : String(error));
    }
  }

  /** One panel that says why the job fails or waits, then the notes. */
  function findings() {
    const shown = [];
    const { job, failure, findings: found = [], notes = [] } = parts;
    const look = kind(job?.phase ?? "");
    const culprit = failure?.culprit;
    const reason = job?.reason && ["wait", "bad"].includes(look);
    if (found.length || culprit || reason) {
      const bad = culprit || look === "bad";
      shown.push(
        h(
          "section",
          { class: `panel ${bad ? "bad" : "wait"}` },
          h("h2", null, t(bad ? "Why it failed" : look === "wait" ? "What it waits for" : "What stands out")),
          found.flatMap(finding),
          found.length ? null : culprit ? firstFailure(culprit) : h("p", null, h("b", null, job.reason), " ", job.message),
          culprit?.stderr?.length ? h("details", { open: true }, h("summary", null, `${t("Last lines")}: ${who(culprit)}`), h("pre", { tabindex: "0" }, culprit.stderr.slice(-12).join("\n"))) : null,
          failure?.victims?.length ? h("p", { class: "dim" }, `${t("Ended because of it")}: ${some(failure.victims)}`) : null,
        ),
      );
    }
    if (notes.length) shown.push(h("details", { class: "dim notes" }, h("summary", null, `${t("Notes")} (${notes.length})`), h("ul", null, notes.map((/** @type {string} */ note) => h("li", null, note)))));
    return shown;
  }

  /** @param {string} chosen */
  async function openTab(chosen) {
    tab = chosen;
    logs?.close();
    logs = null;
    tabs.forEach((button, place) => button.setAttribute("aria-selected", String(TABS[place] === tab)));
    fill(body);
    if (tab === "Logs") logs = showLogs(body, which, page);
    else if (tab === "Job" || tab === "Objects") {
      try {
        const { text } = await get(`${jobPath(which)}/manifest/${tab.toLowerCase()}`);
        if (tab === chosen) fill(body, h("pre", { tabindex: "0" }, text));
      } catch (error) {
        fill(body, h("p", null, error instanceof Error ? error.message : String(error)));
      }
    } else draw();
  }

  const stop = stream(
    `${jobPath(which)}/stream`,
    (event, data) => {
      if (event === "pods") grid.update(data);
      else if (event === "gone") page.banner(data.message);
      else parts[event] = data;
      draw();
    },
    (state) => page.banner(state === "open" ? "" : state === "lost" ? t("The connection was lost; trying again …") : state.message),
  );
  const tick = setInterval(draw, 5000);
  openTab("Logs");
  return {
    close: () => { stop(); clearInterval(tick); logs?.close(); },
    /** @param {string} key */
    key(key) {
      if (key === "/") { if (tab !== "Logs") openTab("Logs"); logs?.focus(); }
      else if (key === "Escape") page.back();
      else return false;
      return true;
    },
  };
}

/** @param {any} each */
function finding(each) {
  const evidence = (each.evidence ?? []).map((/** @type {any} */ item) => `${item.source}: ${item.text}`);
  return [
    h("p", null, h("b", null, each.message), " ", h("span", { class: "chip" }, each.cause)),
    each.hint ? h("p", null, each.hint) : null,
    evidence.length ? h("details", null, h("summary", null, t("Evidence")), h("pre", { tabindex: "0" }, evidence.join("\n"))) : null,
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

/** @param {string[]} names */
function some(names) {
  const more = names.length - NAMED;
  return names.slice(0, NAMED).join(", ") + (more > 0 ? ` … (+${more})` : "");
}

/** @param {any[]} events */
function eventTable(events) {
  if (!events.length) return h("p", { class: "empty" }, t("No events"));
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, ["Time", "Type", "Reason", "Message"].map((each) => h("th", { scope: "col" }, t(each))))),
      h(
        "tbody",
        null,
        [...events].reverse().map((event) =>
          h("tr", null, h("td", { class: "dim" }, clock(event.time)), h("td", null, h("span", { class: `chip ${event.type === "Warning" ? "bad" : ""}` }, event.type)), h("td", null, event.reason), h("td", { class: "message" }, event.message)),
        ),
      ),
    ),
  );
}

/** Bars from creation to the end of each pod. @param {any[]} pods @param {any} job */
function timeline(pods, job) {
  const known = pods.filter((pod) => pod.createdAt);
  if (!known.length || !job) return h("p", { class: "empty" }, t("No events"));
  const now = Date.now() / 1000;
  const first = Math.min(...known.map((pod) => pod.createdAt));
  const last = Math.max(...known.map((pod) => pod.finishedAt ?? (job.done ? (job.finished ?? now) : now)), first + 0.001);
  const place = (/** @type {number} */ moment) => `${(100 * (moment - first)) / (last - first)}%`;
  const rows = h("div", { class: "times" });
  for (const pod of known.slice(0, BARS)) {
    const track = h("div", { class: "track", role: "img", "aria-label": `${podName(pod)}: ${duration((pod.finishedAt ?? now) - pod.createdAt)}` });
    const begun = pod.startedAt ?? pod.finishedAt ?? last;
    for (const [from, to, look] of [[pod.createdAt, begun, "wait"], [begun, pod.finishedAt ?? last, kind(pod.phase)]]) {
      const bar = h("i", { class: String(look) });
      bar.style.left = place(Number(from));
      bar.style.width = `calc(${place(Number(to))} - ${place(Number(from))})`;
      track.append(bar);
    }
    rows.append(h("span", null, podName(pod)), track);
  }
  const more = known.length > BARS ? h("p", { class: "dim" }, `${BARS} ${t("of")} ${known.length}`) : null;
  return h("div", null, h("p", { class: "dim" }, `${clock(first)} – ${clock(last)} (${duration(last - first)})`), rows, more);
}
