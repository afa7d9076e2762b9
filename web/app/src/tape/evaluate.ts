// Evaluation of one formula. An interpreter over typed arrays, not generated code: a page's security
// policy forbids `eval`, and the whole lab takes well under a millisecond this way.

import { type Formula, OPERATIONS as O } from "./graph";

/** The value of a formula whose inputs are the first entries of `formula.values`. */
export function evaluate(formula: Formula): number {
  const { code, values } = formula;
  let target = formula.start;
  for (let at = 0; at < code.length; at += 4) {
    values[target++] = operate(code[at], values, code[at + 1], code[at + 2], code[at + 3]);
  }
  return values[formula.result];
}

function operate(op: number, v: Float64Array, a: number, b: number, c: number): number {
  switch (op) {
    case O.add:
      return v[a] + v[b];
    case O.sub:
      return v[a] - v[b];
    case O.mul:
      return v[a] * v[b];
    case O.div:
      return v[a] / v[b];
    case O.neg:
      return -v[a];
    case O.pow:
      return power(v[a], v[b]);
    case O.powi:
      return b === 2 ? v[a] * v[a] : b === -1 ? 1 / v[a] : v[a] ** b;
    case O.sqrt:
      return Math.sqrt(v[a]);
    case O.exp:
      return Math.exp(v[a]);
    case O.log:
      return Math.log(v[a]);
    case O.log2:
      return Math.log2(v[a]);
    case O.log10:
      return Math.log10(v[a]);
    case O.expm1:
      return Math.expm1(v[a]);
    case O.log1p:
      return Math.log1p(v[a]);
    case O.abs:
      return Math.abs(v[a]);
    case O.minimum:
      return Math.min(v[a], v[b]);
    case O.maximum:
      return Math.max(v[a], v[b]);
    case O.floor:
      return Math.floor(v[a]);
    case O.ceil:
      return Math.ceil(v[a]);
    case O.round:
      return roundHalfEven(v[a]);
    case O.modulo:
      return modulo(v[a], v[b]);
    case O.sin:
      return Math.sin(v[a]);
    case O.cos:
      return Math.cos(v[a]);
    case O.tan:
      return Math.tan(v[a]);
    case O.atan:
      return Math.atan(v[a]);
    case O.tanh:
      return Math.tanh(v[a]);
    case O.erf:
      return erf(v[a]);
    case O.lt:
      return v[a] < v[b] ? 1 : 0;
    case O.le:
      return v[a] <= v[b] ? 1 : 0;
    case O.gt:
      return v[a] > v[b] ? 1 : 0;
    case O.ge:
      return v[a] >= v[b] ? 1 : 0;
    case O.eq:
      return v[a] === v[b] ? 1 : 0;
    case O.ne:
      return v[a] !== v[b] ? 1 : 0;
    // What is not a number counts as true here, as in the tape.
    case O.and:
      return v[a] !== 0 && v[b] !== 0 ? 1 : 0;
    case O.or:
      return v[a] !== 0 || v[b] !== 0 ? 1 : 0;
    case O.not:
      return v[a] === 0 ? 1 : 0;
    case O.select:
      return v[c] !== 0 ? v[a] : v[b];
    default:
      throw new Error(`unknown operation ${op}`);
  }
}

const TWO = "add sub mul div pow minimum maximum modulo lt le gt ge eq ne and or".split(" ");

/** How many operands each operation reads, by code. */
const ARITY = new Uint8Array(64);
for (const [name, code] of Object.entries(O)) {
  ARITY[code] = name === "select" ? 3 : TWO.includes(name) ? 2 : 1;
}

/**
 * The value where some inputs have none, and which inputs it depends on.
 *
 * A choice with a known condition depends on the branch that it takes only. The value is undefined
 * where an input that it depends on has none.
 */
export function evaluatePartly(
  formula: Formula,
  isKnown: Uint8Array,
): { value: number | undefined; needed: number[] } {
  const { code, values, start, inputs } = formula;
  const known = new Uint8Array(values.length).fill(1, inputs, start);
  known.set(isKnown);
  for (let at = 0, target = start; at < code.length; at += 4, target++) {
    const op = code[at];
    const a = code[at + 1];
    const b = code[at + 2];
    const c = code[at + 3];
    if (op === O.select && known[c]) {
      const taken = values[c] !== 0 ? a : b;
      known[target] = known[taken];
      values[target] = values[taken];
      continue;
    }
    const count = ARITY[op];
    if (known[a] && (count < 2 || known[b]) && (count < 3 || known[c])) {
      known[target] = 1;
      values[target] = operate(op, values, a, b, c);
    }
  }
  return {
    value: known[formula.result] ? values[formula.result] : undefined,
    needed: neededInputs(formula, known),
  };
}

/** The inputs that the result depends on; instructions refer to earlier values only. */
function neededInputs(formula: Formula, known: Uint8Array): number[] {
  const { code, values, start } = formula;
  const needed = new Uint8Array(values.length);
  needed[formula.result] = 1;
  for (let value = values.length - 1; value >= start; value--) {
    if (!needed[value]) continue;
    const at = 4 * (value - start);
    const op = code[at];
    if (op === O.select) {
      const condition = code[at + 3];
      needed[condition] = 1;
      if (!known[condition] || values[condition] !== 0) needed[code[at + 1]] = 1;
      if (!known[condition] || values[condition] === 0) needed[code[at + 2]] = 1;
    } else {
      needed[code[at + 1]] = 1;
      if (ARITY[op] > 1) needed[code[at + 2]] = 1;
    }
  }
  const found: number[] = [];
  for (let input = 0; input < formula.inputs; input++) if (needed[input]) found.push(input);
  return found;
}

function power(base: number, exponent: number): number {
  // C's pow and IEEE 754 say 1 where JavaScript says NaN.
  if (base === 1 || (base === -1 && Math.abs(exponent) === Number.POSITIVE_INFINITY)) return 1;
  return base ** exponent;
}

function modulo(a: number, b: number): number {
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

function roundHalfEven(value: number): number {
  const below = Math.floor(value);
  const part = value - below;
  if (part !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

/** The error function to about 1e-15, by its series near 0 and a continued fraction beyond. */
export function erf(x: number): number {
  const size = Math.abs(x);
  if (Number.isNaN(size)) return x;
  if (size > 6) return Math.sign(x);
  return Math.sign(x) * (size < 2.5 ? series(size) : 1 - fraction(size));
}

/** Abramowitz and Stegun 7.1.6: all terms are positive, so nothing cancels. */
function series(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; term > 1e-17 * sum; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** The complementary error function, Abramowitz and Stegun 7.1.14. */
function fraction(x: number): number {
  let tail = 0;
  for (let n = 60; n > 0; n--) tail = n / 2 / (x + tail);
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + tail);
}
