// The page: header, theme, language, shortcuts, and which view the address names.

import { get, onToken, sentence, takeToken } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { language, setLanguage, t } from "./i18n.js";
import { showJob } from "./job.js";
import { showList } from "./list.js";
import { showSubmit } from "./submit.js";

const THEME = "vcjob-theme";
/** `state` is what the view gets when it is built again, in the other language. @type {{close: () => void, key: (key: string) => boolean, state: () => any} | null} */
let view = null;
/** @type {any} */
let info = { backend: "local", readOnly: true };
/** The only namespace whose jobs the user may list, and why. @type {{namespace: string, message: string} | null} */
let scope = null;

function theme() {
  const chosen = localStorage.getItem(THEME);
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

/** What is said above the view, by who says it: a stream that is open again must not remove what another one says. @type {Map<string, string>} */
const said = new Map();

/** @param {string} text @param {string} [source] a stream; without one it is the answer to what the user did last */
function banner(text, source = "") {
  said.set(source, text);
  const element = byId("banner");
  element.textContent = [...new Set(said.values())].filter(Boolean).join(" · ");
  element.hidden = !element.textContent;
}

function header() {
  const dark = theme() === "dark";
  const focused = document.activeElement?.id;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.lang = language();
  fill(
    byId("top"),
    h("a", { class: "skip", href: "#main", onclick: (/** @type {Event} */ event) => { event.preventDefault(); byId("main").focus(); } }, t("Skip to the content")),
    h("a", { class: "brand", href: "#/" }, h("img", { src: "/static/icon.svg", alt: "" }), "vcjob"),
    h("span", { class: "chip", title: scope?.message }, [t(info.backend === "local" ? "this machine" : "cluster"), info.namespace ?? scope?.namespace].filter(Boolean).join(" · ")),
    info.readOnly ? h("span", { class: "chip wait" }, t("read-only")) : null,
    h("span", { class: "space" }),
    info.readOnly ? null : h("button", { class: "primary", id: "run", onclick: () => go("#/run") }, t("Run a Job")),
    h("button", { id: "language", lang: language() === "zh" ? "en" : "zh", onclick: () => { setLanguage(language() === "zh" ? "en" : "zh"); route(view?.state()); } }, language() === "zh" ? "English" : "中文"),
    h("button", { id: "theme", "aria-label": t(dark ? "Light theme" : "Dark theme"), title: t(dark ? "Light theme" : "Dark theme"), onclick: () => { localStorage.setItem(THEME, dark ? "light" : "dark"); header(); } }, dark ? "☀" : "☾"),
    h("button", { "aria-label": t("Keyboard shortcuts"), title: t("Keyboard shortcuts"), onclick: help }, "?"),
  );
  if (focused === "language" || focused === "theme") byId(focused).focus();
}

/** @param {string} hash */
function go(hash) {
  if (location.hash === hash) route();
  else location.hash = hash;
}

/** @param {any} job */
const open = (job) => go(`#/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`);
const back = () => go("#/");

/** @param {string} part of an address, which may be written by hand */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Shows what the address names. @param {any} [state] of the view that was shown there before */
function route(state) {
  const focused = document.activeElement?.id;
  view?.close();
  said.clear();
  banner("");
  header();
  const root = byId("main");
  const parts = location.hash.slice(2).split("/").map(decode);
  if (parts[0] === "jobs" && parts.length === 3) {
    document.title = `${parts[2]} · vcjob`;
    view = showJob(root, { namespace: parts[1], name: parts[2] }, { back, banner, readOnly: info.readOnly, confirm: ask, state });
  } else if (parts[0] === "run" && !info.readOnly) {
    document.title = `${t("Run a Job")} · vcjob`;
    view = showSubmit(root, { open, back, banner, namespace: info.namespace ?? scope?.namespace ?? null });
  } else {
    document.title = "vcjob";
    view = showList(root, { open, banner, state, limit: (only) => { if (only !== scope) { scope = only; header(); } } });
  }
  if (focused === "language") byId(focused).focus();
}

/** Asks before something is changed. @param {string} title @param {string} text @param {string} action @returns {Promise<boolean>} */
function ask(title, text, action) {
  return new Promise((resolve) => {
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": title }));
    const done = (/** @type {boolean} */ sure) => { dialog.close(); dialog.remove(); resolve(sure); };
    fill(
      dialog,
      h("h2", null, title),
      h("p", null, text),
      h("div", { class: "row" }, h("button", { class: "primary", onclick: () => done(true) }, action), h("button", { autofocus: true, onclick: () => done(false) }, t("Cancel"))),
    );
    dialog.addEventListener("cancel", () => done(false));
    document.body.append(dialog);
    dialog.showModal();
  });
}

function help() {
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": t("Keyboard shortcuts") }));
  const keys = [["/", "Focus the search"], ["j k", "Next and previous job"], ["Enter", "Open the job"], ["Esc", "Back, or close"], ["?", "Show this help"]];
  fill(
    dialog,
    h("h2", null, t("Keyboard shortcuts")),
    h("dl", null, keys.flatMap(([key, text]) => [h("dt", null, h("kbd", null, key)), h("dd", null, t(text))])),
    h("button", { onclick: () => dialog.close() }, t("Close")),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  // Escape and Enter of an input method belong to its list of words.
  if (event.isComposing || event.keyCode === 229 || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
  if (typing && event.key !== "Escape") return;
  if (event.key === "?") help();
  else if (event.key === "Enter" && event.target !== document.body && event.target !== byId("main")) return;
  else if (!view?.key(event.key)) return;
  event.preventDefault();
});

/** Answers of `start` that are awaited; each shows the view, so that nothing else has to. */
let starting = 0;

/** Reads what the server is. A view that is shown stays, and its streams use the new token; another server gets a new view. @param {boolean} [elsewhere] the address names another view */
async function start(elsewhere = false) {
  starting += 1;
  try {
    const found = await get("/api/info");
    const same = view && JSON.stringify(found) === JSON.stringify(info);
    info = found;
    banner("", "server");
    if (elsewhere) route();
    else if (!same) route(view?.state());
  } catch (error) {
    banner(sentence(error), "server");
  } finally {
    starting -= 1;
  }
}

addEventListener("hashchange", (event) => {
  const before = new URL(event.oldURL).hash;
  if (takeToken(before)) start(location.hash !== before);
  else if (view || !starting) route();
});
onToken(start);
takeToken();
header();
await start();
