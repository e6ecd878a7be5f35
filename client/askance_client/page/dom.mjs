// Elements, made by name. Text is text: nothing that a server says is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | null | undefined | false} Child */

/**
 * @param {Element} element
 * @param {Record<string, unknown>} attributes a function listens to what its name says: `onclick`; null, undefined and false are left out
 * @param {readonly (Child | readonly Child[])[]} children
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), /** @type {EventListener} */ (value));
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child) element.append(child);
  return element;
}

/**
 * An element of HTML.
 * @param {string} name with its classes: `p.small.quiet`
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Child | readonly Child[])} children
 * @returns {HTMLElement}
 */
export function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  return /** @type {HTMLElement} */ (filled(element, attributes, children));
}

/**
 * An element of SVG.
 * @param {string} name
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Child | readonly Child[])} children
 * @returns {SVGElement}
 */
export function s(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElementNS(SVG, tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  return /** @type {SVGElement} */ (filled(element, attributes, children));
}

/** Identifiers that stand once in the page. */
let last = 0;
export const unique = () => `n${++last}`;
