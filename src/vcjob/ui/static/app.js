// The page: header, theme, language, shortcuts, and which view the address names.

import { ApiError, get, onToken, takeToken } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { language, setLanguage, t } from "./i18n.js";
import { showJob } from "./job.js";
import { showList } from "./list.js";
import { showSubmit } from "./submit.js";

const THEME = "vcjob-theme";
/** @type {{close: () => void, key: (key: string) => boolean} | null} */
let view = null;
/** @type {any} */
let info = { backend: "local", readOnly: true };

function theme() {
  const chosen = localStorage.getItem(THEME);
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

/** @param {string} text */
function banner(text) {
  const element = byId("banner");
  element.textContent = text;
  element.hidden = !text;
}

function header() {
  const dark = theme() === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.lang = language();
  fill(
    byId("top"),
    h("a", { class: "skip", href: "#main", onclick: (/** @type {Event} */ event) => { event.preventDefault(); byId("main").focus(); } }, t("Skip to the content")),
    h("a", { class: "brand", href: "#/" }, h("img", { src: "/static/icon.svg", alt: "" }), "vcjob"),
    h("span", { class: "chip" }, t(info.backend === "local" ? "this machine" : "cluster"), info.namespace ? ` · ${info.namespace}` : ""),
    info.readOnly ? h("span", { class: "chip wait" }, t("read-only")) : null,
    h("span", { class: "space" }),
    info.readOnly ? null : h("button", { class: "primary", onclick: () => go("#/run") }, t("Run a Job")),
    h("button", { lang: language() === "zh" ? "en" : "zh", onclick: () => { setLanguage(language() === "zh" ? "en" : "zh"); route(); } }, language() === "zh" ? "English" : "中文"),
    h("button", { "aria-label": t(dark ? "Light theme" : "Dark theme"), title: t(dark ? "Light theme" : "Dark theme"), onclick: () => { localStorage.setItem(THEME, dark ? "light" : "dark"); header(); } }, dark ? "☀" : "☾"),
    h("button", { "aria-label": t("Keyboard shortcuts"), title: t("Keyboard shortcuts"), onclick: help }, "?"),
  );
}

/** @param {string} hash */
function go(hash) {
  if (location.hash === hash) route();
  else location.hash = hash;
}

/** @param {any} job */
const open = (job) => go(`#/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`);
const back = () => go("#/");

function route() {
  view?.close();
  banner("");
  header();
  const root = byId("main");
  const parts = location.hash.slice(2).split("/").map(decodeURIComponent);
  if (parts[0] === "jobs" && parts.length === 3) {
    document.title = `${parts[2]} · vcjob`;
    view = showJob(root, { namespace: parts[1], name: parts[2] }, { back, banner, readOnly: info.readOnly, confirm: ask });
  } else if (parts[0] === "run" && !info.readOnly) {
    document.title = `${t("Run a Job")} · vcjob`;
    view = showSubmit(root, { open, back, banner, namespace: info.namespace });
  } else {
    document.title = "vcjob";
    view = showList(root, { open, banner });
  }
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
      h("div", { class: "row" }, h("button", { class: "primary", onclick: () => done(true) }, action), h("button", { onclick: () => done(false) }, t("Cancel"))),
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
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
  if (typing && event.key !== "Escape") return;
  if (event.key === "?") help();
  else if (event.key === "Enter" && event.target !== document.body && event.target !== byId("main")) return;
  else if (!view?.key(event.key)) return;
  event.preventDefault();
});

async function start() {
  try {
    info = await get("/api/info");
    route();
  } catch (error) {
    banner(error instanceof ApiError ? error.message : String(error));
  }
}

addEventListener("hashchange", () => { if (takeToken()) start(); else route(); });
onToken(start);
takeToken();
header();
await start();
