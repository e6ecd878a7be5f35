// What was learned: JSON with floats inside a text, each as the shortest decimal that reads back as the same double.

import { Double, parse } from "./json.mjs";
import { Refusal, isObject, record, refuse, text } from "./shape.mjs";

/** The object that the data is. */
export function readData(value, place) {
  text(0, 2 ** 20)(value, place);
  try {
    const data = parse(value, { doubles: true });
    return isObject(data) && !(data instanceof Double) ? data : refuse(place, "is no object");
  } catch (error) {
    if (error instanceof Refusal) refuse(place, error.message);
    throw error;
  }
}

export const readHypothesis = record({ text: text(0, 2 ** 16), data: readData });

/** As Python's repr writes it: JavaScript finds the same digits, but takes an exponent elsewhere. */
function shortest(value) {
  if (Object.is(value, -0)) return "-0.0";
  const [digits, power] = Math.abs(value).toExponential().split("e");
  const sign = value < 0 ? "-" : "";
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    return `${sign}${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  const figures = digits.replace(".", "");
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${figures}`;
  const whole = figures.padEnd(exponent + 1, "0");
  return `${sign}${whole.slice(0, exponent + 1)}.${whole.slice(exponent + 1) || "0"}`;
}

const ascii = (value) =>
  JSON.stringify(value).replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The one way in which data is written. */
export function writeData(value) {
  if (value instanceof Double) return shortest(value.value);
  if (Array.isArray(value)) return `[${value.map(writeData).join(",")}]`;
  if (isObject(value)) return `{${Object.keys(value).sort().map((name) => `${ascii(name)}:${writeData(value[name])}`).join(",")}}`;
  return typeof value === "string" ? ascii(value) : String(value);
}

/** The 16 hexadecimal digits of a double. */
export function bits(value) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}
