// The answer of a query, by the same steps whatever the example.
//
// Theory of operation
// -------------------
// A server sends questions and clocks the answers, so time must not tell one example from another. A query is
// compiled, once and from public data, to a list of steps that is walked from one end to the other:
//
// - Every value stands in a register, an element of one `Float64Array`: an engine stores and adds doubles alike
//   whatever they are. Nothing is a `BigInt`, and no value is kept by itself, where an engine stores it in another
//   way when it is small.
// - A vector is read in its whole length: `dot`, `slice` and `parity` are one product with public weights.
// - All parts of a node are evaluated. They are joined by counting, and picked by an index, never by a branch: there
//   is no `&&`, `||`, `?:` or `if` over a value of the example, and no loop that ends by one.
// - What is kept between answers is made of the query. The registers are new for each.
//
// The check of bounds (`bounds.mjs`) has shown that every sum stays within ±(2^53 − 1), where doubles are exact.

import { empty, fieldOf } from "./schema.mjs";

/** @typedef {import("./examples.mjs").Example} Example */
/** @typedef {import("./queries.mjs").Query} Query */
/** @typedef {import("./queries.mjs").Test} Test */
/** @typedef {import("./queries.mjs").Numeric} Numeric */
/** @typedef {import("./schema.mjs").Schema} Schema */
/** @typedef {(registers: Float64Array, example: Example) => void} Step */

/** @type {Readonly<Record<import("./queries.mjs").Relation, (a: number, b: number) => boolean>>} */
const RELATIONS = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  "=": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  ">=": (a, b) => a >= b,
  ">": (a, b) => a > b,
};

/**
 * How a query is answered over examples of a schema that it has been checked against.
 * @param {Query} query
 * @param {Schema} schema
 * @returns {(example: Example) => number}
 */
export function compile(query, schema) {
  const program = new Program(schema);
  const at = answerOf(program, query);
  const { steps, size } = program;
  return (example) => {
    const registers = new Float64Array(size);
    for (const step of steps) step(registers, example);
    return registers[at];
  };
}

/**
 * @param {Program} program
 * @param {Query} query
 * @returns {number} the register of the answer
 */
function answerOf(program, query) {
  if (query.kind === "boolean") return program.test(query.test);
  if (query.kind === "real") {
    return program.clamped(program.number(query.numerator), -query.denominator, query.denominator);
  }
  const [cell, cells] = [program.number(query.cell), query.cells];
  const negative = query.negative === undefined ? program.constant(0) : program.test(query.negative);
  return program.add((at) => (registers) => {
    const inside = Number(registers[cell] >= 0) & Number(registers[cell] < cells);
    // The sum with 0 makes 0 of −0.
    registers[at] = (registers[cell] + 1) * inside * (1 - 2 * registers[negative]) + 0;
  });
}

/** The steps so far. Each method adds those of a node, and gives the register that will hold its value. */
class Program {
  /** @param {Schema} schema */
  constructor(schema) {
    this.schema = schema;
    /** @type {Step[]} */
    this.steps = [];
    this.size = 0;
  }

  /** @param {(at: number) => Step} step */
  add(step) {
    const at = this.size++;
    this.steps.push(step(at));
    return at;
  }

  /** @param {string} name */
  position(name) {
    return this.schema.fields.indexOf(fieldOf(this.schema, name, "field"));
  }

  /** @param {number} value */
  constant(value) {
    return this.add((at) => (registers) => {
      registers[at] = value;
    });
  }

  /**
   * @param {number} value its register
   * @param {number} low
   * @param {number} high
   */
  clamped(value, low, high) {
    return this.add((at) => (registers) => {
      registers[at] = Math.min(Math.max(registers[value], low), high);
    });
  }

  /**
   * Σ weight · bit over the bits first, first + 1, … of a vector.
   * @param {string} name
   * @param {Float64Array} weights
   * @param {number} [first]
   */
  product(name, weights, first = 0) {
    const [position, count] = [this.position(name), weights.length];
    return this.add((at) => (registers, example) => {
      const bits = example.bits[position];
      for (let index = 0; index < count; index++) registers[at] += weights[index] * bits[first + index];
    });
  }

  /**
   * Whether a field holds a number.
   * @param {string} name
   * @param {number} number
   */
  holds(name, number) {
    const position = this.position(name);
    return this.add((at) => (registers, example) => {
      registers[at] = Number(example.numbers[position] === number);
    });
  }

  /**
   * Count the tests that hold.
   * @param {readonly Test[]} tests
   */
  count(tests) {
    const held = tests.map((test) => this.test(test));
    return this.add((at) => (registers) => {
      for (const each of held) registers[at] += registers[each];
    });
  }

  /**
   * @param {Test} node
   * @returns {number}
   */
  test(node) {
    switch (node.op) {
      case "constant":
        return this.constant(Number(node.truth));
      case "bit": {
        const [position, index] = [this.position(node.field), node.index];
        return this.add((at) => (registers, example) => {
          registers[at] = example.bits[position][index];
        });
      }
      case "parity":
        return this.odd(this.product(node.field, maskBits(node.mask)));
      case "is":
        return this.holds(node.field, this.indexOf(node.field, node.category));
      case "label":
        return this.holds(this.label(), node.sign);
      case "not": {
        const of = this.test(node.of);
        return this.add((at) => (registers) => {
          registers[at] = 1 - registers[of];
        });
      }
      case "and":
        return this.reached(this.count(node.of), node.of.length);
      case "or":
        return this.reached(this.count(node.of), 1);
      case "xor":
        return this.odd(this.count(node.of));
      case "compare": {
        const [left, right, relation] = [this.number(node.left), this.number(node.right), RELATIONS[node.relation]];
        return this.add((at) => (registers) => {
          registers[at] = Number(relation(registers[left], registers[right]));
        });
      }
    }
  }

  /** @param {number} count its register */
  odd(count) {
    return this.add((at) => (registers) => {
      registers[at] = registers[count] & 1;
    });
  }

  /**
   * @param {number} count its register
   * @param {number} least
   */
  reached(count, least) {
    return this.add((at) => (registers) => {
      registers[at] = Number(registers[count] >= least);
    });
  }

  label() {
    return this.schema.fields.find(({ kind }) => kind === "label")?.name ?? "";
  }

  /**
   * @param {string} name
   * @param {string} category
   */
  indexOf(name, category) {
    const field = fieldOf(this.schema, name, "field");
    return field.kind === "category" ? field.values.indexOf(category) : -1;
  }

  /**
   * @param {Numeric} node
   * @returns {number}
   */
  number(node) {
    switch (node.op) {
      case "integer":
        return this.constant(node.of);
      case "field":
        return this.field(node);
      case "slice":
        return this.product(
          node.field,
          Float64Array.from({ length: node.width }, (_, bit) => 2 ** bit),
          node.first,
        );
      case "dot":
        return this.product(node.field, Float64Array.from(node.weights));
      case "affine":
        return this.affine(node);
      case "lookup": {
        // The default stands before and behind the table, where an index is clamped to.
        const table = Float64Array.of(node.default, ...node.table, node.default);
        const index = this.clamped(this.number(node.index), -1, node.table.length);
        return this.add((at) => (registers) => {
          registers[at] = table[registers[index] + 1];
        });
      }
      case "if": {
        const [test, then, otherwise] = [this.test(node.test), this.number(node.then), this.number(node.otherwise)];
        const choices = Float64Array.of(otherwise, then);
        return this.add((at) => (registers) => {
          registers[at] = registers[choices[registers[test]]];
        });
      }
      case "clamp":
        return this.clamped(this.number(node.of), node.low, node.high);
    }
  }

  /** @param {Extract<Numeric, {op: "affine"}>} node */
  affine(node) {
    const [constant, summands] = [node.constant, node.terms.map(({ of }) => this.number(of))];
    const weights = Float64Array.from(node.terms, ({ weight }) => weight);
    return this.add((at) => (registers) => {
      registers[at] = constant;
      for (let index = 0; index < weights.length; index++) registers[at] += weights[index] * registers[summands[index]];
    });
  }

  /** @param {Extract<Numeric, {op: "field"}>} node */
  field(node) {
    const position = this.position(node.field);
    if (node.gap === undefined) {
      return this.add((at) => (registers, example) => {
        registers[at] = example.numbers[position];
      });
    }
    const field = fieldOf(this.schema, node.field, "field");
    const [gap, nothing] = [node.gap, field.kind === "bits" ? NaN : empty(field)];
    return this.add((at) => (registers, example) => {
      const either = Float64Array.of(example.numbers[position], gap);
      registers[at] = either[Number(example.numbers[position] === nothing)];
    });
  }
}

/**
 * The bits of a mask, the lowest first, up to the highest that is set.
 * @param {string} mask hexadecimal
 */
function maskBits(mask) {
  const digits = BigInt(`0x${mask}`).toString(2);
  return Float64Array.from(digits === "0" ? "" : [...digits].reverse().join(""), Number);
}
