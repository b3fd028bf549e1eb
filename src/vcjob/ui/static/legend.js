// How many pods are in each phase; the one that is chosen is shown alone.

import { h } from "./dom.js";
import { t } from "./i18n.js";
import { kind } from "./phases.js";

const PHASES = ["Failed", "Pending", "Running", "Succeeded", "Unknown"];

/** @param {(phase: string) => void} choose gets "" for all of them */
export function phaseLegend(choose) {
  let chosen = "";
  const entries = PHASES.map((phase) => {
    const count = h("b", null, "0");
    const button = h("button", { "aria-pressed": "false", hidden: true, onclick: () => pick(phase) }, h("i", { class: `swatch ${kind(phase)}` }), t(phase), " ", count);
    return { phase, count, button };
  });

  /** @param {string} phase */
  function pick(phase) {
    chosen = phase === chosen ? "" : phase;
    for (const each of entries) each.button.setAttribute("aria-pressed", String(each.phase === chosen));
    choose(chosen);
  }

  return {
    element: h("div", { class: "row legend", role: "group", "aria-label": t("Phase") }, entries.map((each) => each.button)),
    /** @param {any[]} pods */
    update(pods) {
      const several = new Set(pods.map((pod) => pod.phase)).size > 1;
      for (const { phase, count, button } of entries) {
        const now = String(pods.filter((pod) => pod.phase === phase).length);
        if (count.textContent !== now) count.textContent = now;
        button.hidden = phase !== chosen && (now === "0" || !several);
      }
    },
  };
}
