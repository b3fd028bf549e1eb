// The Job as written, with its defaults, the objects created from it, and what differs between them.

import { get, jobPath, sentence } from "./api.js";
import { fill, h } from "./dom.js";
import { t } from "./i18n.js";

/** @type {[string, string][]} */
const FORMS = [["written", "As written"], ["job", "With defaults"], ["objects", "Objects"], ["differences", "Differences"]];

/** @param {HTMLElement} root @param {any} which */
export function showManifests(root, which) {
  let chosen = "";
  const text = h("div", { "aria-live": "polite" });
  const buttons = FORMS.map(([form, label]) => h("button", { onclick: () => open(form) }, t(label)));
  fill(root, h("div", { class: "row", role: "group", "aria-label": t("Manifest") }, buttons), text);

  /** @param {string} form */
  async function open(form) {
    chosen = form;
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(FORMS[place][0] === form)));
    const path = jobPath(which) + (form === "differences" ? "/differences" : `/manifest/${form}`);
    /** @type {any[]} */
    let shown;
    try {
      const answer = await get(path);
      shown = form === "differences" ? answer.differences.flatMap(difference) : [h("pre", { tabindex: "0" }, answer.text)];
    } catch (error) {
      shown = [h("p", null, sentence(error))];
    }
    if (chosen === form) fill(text, shown);
  }

  open("job");
}

/** @param {{title: string, lines: string[]}} found */
function difference(found) {
  const looks = /** @type {Record<string, string>} */ ({ "+": "added", "-": "removed", "@": "dim" });
  const lines = found.lines.map((line) => h("div", { class: looks[line[0]] ?? "" }, line || " "));
  return [h("h2", null, found.title), lines.length ? h("pre", { class: "diff", tabindex: "0" }, lines) : h("p", { class: "dim" }, t("No difference"))];
}
