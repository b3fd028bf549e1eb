// Submit a Job: paste or drop a file, see every problem at its line, run it.

import { ApiError, get, post, sentence } from "./api.js";
import { fill, h } from "./dom.js";
import { t } from "./i18n.js";

const MOST = 3 * 1024 * 1024;
/** The file that was not run yet: it is still there after Escape, another view or another language. */
let draft = "";

/**
 * @param {HTMLElement} root
 * @param {{open: (job: any) => void, back: () => void, banner: (text: string, source?: string) => void, namespace: string | null}} page
 */
export function showSubmit(root, page) {
  const text = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { class: "file", spellcheck: "false", "aria-label": t("Job file"), placeholder: t("Paste a Job, or drop a file here"), value: draft, oninput: () => { draft = text.value; soon(); } })
  );
  const problems = h("ul", { class: "problems", "aria-live": "polite" });
  const run = /** @type {HTMLButtonElement} */ (h("button", { class: "primary", onclick: start }, t("Run")));
  fill(
    root,
    h("a", { class: "back", href: "#/" }, `← ${t("Back to the list")}`),
    h("h1", null, t("Run a Job")),
    text,
    h("div", { class: "row" }, run, h("button", { onclick: check }, t("Check")), h("label", { class: "button" }, t("Choose a file"), h("input", { type: "file", class: "unseen", accept: ".yaml,.yml,.json", "aria-label": t("Job file"), onchange: (/** @type {Event} */ event) => take(/** @type {HTMLInputElement} */ (event.target).files) }))),
    problems,
  );
  const ended = new AbortController();
  const { signal } = ended;
  // Anywhere on the page: the browser would leave it for a file that is dropped next to the text.
  for (const name of ["dragover", "dragleave", "drop"]) {
    addEventListener(name, (/** @type {any} */ event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      text.classList.toggle("drop", name === "dragover");
      if (name === "drop") take(event.dataTransfer.files);
    }, { signal });
  }

  /** @param {FileList | null} files */
  async function take(files) {
    const file = files?.[0];
    if (!file) return;
    if (file.size > MOST) { page.banner(t("The file is larger than 3 MiB")); return; }
    try {
      text.value = draft = await file.text();
    } catch (error) {
      page.banner(sentence(error));
      return;
    }
    page.banner("");
    await check();
  }

  let timer = 0;
  function soon() {
    clearTimeout(timer);
    timer = window.setTimeout(check, 500);
  }

  /** Counts the checks: only what the newest one has found is shown. */
  let turn = 0;
  async function check() {
    const now = ++turn;
    if (!text.value.trim()) { fill(problems); return; }
    try {
      const found = (await post("/api/validate", { text: text.value })).problems;
      if (now === turn) fill(problems, found.length ? found.map(item) : h("li", { class: "valid" }, t("The Job is valid")));
    } catch (error) {
      if (now === turn) page.banner(sentence(error));
    }
  }

  async function start() {
    run.disabled = true;
    try {
      const { job } = await post("/api/run", { text: text.value });
      draft = "";
      page.open(job);
    } catch (error) {
      const wrong = error instanceof ApiError ? error.problems : [];
      turn += 1;
      if (wrong.length) fill(problems, wrong.map(item));
      page.banner(sentence(error));
    } finally {
      run.disabled = false;
    }
  }

  /** @param {any} problem */
  function item(problem) {
    const place = problem.line ? h("button", { onclick: () => goTo(problem.line) }, `${problem.line}:${problem.column ?? 1}`) : null;
    return h("li", { class: problem.severity }, place, " ", h("b", null, problem.path ?? ""), ` ${problem.message}`, problem.hint ? h("div", { class: "dim" }, problem.hint) : null);
  }

  /** @param {number} line */
  function goTo(line) {
    const before = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const length = text.value.split("\n")[line - 1]?.length ?? 0;
    text.focus();
    text.setSelectionRange(before, before + length);
    text.scrollTop = (line - 5) * 18;
  }

  if (page.namespace) {
    get(`/api/denied/${encodeURIComponent(page.namespace)}`).then(({ denied }) => {
      if (!denied.run) return;
      run.disabled = true;
      run.title = denied.run;
      page.banner(denied.run, "denied");
    }, () => {});
  }
  text.focus();
  if (draft) check();
  return {
    close: () => { clearTimeout(timer); ended.abort(); turn += 1; },
    state: () => null,
    /** @param {string} key */
    key(key) {
      if (key !== "Escape") return false;
      page.back();
      return true;
    },
  };
}
