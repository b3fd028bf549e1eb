// When things happened: the events of a job, and bars of when each rank waited and ran.

import { fill, h, perFrame } from "./dom.js";
import { clock, duration, moment, t } from "./i18n.js";
import { kind } from "./phases.js";
import { byRank, name as podName } from "./ranks.js";

const BARS = 200;
/** New bars per frame, so that the page answers while a long timeline is built. */
const NEW_PER_FRAME = 100;

/** @param {any[]} events */
export function eventTable(events) {
  if (!events.length) return h("p", { class: "empty" }, t("No events"));
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "events" },
      h("thead", null, h("tr", null, ["Time", "Type", "Object", "Reason", "Message"].map((each) => h("th", { scope: "col" }, t(each))))),
      h("tbody", null, [...events].reverse().map(eventRow)),
    ),
  );
}

/** @param {any} event */
function eventRow(event) {
  const often = event.count > 1 && h("span", { class: "chip", title: event.first && `${t("First")}: ${moment(event.first)}` }, `×${event.count}`);
  return h(
    "tr",
    null,
    h("td", { class: "dim when" }, moment(event.time)),
    h("td", null, h("span", { class: `chip ${event.type === "Warning" ? "bad" : ""}` }, t(event.type === "Warning" ? "Warning" : "Normal"))),
    h("td", { class: "message" }, event.object || t("Job")),
    h("td", null, event.reason, " ", often),
    h("td", { class: "message" }, event.message),
  );
}

/**
 * Bars from creation to the end of each pod, of the newest attempts or of all. Returns what draws them again.
 * @param {HTMLElement} root
 * @param {{pods: () => any[], all: () => any[], job: () => any}} source
 */
export function showTimeline(root, source) {
  let every = false;
  let most = BARS;
  const span = h("p", { class: "dim" });
  const bars = h("div", { class: "times" });
  const attempts = h("button", { "aria-pressed": "false", onclick: () => { every = !every; draw(); } }, t("All attempts"));
  const more = h("button", { hidden: true, onclick: () => { most = Infinity; draw(); } }, t("Show all"));
  fill(root, h("div", { class: "row" }, attempts, span), bars, more);
  /** @type {ReturnType<typeof bar>[]} */
  const rows = [];

  const draw = perFrame(() => {
    const known = (every ? source.all() : source.pods()).filter((pod) => pod.createdAt);
    known.sort((a, b) => byRank(a, b) || (a.attempt ?? 0) - (b.attempt ?? 0));
    const job = source.job();
    const several = source.all().some((pod) => pod.attempt);
    attempts.hidden = !several;
    attempts.setAttribute("aria-pressed", String(every));
    if (!known.length || !job) {
      for (const row of rows.splice(0)) { row.label.remove(); row.track.remove(); }
      more.hidden = true;
      span.textContent = t("No pods yet");
      return;
    }
    const now = job.done ? (job.finished ?? Date.now() / 1000) : Date.now() / 1000;
    const first = known.reduce((least, pod) => Math.min(least, pod.createdAt), Infinity);
    const last = known.reduce((latest, pod) => Math.max(latest, pod.finishedAt ?? now), first + 0.001);
    span.textContent = `${moment(first)} – ${clock(last)} (${duration(last - first)})`;
    const wanted = Math.min(known.length, most);
    const shown = known.slice(0, Math.min(wanted, rows.length + NEW_PER_FRAME));
    while (rows.length < shown.length) {
      const row = bar();
      rows.push(row);
      bars.append(row.label, row.track);
    }
    for (const row of rows.splice(shown.length)) { row.label.remove(); row.track.remove(); }
    shown.forEach((pod, place) => rows[place].update(pod, several, first, last, now));
    more.hidden = known.length <= most;
    more.textContent = `${t("Show all")} (${known.length})`;
    if (shown.length < wanted) draw();
  });
  draw();
  return { draw };
}

/** The label and the bars of one pod; only what has changed is written. */
function bar() {
  const label = h("span");
  const waited = h("i", { class: "wait" });
  const ran = h("i");
  const track = h("div", { class: "track", role: "img" }, waited, ran);
  return {
    label,
    track,
    /** @param {any} pod @param {boolean} several attempts @param {number} first @param {number} last @param {number} now */
    update(pod, several, first, last, now) {
      const end = pod.finishedAt ?? now;
      const begun = pod.startedAt ?? end;
      const text = podName(pod) + (several ? `, ${t("Attempt")} ${pod.attempt ?? 0}` : "");
      const place = (/** @type {number} */ time) => (100 * (time - first)) / (last - first);
      const states = `${t("waited")} ${duration(begun - pod.createdAt)}, ${t("ran")} ${duration(end - begun)}, ${t(pod.phase)}`;
      if (label.textContent !== text) label.textContent = text;
      if (track.title !== states) track.title = states;
      if (track.ariaLabel !== `${text}: ${states}`) track.ariaLabel = `${text}: ${states}`;
      ran.className = kind(pod.phase);
      waited.style.left = `${place(pod.createdAt)}%`;
      waited.style.width = `${place(begun) - place(pod.createdAt)}%`;
      ran.style.left = `${place(begun)}%`;
      ran.style.width = `${place(end) - place(begun)}%`;
    },
  };
}
