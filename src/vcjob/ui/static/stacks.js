// Where every rank is, on demand: reading a stack stops its process for some milliseconds, so nothing is read unasked.

import { jobPath, post, sentence } from "./api.js";
import { fill, h } from "./dom.js";
import { clock, t } from "./i18n.js";

/** @param {HTMLElement} root @param {any} which @param {boolean} readOnly */
export function showStacks(root, which, readOnly) {
  const answer = h("div", { "aria-live": "polite" });
  const read = /** @type {HTMLButtonElement} */ (h("button", { class: "primary", disabled: readOnly, "aria-describedby": "stacks-note", onclick: load }, t("Read the stacks")));
  const note = readOnly ? "Not on a read-only server: reading stacks stops each rank for some milliseconds, and on a cluster it runs a program in the pods." : "Each rank stops for some milliseconds.";
  fill(root, h("div", { class: "row" }, read, h("span", { class: "dim", id: "stacks-note" }, t(note))), answer);

  async function load() {
    read.disabled = true;
    try {
      const { groups } = await post(`${jobPath(which)}/stacks`);
      fill(answer, h("p", { class: "dim" }, clock(Date.now() / 1000)), groups.map(group));
    } catch (error) {
      fill(answer, h("p", null, sentence(error)));
    } finally {
      read.disabled = false;
    }
  }
}

/** @param {{text: string, frames: string[]}} found */
function group(found) {
  if (!found.frames.length) return h("p", null, h("b", null, found.text));
  return h("details", { class: "stack" }, h("summary", null, found.text), h("pre", { tabindex: "0" }, found.frames.join("\n")));
}
