// The ranks as a table that can be sorted: the slowest step, the most restarts or the most memory first.

import { fill, h, perFrame } from "./dom.js";
import { t } from "./i18n.js";
import { chip } from "./phases.js";
import { restarts } from "./ranks.js";
import { bytes, gpu, percent, step } from "./usage.js";

const SHOWN = 100;
/** New rows per frame, so that the page answers while a long table is built. */
const NEW_PER_FRAME = 40;

/** @typedef {import("./usage.js").Usage} Usage */
/** @type {[string, (pod: any, use: Usage) => any, ((pod: any, use: Usage) => any)?][]} title, value to sort by, text */
const COLUMNS = [
  ["Rank", (pod) => pod.rank],
  ["Pod", (pod) => `${pod.task}-${pod.index}`],
  ["Phase", (pod) => pod.phase, (pod) => chip(pod.phase)],
  ["Step", (_, use) => use.step, (_, use) => step(use)],
  ["CPU", (_, use) => use.cpu, (_, use) => percent(use.cpu)],
  ["Memory", (_, use) => use.memory, (_, use) => bytes(use.memory)],
  ["GPU", (_, use) => use.gpu, (pod, use) => gpu(pod, use)],
  ["Restarts", (pod) => restarts(pod)],
  ["Node", (pod) => pod.node],
  ["Message", (pod) => pod.message ?? pod.reason],
];

/**
 * @param {HTMLElement} root
 * @param {{pods: () => any[], usage: () => {pods: Record<string, Usage>, note: string}, choose: (uid: string) => void}} source
 */
export function showRankTable(root, source) {
  let sort = 0;
  let down = false;
  let most = SHOWN;
  const heads = COLUMNS.map(([title], place) => h("th", { scope: "col" }, h("button", { onclick: () => { down = sort === place && !down; sort = place; draw(); } }, t(title))));
  const body = h("tbody");
  const note = h("p", { class: "dim" });
  const more = h("button", { hidden: true, onclick: () => { most = Infinity; draw(); } });
  fill(root, h("div", { class: "scroll" }, h("table", { class: "numbers" }, h("thead", null, h("tr", null, heads)), body)), more, note);
  body.addEventListener("click", (event) => {
    const uid = /** @type {HTMLElement} */ (event.target).dataset?.uid;
    if (uid) source.choose(uid);
  });

  /** @type {HTMLElement[]} */
  let rows = [];
  const draw = perFrame(() => {
    heads.forEach((cell, place) => cell.setAttribute("aria-sort", place === sort ? (down ? "descending" : "ascending") : "none"));
    const usage = source.usage();
    const value = COLUMNS[sort][1];
    const pods = source.pods().map((pod) => ({ pod, use: usage.pods[pod.uid] ?? {} }));
    pods.sort((a, b) => compare(value(a.pod, a.use), value(b.pod, b.use), down) || compare(a.pod.rank, b.pod.rank, false));
    const wanted = Math.min(pods.length, most);
    const shown = pods.slice(0, Math.min(wanted, rows.length + NEW_PER_FRAME));
    while (rows.length < shown.length) {
      const row = h("tr", null, COLUMNS.map(([title]) => h("td", { class: title === "Message" ? "message" : "" })));
      row.children[1].append(h("button", { class: "link" }));
      rows.push(row);
      body.append(row);
    }
    for (const row of rows.splice(shown.length)) row.remove();
    shown.forEach(({ pod, use }, place) => update(rows[place], pod, use));
    more.hidden = pods.length <= most;
    more.textContent = `${t("Show all")} (${pods.length})`;
    note.textContent = usage.note;
    if (shown.length < wanted) draw();
  });
  draw();
  return { draw };
}

/** Only cells whose text has changed are written: a button that has the focus keeps it. @param {HTMLElement} row @param {any} pod @param {Usage} use */
function update(row, pod, use) {
  COLUMNS.forEach(([, value, text], place) => {
    const cell = row.children[place];
    const now = text ? text(pod, use) : (value(pod, use) ?? "–");
    const shown = now instanceof Node ? now.textContent : String(now);
    if (place === 1) {
      const button = /** @type {HTMLElement} */ (cell.firstElementChild);
      button.dataset.uid = pod.uid;
      if (button.textContent !== shown) button.textContent = shown;
    } else if (cell.textContent !== shown) cell.replaceChildren(now);
  });
}

/** Unknown values last. @param {any} a @param {any} b @param {boolean} down */
function compare(a, b, down) {
  const [none, other] = [a === undefined || a === null, b === undefined || b === null];
  if (none || other) return Number(none) - Number(other);
  return a < b === down ? Number(a !== b) : a === b ? 0 : -1;
}
