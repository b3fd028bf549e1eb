// Elements without markup: text is always set as text, so that no name or log line is ever interpreted.

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {Record<string, any>} Properties
 */

// eslint-disable-next-line no-control-regex
const CONTROL = /\x1b\[[0-9;?]*[ -\/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** A text without the colours and titles that programs write for terminals. @param {string} text */
export function plain(text) {
  return text.replace(CONTROL, "");
}

/**
 * An element. Properties that begin with "on" are listeners, "class" and "aria-..." are attributes.
 * @param {string} tag
 * @param {Properties | null} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "value" || name === "checked") /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** An element of a drawing. @param {string} tag @param {Record<string, string | number>} attributes @returns {SVGElement} */
export function svg(tag, attributes) {
  const element = /** @type {SVGElement} */ (document.createElementNS("http://www.w3.org/2000/svg", tag));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** @param {Element} element @param {(Child | Child[])[]} children */
function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces what is in an element. @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * A function that replaces what is in an element, but only when the values it is built from differ from those of the
 * last call: focus, a selection and a click that has begun survive updates that change nothing.
 * @template {unknown[]} Values
 * @param {Element} element
 * @param {(...values: Values) => Child[]} build
 * @returns {(...values: Values) => void}
 */
export function whenChanged(element, build) {
  let shown = "";
  return (...values) => {
    const now = JSON.stringify(values);
    if (now === shown) return;
    shown = now;
    fill(element, ...build(...values));
  };
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** Calls a function at most once per animation frame. @param {() => void} draw */
export function perFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}
