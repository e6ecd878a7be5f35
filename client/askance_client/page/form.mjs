// The fields of a question, as a person fills them in. There is no form: nothing here can be submitted, and an answer is read
// once, when she lets the coin be flipped.

import { printable } from "../../../protocol/web/index.mjs";
import { h, unique } from "./dom.mjs";
import { SCALE, optionsOf } from "./meaning.mjs";
import { capital } from "./words.mjs";

/** @typedef {{element: HTMLElement, read: () => {value: unknown} | null}} Input what is shown, and what was given in it */

/**
 * The inputs of a question's fields.
 * @param {readonly any[]} fields
 * @param {(isGap: boolean) => string} gapHint what leaves where she says nothing
 * @param {() => void} changed
 */
export function inputs(fields, gapHint, changed) {
  const each = fields.map((field) => input(field, fields.length > 1 ? named(field) : "Your answer", fields.length > 1, gapHint, changed));
  return {
    elements: each.map(({ element }) => element),
    /** @returns {Record<string, unknown> | null} null where something is missing */
    read: () => {
      const values = each.map(({ read }) => read());
      return values.some((value) => value === null) ? null : Object.fromEntries(fields.map((field, at) => [field.name, values[at]?.value]));
    },
  };
}

/** @param {any} field */
const named = (field) => capital(field.name.replaceAll("_", " "));

/**
 * @param {any} field
 * @param {string} legend
 * @param {boolean} isShown
 * @param {(isGap: boolean) => string} gapHint
 * @param {() => void} changed
 * @returns {Input}
 */
function input(field, legend, isShown, gapHint, changed) {
  const options = optionsOf(field);
  return options === null ? typed(field, legend, gapHint, changed) : chosen(field, options, legend, isShown, gapHint, changed);
}

/**
 * @param {any} field
 * @param {readonly import("./meaning.mjs").Option[]} options
 * @param {string} legend
 * @param {boolean} isShown
 * @param {(isGap: boolean) => string} gapHint
 * @param {() => void} changed
 * @returns {Input}
 */
function chosen(field, options, legend, isShown, gapHint, changed) {
  const name = unique();
  const isScale = field.kind === "integer" && options.filter(({ isGap }) => !isGap).length <= SCALE;
  const radios = options.map(() => /** @type {HTMLInputElement} */ (h("input", { type: "radio", name, autocomplete: "off" })));
  const labels = options.map(({ label, isGap }, at) =>
    h(isScale && !isGap ? "label.choice.step" : "label.choice", {}, radios[at],
      isGap ? h("span", {}, "I cannot or will not say", h("span.hint", {}, gapHint(true))) : h("b", { dir: "auto" }, capital(label))));
  radios.forEach((radio) => radio.addEventListener("change", changed));
  const [steps, others] = isScale ? [labels.filter((_, at) => !options[at].isGap), labels.filter((_, at) => options[at].isGap)] : [[], labels];
  const element = h("fieldset", {}, h(isShown ? "legend" : "legend.sr", {}, legend), steps.length ? h("div.steps", {}, steps) : null, others);
  return {
    element,
    read: () => {
      const at = radios.findIndex((radio) => radio.checked);
      return at < 0 ? null : { value: options[at].value };
    },
  };
}

/**
 * @param {any} field
 * @param {string} legend
 * @param {(isGap: boolean) => string} gapHint
 * @param {() => void} changed
 * @returns {Input}
 */
function typed(field, legend, gapHint, changed) {
  const [id, hint] = [unique(), unique()];
  /** @type {Readonly<Record<string, readonly [string, RegExp | null]>>} */
  const kinds = {
    category: [`one of ${field.values?.slice(0, 3).map((/** @type {string} */ value) => printable(value)).join(", ")} …`, null],
    integer: [`a whole number from ${field.low} to ${field.high}`, /^[-−]?[0-9]{1,15}$/],
    real: [`a number from ${field.low} to ${field.high}`, /^[-−]?[0-9]{1,9}([.,][0-9]{1,15})?$/],
    bits: [`${field.width} digits, each 0 or 1`, /^[01]*$/],
  };
  const [what, pattern] = kinds[field.kind];
  const box = /** @type {HTMLInputElement} */ (h("input", {
    type: "text", id, autocomplete: "off", autocapitalize: "off", spellcheck: "false", "aria-describedby": hint, // A keyboard of digits has no sign.
    inputmode: field.kind === "category" || field.low < 0 ? "text" : "decimal",
  }));
  const nothing = field.gap ? /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", autocomplete: "off" })) : null;
  for (const each of [box, nothing]) each?.addEventListener("input", changed);
  const element = h("div.stack-2", {}, h("label", { for: id }, legend), h("span.hint", { id: hint }, what), box,
    nothing && h("label.choice", {}, nothing, h("span", {}, "I cannot or will not say", h("span.hint", {}, gapHint(true)))));
  const value = (/** @type {string} */ text) => {
    if (field.kind === "category") return oneOf(field.values, text);
    if (!/** @type {RegExp} */ (pattern).test(text)) return null;
    if (field.kind === "bits") return text.length === field.width ? { value: text } : null;
    const number = Number(text.replace("−", "-").replace(",", "."));
    return number >= field.low && number <= field.high ? { value: number } : null;
  };
  return { element, read: () => (nothing?.checked ? { value: null } : value(box.value.trim())) };
}

/**
 * The category that was typed: this very text, or the only one that is read alike, since keyboards write an é in two ways.
 * @param {readonly string[]} values
 * @param {string} text
 */
function oneOf(values, text) {
  const alike = (/** @type {string} */ value) => value.normalize("NFC").trim() === text.normalize("NFC");
  const found = values.includes(text) ? [text] : values.filter(alike);
  return found.length === 1 ? { value: found[0] } : null;
}
