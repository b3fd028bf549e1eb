// Small charts of the progress: the step over time, and the loss over the steps.

import { h, svg, whenChanged } from "./dom.js";
import { duration, t } from "./i18n.js";

const WIDTH = 300;
const HEIGHT = 64;

/** @typedef {[number, number | null, number | null]} Point time, step and loss */

/** Charts in an element that is hidden while there is nothing to draw. @param {HTMLElement} root */
export function progressCharts(root) {
  const draw = whenChanged(root, (/** @type {Point[]} */ points) => {
    const steps = points.flatMap(([time, step]) => (step === null ? [] : [/** @type {[number, number]} */ ([time, step])]));
    let last = 0;
    /** @type {[number, number][]} */
    const losses = [];
    for (const [, step, loss] of points) {
      last = step ?? last + 1;
      if (loss !== null) losses.push([last, loss]);
    }
    return [
      chart(t("Step"), steps, (time) => elapsed(time - steps[0][0])),
      chart(t("Loss"), losses, (step) => `${t("Step")} ${step}`),
    ];
  });
  return {
    element: root,
    /** @param {Point[]} points */
    update(points) {
      draw(points);
      root.hidden = !root.childElementCount;
    },
  };
}

/** @param {string} title @param {[number, number][]} points @param {(x: number) => string} text @returns {HTMLElement | null} */
function chart(title, points, text) {
  if (points.length < 2) return null;
  const [left, right] = range(points.map(([x]) => x));
  const [low, high] = range(points.map(([, y]) => y));
  if (left === right) return null;
  const place = ([x, y] = points[0]) => `${((WIDTH * (x - left)) / (right - left)).toFixed(1)},${(HEIGHT - 3 - ((HEIGHT - 6) * (y - low)) / (high - low || 1)).toFixed(1)}`;
  const newest = points[points.length - 1];
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${number(points[0][1])} → ${number(newest[1])}` });
  drawing.append(svg("polyline", { points: points.map(place).join(" ") }));
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", null, h("b", null, title), ` ${number(newest[1])} `, h("span", { class: "dim" }, `(${number(low)} – ${number(high)})`)),
    drawing,
    h("p", { class: "dim ends" }, h("span", null, text(left)), h("span", null, text(right))),
  );
}

/** @param {number} seconds */
function elapsed(seconds) {
  return seconds < 10 ? `${Number(seconds.toFixed(1))}s` : duration(seconds);
}

/** @param {number[]} values @returns {[number, number]} */
function range(values) {
  return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
}

/** @param {number} value */
function number(value) {
  return String(Number(value.toPrecision(4)));
}
