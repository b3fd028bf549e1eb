// The list of jobs: filter, sort, search; j and k move, Enter opens.

import { connectionText, stream } from "./api.js";
import { fill, h, perFrame } from "./dom.js";
import { duration, t } from "./i18n.js";
import { chip, kind, podBar } from "./phases.js";
import { progressText } from "./usage.js";

/** @type {[string, string, (job: any) => any][]} */
const COLUMNS = [
  ["Phase", "phase", (job) => job.phase],
  ["Name", "name", (job) => `${job.namespace}/${job.name}`],
  ["Reason", "reason", (job) => job.reason],
  ["Ranks", "replicas", (job) => job.replicas],
  ["Progress", "progress", (job) => -(job.progress?.percent ?? -1)],
  ["Age", "created", (job) => -job.created],
];
/** @type {[string, (job: any) => boolean][]} */
const FILTERS = [
  ["All", () => true],
  ["pending", (job) => job.phase === "Pending"],
  ["running", (job) => ["run", "wait"].includes(kind(job.phase)) && job.phase !== "Pending" && !job.done],
  ["succeeded", (job) => job.phase === "Completed"],
  ["failed", (job) => job.phase === "Failed"],
];

/**
 * Shows the list in an element; returns what the page needs to know of it.
 * @param {HTMLElement} root
 * @param {{open: (job: any) => void, banner: (text: string, source?: string) => void, limit: (only: any) => void, state?: {search: string, filter: number, sort: number, down: boolean, chosen: string}}} page
 */
export function showList(root, page) {
  /** @type {any[] | null} */
  let jobs = null;
  let { filter, sort, down, chosen } = page.state ?? { filter: 0, sort: 5, down: false, chosen: "" };
  let moved = false;
  const search = /** @type {HTMLInputElement} */ (
    h("input", { type: "search", class: "grow", placeholder: t("Search jobs"), "aria-label": t("Search jobs"), value: page.state?.search ?? "", oninput: () => draw() })
  );
  const filters = FILTERS.map(([name], place) => h("button", { onclick: () => { filter = place; draw(); } }, t(name)));
  const body = h("tbody");
  const heads = COLUMNS.map(([name], place) =>
    h("th", { scope: "col", class: name === "Reason" || name === "Progress" ? "wide" : "" }, h("button", { onclick: () => { down = place === sort ? !down : false; sort = place; draw(); } }, t(name))),
  );
  /** @type {Map<string, {of: string, row: HTMLElement, age: HTMLElement}>} */
  let rows = new Map();
  const table = h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, heads)), body));
  const empty = h("div", { class: "empty" });
  const note = h("p", { class: "dim", hidden: true });
  fill(root, h("h1", null, t("Jobs")), note, h("div", { class: "row" }, search, h("div", { class: "row", role: "group", "aria-label": t("Phase") }, filters)), table, empty);

  const shown = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (/** @type {any} */ job) => {
      const text = `${job.namespace}/${job.name} ${job.phase} ${t(job.phase)} ${job.reason} ${job.message}`.toLowerCase();
      return FILTERS[filter][1](job) && words.every((word) => text.includes(word));
    };
    const key = COLUMNS[sort][2];
    const found = (jobs ?? []).filter(matches).sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
    return down ? found.reverse() : found;
  };

  const draw = perFrame(() => {
    filters.forEach((button, place) => button.setAttribute("aria-pressed", String(place === filter)));
    heads.forEach((cell, place) => cell.setAttribute("aria-sort", place === sort ? (down ? "descending" : "ascending") : "none"));
    const found = shown();
    drawRows(found);
    table.hidden = found.length === 0;
    empty.hidden = found.length > 0 || jobs === null;
    if (jobs !== null && jobs.length === 0) {
      fill(empty, h("p", null, t("No jobs yet")), h("p", null, t("Start one with"), " ", h("code", { class: "mono" }, "vcjob run job.yaml")));
    } else fill(empty, t("No job matches"));
  });

  /** Rows that stay the same are kept, with the focus and the click in them. @param {any[]} found */
  function drawRows(found) {
    const before = rows;
    rows = new Map();
    const wanted = found.map((job) => {
      const of = JSON.stringify(job);
      const old = before.get(job.uid);
      const entry = old?.of === of ? old : { of, ...row(job, page.open) };
      rows.set(job.uid, entry);
      entry.age.textContent = duration(Date.now() / 1000 - job.created);
      entry.row.classList.toggle("chosen", job.uid === chosen);
      return entry.row;
    });
    const same = wanted.length === body.children.length && wanted.every((each, place) => each === body.children[place]);
    if (!same) body.replaceChildren(...wanted);
    if (moved) body.querySelector("tr.chosen")?.scrollIntoView({ block: "nearest" });
    moved = false;
  }

  /** Whether the stream has named the only namespace whose jobs it sends. */
  let limited = false;

  /** @param {{namespace: string, message: string} | null} only */
  function limit(only) {
    page.limit(only);
    note.textContent = only?.message ?? "";
    note.hidden = !only;
  }

  const stop = stream(
    "/api/stream",
    (event, data) => {
      if (event === "jobs") {
        if (!limited) limit(null); // the right to list all was granted since
        jobs = data;
        draw();
      } else if (event === "namespace") { limited = true; limit(data); }
      else page.banner(data ? [data.message, data.hint].filter(Boolean).join(" — ") : "", "list");
    },
    (state) => {
      if (state === "open") limited = false;
      page.banner(connectionText(state), "list");
    },
  );
  const tick = setInterval(draw, 10_000);
  draw();
  return {
    close: () => { stop(); clearInterval(tick); },
    state: () => ({ search: search.value, filter, sort, down, chosen }),
    /** @param {string} key */
    key(key) {
      const found = shown();
      const place = found.findIndex((job) => job.uid === chosen);
      if (key === "/") search.focus();
      else if (key === "j" || key === "k") { chosen = found[Math.max(0, Math.min(found.length - 1, place + (key === "j" ? 1 : -1)))]?.uid ?? ""; moved = true; draw(); }
      else if (key === "Enter" && place >= 0) page.open(found[place]);
      else if (key === "Escape") { search.value = ""; search.blur(); draw(); }
      else return false;
      return true;
    },
  };
}

/** @param {any} job @param {(job: any) => void} open */
function row(job, open) {
  const age = h("td", { class: "dim" });
  const row = h(
    "tr",
    { class: "open", onclick: (/** @type {MouseEvent} */ event) => { if (!(event.target instanceof HTMLAnchorElement)) open(job); } },
    h("td", null, chip(job.phase)),
    h("td", null, h("a", { href: `#/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}` }, job.name), h("div", { class: "dim" }, job.namespace), h("div", { class: "narrow" }, job.progress ? progressText(job.progress.text) : job.reason)),
    h("td", { class: "message wide" }, h("b", null, job.reason), " ", job.message),
    h("td", null, `${job.pods.up}/${job.replicas}`, podBar(job)),
    h("td", { class: "progress wide" }, progressText(job.progress?.text ?? ""), job.progress?.percent ? h("progress", { max: 100, value: job.progress.percent, "aria-label": t("Progress") }) : null),
    age,
  );
  return { row, age };
}
