// When things happened: the events of a job, and bars of when each rank waited and ran.

import { h } from "./dom.js";
import { clock, duration, t } from "./i18n.js";
import { kind } from "./phases.js";
import { name as podName } from "./ranks.js";

const BARS = 200;

/** @param {any[]} events */
export function eventTable(events) {
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
export function timeline(pods, job) {
  const known = pods.filter((pod) => pod.createdAt);
  if (!known.length || !job) return h("p", { class: "empty" }, t("No events"));
  const now = Date.now() / 1000;
  const ends = known.map((pod) => pod.finishedAt ?? (job.done ? (job.finished ?? now) : now));
  const first = known.reduce((least, pod) => Math.min(least, pod.createdAt), Infinity);
  const last = ends.reduce((most, end) => Math.max(most, end), first + 0.001);
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
