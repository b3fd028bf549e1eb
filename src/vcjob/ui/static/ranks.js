// The grid of ranks: one square each, readable at a thousand; arrow keys move, Enter shows a rank's logs.

import { fill, h, perFrame } from "./dom.js";
import { t } from "./i18n.js";
import { phaseLegend } from "./legend.js";
import { kind } from "./phases.js";
import { bytes, gpu, percent, step } from "./usage.js";

const MANY = 150;
/** New squares per frame: a thousand at once would keep the page from answering for a tenth of a second. */
const NEW_PER_FRAME = 200;

/**
 * @param {HTMLElement} root
 * @param {(pod: any | null) => void} choose
 * @param {string} [chosen] the uid of the pod that is chosen already
 */
export function rankGrid(root, choose, chosen = "") {
  /** @type {Map<string, any>} */
  const pods = new Map();
  /** @type {Map<string, HTMLElement>} */
  const squares = new Map();
  /** @type {Set<string>} */
  const stale = new Set();
  /** @type {Record<string, import("./usage.js").Usage>} */
  let used = {};
  /** The newest attempt of each pod, by task and index. @type {Map<string, any>} */
  const newest = new Map();
  /** @type {{culprit: string, victims: Set<string>}} */
  let blamed = { culprit: "", victims: new Set() };
  const list = h("ul", { class: "ranks", "aria-label": t("Ranks") });
  const about = h("p", { class: "dim" });
  /** The phase that is shown alone. */
  let only = "";
  const legend = phaseLegend((phase) => { only = phase; draw(); });
  fill(root, legend.element, list, about);

  list.addEventListener("click", (event) => {
    const uid = /** @type {HTMLElement} */ (event.target).dataset?.uid;
    if (uid) select(uid === chosen ? "" : uid);
  });
  list.addEventListener("keydown", (event) => {
    const all = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("li:not([hidden]) button")]);
    const second = all.findIndex((square) => square.offsetTop > all[0].offsetTop);
    const row = second > 0 ? second : all.length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const next = all[Math.abs(step) === 1 ? Math.max(0, Math.min(all.length - 1, at + step)) : at + step] ?? all[at];
    take(next);
  });

  /** Focuses a square, the only one that Tab reaches. @param {HTMLElement} [square] */
  function take(square) {
    if (!square) return;
    for (const each of squares.values()) if (each.tabIndex === 0) each.tabIndex = -1;
    square.tabIndex = 0;
    square.focus();
  }

  /** @param {string} uid */
  function select(uid) {
    squares.get(chosen)?.setAttribute("aria-pressed", "false");
    chosen = uid;
    squares.get(chosen)?.setAttribute("aria-pressed", "true");
    describe();
    choose(chosen ? pods.get(chosen) : null);
  }

  function describe() {
    const pod = pods.get(chosen);
    if (!pod) { about.textContent = ""; return; }
    const ended = pod.containers?.map((/** @type {any} */ each) => each.ended).find(Boolean);
    const use = used[chosen] ?? {};
    const parts = [name(pod), t(pod.phase), pod.node && `${t("Node")}: ${pod.node}`, `${t("Restarts")}: ${restarts(pod)}`];
    if (use.step !== undefined) parts.push(`${t("Step")}: ${step(use)}`);
    if (use.cpu !== undefined) parts.push(`CPU: ${percent(use.cpu)}`, `${t("Memory")}: ${bytes(use.memory)}`);
    if (pod.gpus?.length || (use.gpu ?? null) !== null) parts.push(`GPU: ${gpu(pod, use)}`);
    if (ended) parts.push(`${t("Exit code")}: ${ended.exitCode}`);
    if (pod.reason) parts.push(pod.reason);
    if (pod.message) parts.push(pod.message);
    about.textContent = parts.filter(Boolean).join(" · ");
  }

  const draw = perFrame(() => {
    legend.update([...newest.values()]);
    let added = 0;
    /** The pod whose square had the focus and is replaced. */
    let left = "";
    const changed = [...stale].map((uid) => ({ uid, pod: pods.get(uid) })).sort((a, b) => byRank(a.pod ?? {}, b.pod ?? {}));
    stale.clear();
    for (const { uid, pod } of changed) {
      let square = squares.get(uid);
      if (!pod || newest.get(key(pod)) !== pod) {
        if (square && square === document.activeElement) left = square.dataset.key ?? "";
        square?.parentElement?.remove();
        squares.delete(uid);
        continue;
      }
      if (!square) {
        if (added === NEW_PER_FRAME) { stale.add(uid); continue; }
        square = h("button", { tabindex: "-1", "aria-pressed": String(uid === chosen), dataset: { uid, key: key(pod) } });
        squares.set(uid, square);
        list.append(h("li", null, square));
        added += 1;
      }
      const role = pod.name === blamed.culprit ? " first" : blamed.victims.has(name(pod)) ? " after" : "";
      const cause = role === " first" ? `, ${t("failed first")}` : role ? `, ${t("ended because of it")}` : "";
      const label = `${name(pod)}: ${t(pod.phase)}${cause}${pod.message ? `, ${pod.message}` : ""}`;
      const look = kind(pod.phase) + role;
      if (square.className !== look) square.className = look;
      if (square.title === label) continue;
      square.textContent = pod.rank ?? "·";
      square.setAttribute("aria-label", label);
      square.title = label;
    }
    if (added) order();
    showOnly();
    if (left) take([...squares.values()].find((square) => square.dataset.key === left && !square.parentElement?.hidden));
    if (stale.size) draw();
    describe();
  });

  /** Hides the squares of other phases; the fewer there are, the larger they are. */
  function showOnly() {
    let visible = 0;
    let reachable = false;
    for (const [uid, square] of squares) {
      const item = /** @type {HTMLElement} */ (square.parentElement);
      const hidden = only !== "" && pods.get(uid)?.phase !== only;
      if (item.hidden !== hidden) item.hidden = hidden;
      if (hidden) { if (square.tabIndex === 0) square.tabIndex = -1; } else { visible += 1; reachable ||= square.tabIndex === 0; }
    }
    list.classList.toggle("many", visible > MANY);
    const first = /** @type {HTMLElement | null} */ (list.querySelector("li:not([hidden]) button"));
    if (!reachable && first) first.tabIndex = 0;
  }

  function order() {
    const sorted = [...newest.values()].sort(byRank);
    const items = sorted.flatMap((pod) => squares.get(pod.uid)?.parentElement ?? []);
    if (items.some((item, place) => item !== list.children[place])) list.append(...items);
  }

  return {
    /** @param {{changed: any[], gone: string[], all: boolean}} news */
    update(news) {
      if (news.all) for (const uid of pods.keys()) { pods.delete(uid); stale.add(uid); }
      for (const pod of news.changed) { pods.set(pod.uid, pod); stale.add(pod.uid); }
      for (const uid of news.gone) { pods.delete(uid); stale.add(uid); }
      newest.clear();
      for (const pod of pods.values()) {
        const before = newest.get(key(pod));
        if (!before || (pod.attempt ?? 0) >= (before.attempt ?? 0)) newest.set(key(pod), pod);
        if (before) stale.add(before.uid).add(pod.uid);
      }
      draw();
    },
    /** Marks the rank that failed first, and those that ended because of it. @param {any} failure */
    blame(failure) {
      const culprit = failure?.culprit?.pod ?? "";
      const victims = new Set(/** @type {string[]} */ (failure?.victims ?? []));
      if (culprit === blamed.culprit && victims.size === blamed.victims.size) return;
      blamed = { culprit, victims };
      for (const uid of pods.keys()) stale.add(uid);
      draw();
    },
    /** @param {Record<string, import("./usage.js").Usage>} now */
    usage(now) {
      used = now;
      describe();
    },
    select,
    chosen: () => chosen,
    /** The newest attempt of each pod. */
    pods: () => [...newest.values()],
    /** Every pod of every attempt. */
    all: () => [...pods.values()],
  };
}

/** Pods without a rank last, by name. @param {any} a @param {any} b */
export function byRank(a, b) {
  return (a.rank ?? 1e9) - (b.rank ?? 1e9) || (a.name < b.name ? -1 : Number(a.name > b.name));
}

/** @param {any} pod */
function key(pod) {
  return `${pod.task}/${pod.index}`;
}

/** @param {any} pod */
export function name(pod) {
  return pod.rank === undefined || pod.rank === null ? `${pod.task}-${pod.index}` : `rank ${pod.rank} (${pod.task}-${pod.index})`;
}

/** @param {any} pod */
export function restarts(pod) {
  return (pod.containers ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + (each.restarts ?? 0), 0);
}
