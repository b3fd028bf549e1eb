// Live logs: a window of lines over a bounded buffer, so that a job that prints without end costs the same as a quiet one.

import { ApiError, download, jobPath, sentence, stream } from "./api.js";
import { fill, h, perFrame, whenChanged } from "./dom.js";
import { t } from "./i18n.js";
import { name as podName } from "./ranks.js";

const HEIGHT = 18;
const MOST = 50_000;
const ERROR = /\b(Traceback|[A-Z]\w*(Error|Exception)\b|FATAL|CUDA error|Segmentation fault|Killed)/;
// eslint-disable-next-line no-control-regex
const CONTROL = /\x1b\[[0-9;?]*[ -\/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/**
 * @typedef {{who: string, text: string}} Line
 * @param {HTMLElement} root
 * @param {any} job
 * @param {{banner: (text: string) => void}} page
 */
export function showLogs(root, job, page) {
  /** @type {Line[]} */
  let lines = [];
  /** @type {number[] | null} */
  let hits = null;
  let dropped = 0;
  /** @type {Line | null} */
  let marked = null;
  let follow = true;
  /** What is shown: one pod or all, one container or all, the newest attempt or another. */
  const choice = { pod: /** @type {any} */ (null), container: "", attempt: "" };
  let stop = () => {};

  const search = /** @type {HTMLInputElement} */ (
    h("input", { type: "search", class: "grow", placeholder: t("Filter lines"), "aria-label": t("Filter lines"), oninput: () => { filter(); draw(); } })
  );
  const regex = toggle(t("Regex"), false, () => { filter(); draw(); });
  const following = toggle(t("Follow"), true, (on) => { follow = on; draw(); });
  const which = h("span", { class: "chip" }, t("All ranks"));
  const container = menu(t("Container"), (value) => { choice.container = value; open(); });
  const attempt = menu(t("Attempt"), (value) => { choice.attempt = value; open(); });
  const count = h("span", { class: "dim" });
  /** What the user should know about logs that are not shown. */
  const notes = h("ul", { class: "dim", "aria-label": t("Notes"), hidden: true });
  const shown = h("div", { class: "window" });
  const all = h("div", { class: "all" }, shown);
  const view = h("div", { class: "logs", role: "log", tabindex: "0", "aria-label": t("Logs"), "aria-live": "off" }, all);
  fill(
    root,
    h(
      "div",
      { class: "row" },
      search,
      regex.element,
      following.element,
      h("button", { onclick: firstError }, t("First error")),
      h("button", { onclick: save }, t("Download")),
      which,
      container.element,
      attempt.element,
      count,
    ),
    notes,
    view,
  );
  view.addEventListener("scroll", () => {
    const bottom = view.scrollTop + view.clientHeight >= view.scrollHeight - 2 * HEIGHT;
    if (follow !== bottom) following.set((follow = bottom));
    draw();
  });

  const total = () => (hits ? hits.length : lines.length);
  const draw = perFrame(() => {
    const height = Math.max(1, total()) * HEIGHT;
    all.style.height = `${height}px`;
    if (follow) view.scrollTop = height;
    const first = Math.max(0, Math.floor(view.scrollTop / HEIGHT) - 10);
    const last = Math.min(total(), first + Math.ceil(view.clientHeight / HEIGHT) + 20);
    shown.style.top = `${first * HEIGHT}px`;
    const rows = [];
    for (let place = first; place < last; place++) {
      const line = lines[hits ? hits[place] : place];
      const row = h("div", { class: `line ${ERROR.test(line.text) ? "err" : ""} ${line === marked ? "hit" : ""}` });
      row.append(h("span", { class: "who" }, `${line.who} `), line.text);
      rows.push(row);
    }
    shown.replaceChildren(...rows);
    const more = dropped ? ` (${dropped} ${t("older lines were dropped")})` : "";
    count.textContent = total() ? `${total()} ${t("lines")}${more}` : notes.hidden ? t("No output yet") : "";
  });

  /** @returns {((line: Line) => boolean) | null} */
  function test() {
    const wanted = search.value;
    if (!wanted) return null;
    if (!regex.on()) {
      const lower = wanted.toLowerCase();
      return (line) => line.text.toLowerCase().includes(lower) || line.who.includes(lower);
    }
    try {
      const pattern = new RegExp(wanted, "i");
      search.setCustomValidity("");
      return (line) => pattern.test(line.text.slice(0, 2000));
    } catch {
      search.setCustomValidity("invalid");
      return () => false;
    }
  }

  function filter() {
    const matches = test();
    hits = matches ? lines.flatMap((line, place) => (matches(line) ? [place] : [])) : null;
  }

  /** @param {any[][]} news */
  function add(news) {
    for (const [ofRank, pod, container, , text] of news) {
      const who = ofRank === null ? `[${pod}]` : `[rank ${ofRank}]`;
      lines.push({ who: container && container !== "main" && ofRank === null ? `${who} ${container}` : who, text: text.replace(CONTROL, "") });
    }
    if (lines.length > MOST) {
      const surplus = lines.length - MOST + MOST / 10;
      lines = lines.slice(surplus);
      dropped += surplus;
      filter();
    } else if (hits) {
      const matches = test();
      for (let place = lines.length - news.length; place < lines.length; place++) if (matches?.(lines[place])) hits.push(place);
    }
    draw();
  }

  /** One more note; an empty one removes them all. @param {string} text */
  function note(text) {
    if (text) notes.append(h("li", {}, text.replace(CONTROL, "")));
    else notes.replaceChildren();
    notes.hidden = !text;
    draw();
  }

  /** The choice as a query. */
  function selection() {
    const query = new URLSearchParams();
    if (choice.pod) { query.set("task", choice.pod.task); query.set("index", choice.pod.index); }
    if (choice.container) query.set("container", choice.container);
    if (choice.attempt) query.set("attempt", choice.attempt);
    return query;
  }

  function open() {
    stop();
    const query = `tail=${choice.pod ? 20_000 : 5000}&${selection()}`;
    stop = stream(
      `${jobPath(job)}/logs?${query}`,
      (event, data) => {
        if (event === "lines") add(data);
        else if (event === "note" || event === "gone") note([data.message, data.hint].filter(Boolean).join(" — "));
      },
      (state) => {
        if (state === "open") { lines = []; hits = null; dropped = 0; note(""); filter(); draw(); page.banner(""); }
        else page.banner(state instanceof ApiError ? state.message : t("The connection was lost; trying again …"));
      },
    );
  }

  function firstError() {
    const at = lines.findIndex((line) => ERROR.test(line.text));
    if (at < 0) { count.textContent = t("No error found"); return; }
    marked = lines[at];
    search.value = "";
    filter();
    following.set((follow = false));
    all.style.height = `${lines.length * HEIGHT}px`;
    view.scrollTop = Math.max(0, (at - 2) * HEIGHT);
    draw();
  }

  async function save() {
    try {
      const blob = await download(`${jobPath(job)}/logs.txt?${selection()}`);
      const link = /** @type {HTMLAnchorElement} */ (h("a", { href: URL.createObjectURL(blob), download: `${job.name}.log` }));
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (error) {
      page.banner(sentence(error));
    }
  }

  open();
  return {
    close: () => stop(),
    focus: () => search.focus(),
    /** Shows one pod or all of them, or another attempt ("" is the newest). @param {{pod?: any, attempt?: number | ""}} chosen */
    choose(chosen) {
      if (chosen.pod !== undefined) choice.pod = chosen.pod;
      if (chosen.attempt !== undefined) choice.attempt = String(chosen.attempt);
      attempt.set(choice.attempt);
      which.textContent = choice.pod ? podName(choice.pod) : t("All ranks");
      open();
    },
    /** Offers the containers and attempts that exist. @param {any[]} pods */
    offer(pods) {
      const names = new Set(pods.flatMap((pod) => (pod.containers ?? []).map((/** @type {any} */ each) => each.name)));
      container.offer([["", t("All containers")], ...[...names].map((name) => /** @type {[string, string]} */ ([name, name]))]);
      const attempts = [...new Set(pods.map((pod) => pod.attempt ?? 0))].sort((a, b) => b - a);
      attempt.offer([["", `${t("Attempt")}: ${t("newest")}`], ...attempts.map((each) => /** @type {[string, string]} */ ([String(each), `${t("Attempt")} ${each}`]))]);
    },
  };
}

/** A choice that is hidden while there is nothing to choose. @param {string} label @param {(value: string) => void} changed */
function menu(label, changed) {
  const element = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": label, hidden: true, onchange: () => changed(element.value) }));
  let wanted = "";
  element.addEventListener("change", () => { wanted = element.value; });
  const offer = whenChanged(element, (/** @type {[string, string][]} */ options) => options.map(([value, text]) => h("option", { value, selected: value === wanted }, text)));
  return {
    element,
    /** @param {[string, string][]} options the first stands for all of them */
    offer(options) {
      offer(options);
      element.hidden = options.length < 3;
    },
    /** @param {string} value */
    set(value) {
      wanted = value;
      element.value = value;
    },
  };
}

/** @param {string} label @param {boolean} on @param {(on: boolean) => void} changed */
function toggle(label, on, changed) {
  const element = h("button", { "aria-pressed": String(on), onclick: () => { set(!on); changed(on); } }, label);
  /** @param {boolean} value */
  function set(value) {
    on = value;
    element.setAttribute("aria-pressed", String(on));
  }
  return { element, set, on: () => on };
}
