// What a rank uses and how far it is, as text.

import { language, t } from "./i18n.js";

/** @typedef {{cpu?: number, memory?: number, gpu?: number | null, gpuMemory?: number | null, step?: number, total?: number | null}} Usage */

/** @param {Usage} use */
export function step(use) {
  return use.step === undefined ? "–" : use.total ? `${use.step}/${use.total}` : String(use.step);
}

/** @param {number | null} [value] */
export function percent(value) {
  return value === undefined || value === null ? "–" : `${Math.round(value)}%`;
}

/** @param {number | null} [value] */
export function bytes(value) {
  if (value === undefined || value === null) return "–";
  const power = Math.min(3, Math.floor(Math.log2(Math.max(1, value)) / 10));
  return `${(value / 1024 ** power).toFixed(power === 3 ? 1 : 0)}${["", "Ki", "Mi", "Gi"][power]}`;
}

/** @param {any} pod @param {Usage} use */
export function gpu(pod, use) {
  if (!pod.gpus?.length && (use.gpu ?? null) === null) return "–";
  return `${(pod.gpus ?? []).join(",")} ${percent(use.gpu)} ${bytes(use.gpuMemory)}`.trim();
}

/** What the server says about the progress of a job, in the chosen language. @param {string} text */
export function progressText(text) {
  if (language() === "en") return text;
  const words = [t("epoch"), t("step"), t("steps/s"), t("loss"), t("left")];
  return text
    .replace(/epoch (\S+?)(?=,|$)/, `${words[0]} $1`)
    .replace(/\bstep /, `${words[1]} `)
    .replace("steps/s", words[2])
    .replace(/\bloss /, `${words[3]} `)
    .replace(/(\S+) left/, `${words[4]} $1`);
}
