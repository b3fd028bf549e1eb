// Live logs: a window of lines over a bounded buffer, so that a job that prints without end costs the same as a quiet one.

import { connectionText, download, jobPath, sentence, stream } from "./api.js";
import { fill, h, perFrame, plain, whenChanged } from "./dom.js";
import { t } from "./i18n.js";
import { lineBuffer } from "./lines.js";
import { containing, expressions } from "./matching.js";
import { name as podName } from "./ranks.js";
import { received } from "./received.js";

const HEIGHT = 18;
/** How long the line that was read is looked for, where all lines come again. */
const ANCHOR = 5000;
const ERROR = /\b(Traceback|[A-Z]\w*(Error|Exception)\b|FATAL|CUDA error|Segmentation fault|Killed)/;

/**
 * @param {HTMLElement} root
 * @param {any} job
 * @param {{banner: (text: string, source?: string) => void}} page
 * @param {{search: string, regex: boolean, follow: boolean, choice: {pod: any, container: string, attempt: string}}} [state]
 */
export function showLogs(root, job, page, state) {
  const buffer = lineBuffer(() => draw(), (problem) => { search.setCustomValidity(problem); draw(); });
  const worker = expressions();
  const known = received();
  /** The server sends all lines again, for the connection was lost before it could say where to continue. */
  let again = false;
  /** The line that was read when they came again. @type {import("./matching.js").Line | null} */
  let anchor = null;
  /** Rows above the window that were dropped since the last frame. */
  let gone = 0;
  /** @type {import("./matching.js").Line | null} */
  let marked = null;
  let follow = state?.follow ?? true;
  /** What is shown: one pod or all, one container or all, the newest attempt or another. */
  const choice = state ? { ...state.choice } : { pod: /** @type {any} */ (null), container: "", attempt: "" };
  let stop = () => {};

  const search = /** @type {HTMLInputElement} */ (
    h("input", { type: "search", class: "grow", placeholder: t("Filter lines"), "aria-label": t("Filter lines"), value: state?.search ?? "", oninput: () => filter() })
  );
  const regex = toggle(t("Regex"), state?.regex ?? false, () => filter());
  const following = toggle(t("Follow"), follow, (on) => { follow = on; draw(); });
  const which = h("span", { class: "chip" }, choice.pod ? podName(choice.pod) : t("All ranks"));
  const container = menu(t("Container"), (value) => { choice.container = value; open(); });
  const attempt = menu(t("Attempt"), (value) => { choice.attempt = value; open(); });
  container.set(choice.container);
  attempt.set(choice.attempt);
  const saving = /** @type {HTMLButtonElement} */ (h("button", { onclick: save }, t("Download")));
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
      saving,
      which,
      container.element,
      attempt.element,
      count,
    ),
    notes,
    view,
  );
  for (const event of ["wheel", "keydown", "pointerdown"]) view.addEventListener(event, () => { anchor = null; }, { passive: true });
  view.addEventListener("scroll", () => {
    if (anchor) return;
    const bottom = view.scrollTop + view.clientHeight >= view.scrollHeight - 2 * HEIGHT;
    if (follow !== bottom) following.set((follow = bottom));
    draw();
  });

  const draw = perFrame(() => {
    const total = buffer.count();
    const height = Math.max(1, total) * HEIGHT;
    const top = view.scrollTop;
    all.style.height = `${height}px`;
    if (follow) view.scrollTop = height;
    else if (anchor) {
      const { who, text } = anchor;
      const place = buffer.find((line) => line.who === who && line.text === text);
      if (place >= 0) { view.scrollTop = place * HEIGHT; anchor = null; }
    } else if (gone) view.scrollTop = Math.max(0, top - gone * HEIGHT);
    gone = 0;
    const first = Math.max(0, Math.floor(view.scrollTop / HEIGHT) - 10);
    const last = Math.min(total, first + Math.ceil(view.clientHeight / HEIGHT) + 20);
    shown.style.top = `${first * HEIGHT}px`;
    const rows = [];
    for (let place = first; place < last; place++) {
      const line = buffer.row(place);
      const row = h("div", { class: `line ${ERROR.test(line.text) ? "err" : ""} ${line === marked ? "hit" : ""}` });
      row.append(h("span", { class: "who" }, `${line.who} `), line.text);
      rows.push(row);
    }
    shown.replaceChildren(...rows);
    const dropped = buffer.dropped();
    const more = dropped ? ` (${dropped} ${t(dropped === 1 ? "older line was dropped" : "older lines were dropped")})` : "";
    if (search.validationMessage) count.textContent = search.validationMessage;
    else if (total || buffer.filtered()) count.textContent = `${total} ${t(total === 1 ? "line" : "lines")}${more}`;
    else count.textContent = notes.hidden ? t("No output yet") : "";
  });

  function filter() {
    const wanted = search.value;
    search.setCustomValidity("");
    if (wanted && regex.on()) {
      try {
        new RegExp(wanted, "i");
        buffer.filter(worker.matching(wanted));
      } catch {
        search.setCustomValidity(t("The expression is not valid"));
        buffer.filter(() => Promise.resolve([]));
      }
    } else buffer.filter(wanted ? containing(wanted) : null);
    draw();
  }

  /** @param {any[][]} news */
  function add(news) {
    if (again) {
      const read = follow || buffer.filtered() ? null : buffer.row(Math.floor(view.scrollTop / HEIGHT));
      reset();
      anchor = read ?? null;
      setTimeout(() => { if (anchor === read) anchor = null; }, ANCHOR);
    }
    const lines = news.filter(known.isNew).map(([ofRank, pod, container, , text]) => {
      const who = ofRank === null ? `[${pod}]` : `[rank ${ofRank}]`;
      return { who: container && container !== "main" && ofRank === null ? `${who} ${container}` : who, text: plain(text) };
    });
    gone += buffer.add(lines);
    draw();
  }

  /** Forgets the lines: those of another choice, or those that the server sends again. */
  function reset() {
    again = false;
    anchor = null;
    gone = 0;
    known.clear();
    buffer.clear();
    draw();
  }

  /** One more note; an empty one removes them all. @param {string} text */
  function note(text) {
    if (text) notes.append(h("li", {}, plain(text)));
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
    reset();
    let resumed = false;
    stop = stream(
      (id) => {
        resumed = id !== "";
        const from = resumed ? `since=${encodeURIComponent(id)}` : `tail=${choice.pod ? 20_000 : 5000}`;
        return `${jobPath(job)}/logs?${from}&${selection()}`;
      },
      (event, data) => {
        const text = data ? [data.message, data.hint].filter(Boolean).join(" — ") : "";
        if (event === "lines") add(data);
        else if (event === "end" && again) reset();
        else if (event === "note" || event === "gone") note(text);
        else if (event === "trouble") page.banner(text, "logs");
      },
      (now) => {
        if (now === "open") {
          if (resumed) known.resume();
          again = !resumed;
          note("");
        }
        page.banner(connectionText(now), "logs");
      },
    );
  }

  function firstError() {
    anchor = null;
    const at = buffer.find((line) => ERROR.test(line.text));
    if (at < 0) { count.textContent = t("No error found"); return; }
    search.value = "";
    filter();
    marked = buffer.row(at);
    following.set((follow = false));
    all.style.height = `${buffer.count() * HEIGHT}px`;
    view.scrollTop = Math.max(0, (at - 2) * HEIGHT);
    draw();
  }

  async function save() {
    page.banner("");
    saving.disabled = true;
    try {
      const blob = await download(`${jobPath(job)}/logs.txt?${selection()}`, (size) => {
        saving.textContent = `${t("Download")} · ${(size / 1e6).toFixed(1)} MB`;
      });
      const link = /** @type {HTMLAnchorElement} */ (h("a", { href: URL.createObjectURL(blob), download: `${job.name}.log` }));
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (error) {
      page.banner(sentence(error));
    } finally {
      saving.disabled = false;
      saving.textContent = t("Download");
    }
  }

  filter();
  open();
  return {
    close: () => { stop(); worker.end(); },
    state: () => ({ search: search.value, regex: regex.on(), follow, choice: { ...choice } }),
    focus: () => search.focus(),
    /** Empties the filter; false if there was nothing to leave. */
    clear() {
      if (!search.value && document.activeElement !== search) return false;
      search.value = "";
      search.blur();
      filter();
      return true;
    },
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
