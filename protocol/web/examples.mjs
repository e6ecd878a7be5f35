// One user's example, in the form that queries look at: a double for each number and an element for each bit, of a
// size that the schema says, made before a question comes. An engine stores a double in a `Float64Array` alike
// whatever it is; as a value of its own it would be stored in another way where it is small.

import { ProtocolError } from "./errors.mjs";
import { parseBits, parseNumber, sameSchema } from "./schema.mjs";
import { quoted } from "./text.mjs";

/** @typedef {import("./schema.mjs").Schema} Schema */

/** What one user holds and never sends. It has no readable form, so that no log, page or store can show it. */
export class Example {
  /** @type {Float64Array} */
  #numbers;
  /** @type {readonly Uint8Array[]} */
  #bits;

  /**
   * @param {Schema} schema
   * @param {{readonly [name: string]: unknown}} record what a person wrote: every field once, null where there is
   *   nothing
   */
  constructor(schema, record) {
    for (const name of Object.keys(record)) {
      if (!schema.fields.some((field) => field.name === name)) {
        throw new ProtocolError(`has a field ${quoted(name)} that the schema has not`, "example", "leave it out");
      }
    }
    const values = schema.fields.map(({ name }) => {
      if (!Object.hasOwn(record, name))
        throw new ProtocolError(`lacks the field ${quoted(name)}`, "example", "give every field");
      return record[name];
    });
    this.schema = schema;
    this.#numbers = Float64Array.from(schema.fields, (field, at) =>
      field.kind === "bits" ? 0 : parseNumber(field, values[at]),
    );
    this.#bits = schema.fields.map((field, at) =>
      field.kind === "bits" ? parseBits(field, values[at]) : new Uint8Array(0),
    );
    Object.freeze(this);
  }

  /** The number of each field, in the schema's order; 0 for a vector. */
  get numbers() {
    return this.#numbers;
  }

  /** The bits of each field, in the schema's order; none for a number. */
  get bits() {
    return this.#bits;
  }

  /**
   * Refuse another schema than this one's.
   * @param {Schema} schema
   */
  checkSchema(schema) {
    if (!sameSchema(schema, this.schema)) {
      throw new ProtocolError("is of another schema", "example", "prepare the query for this schema");
    }
  }
}
