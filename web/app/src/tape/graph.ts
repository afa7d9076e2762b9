// The graph of equations as the server writes it (`assay export --format tape`), made ready to run.

export interface UnitData {
  text: string;
  scale: number;
  offset?: number;
  choices?: UnitData[];
}

export interface VariableData {
  name: string;
  symbol: string;
  meaning: string;
  unit: number;
  constant?: number;
  lower?: number;
  upper?: number;
  count?: boolean;
  target?: boolean;
  relations?: number[];
}

export interface ConditionData {
  inputs: number[];
  certain: number;
  possible: number;
}

export interface RelationData {
  name: string;
  kind: string;
  inputs: number[];
  formula: number | null;
  identity?: boolean;
  partly?: boolean;
  valid?: ConditionData & { text: string };
}

export interface ConstraintData extends ConditionData {
  name: string;
  text: string;
  meaning: string;
}

export interface BlockData {
  name: string;
  members: number[];
  starts: (number | null)[];
}

interface FormulaData {
  inputs: number;
  constants: number[];
  code: number[];
  result: number;
}

export interface GraphData {
  format: number;
  key: string;
  operations: Record<string, number>;
  variables: VariableData[];
  relations: RelationData[];
  constraints: ConstraintData[];
  blocks: BlockData[];
  formulas: FormulaData[];
  units: UnitData[];
}

/** A lowered expression: its values are inputs, then constants, then one per instruction. */
export interface Formula {
  inputs: number;
  /** Instructions of four numbers: code and operands. */
  code: Int32Array;
  /** Where the instructions' values start. */
  start: number;
  values: Float64Array;
  result: number;
}

/** Codes of the tape's operations; they never change meaning, and `readGraph` checks them. */
export const OPERATIONS = {
  add: 1,
  sub: 2,
  mul: 3,
  div: 4,
  neg: 5,
  pow: 6,
  powi: 7,
  sqrt: 8,
  exp: 9,
  log: 10,
  log2: 11,
  log10: 12,
  expm1: 13,
  log1p: 14,
  abs: 15,
  minimum: 16,
  maximum: 17,
  floor: 18,
  ceil: 19,
  round: 20,
  modulo: 21,
  sin: 22,
  cos: 23,
  tan: 24,
  atan: 25,
  tanh: 26,
  erf: 27,
  lt: 28,
  le: 29,
  gt: 30,
  ge: 31,
  eq: 32,
  ne: 33,
  and: 34,
  or: 35,
  not: 36,
  select: 37,
} as const;

const FORMAT = 1;

export class Graph {
  readonly position = new Map<string, number>();
  readonly formulas: Formula[];
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  readonly constants: Int32Array;
  /** The block that each variable is a member of, or -1. */
  readonly blockOf: Int32Array;
  readonly relationNumber = new Map<string, number>();

  constructor(readonly data: GraphData) {
    const count = data.variables.length;
    this.lower = new Float64Array(count).fill(Number.NEGATIVE_INFINITY);
    this.upper = new Float64Array(count).fill(Number.POSITIVE_INFINITY);
    this.blockOf = new Int32Array(count).fill(-1);
    const constants: number[] = [];
    for (const [index, variable] of data.variables.entries()) {
      this.position.set(variable.name, index);
      if (variable.lower !== undefined) this.lower[index] = variable.lower;
      if (variable.upper !== undefined) this.upper[index] = variable.upper;
      if (variable.constant !== undefined) constants.push(index);
    }
    this.constants = Int32Array.from(constants);
    for (const [number, block] of data.blocks.entries()) {
      for (const member of block.members) this.blockOf[member] = number;
    }
    for (const [number, relation] of data.relations.entries()) {
      this.relationNumber.set(relation.name, number);
    }
    this.formulas = data.formulas.map(readFormula);
  }

  variable(index: number): VariableData {
    return this.data.variables[index];
  }

  unit(index: number): UnitData {
    return this.data.units[this.data.variables[index].unit];
  }

  /** The position of a variable; throws where there is none of this name. */
  find(name: string): number {
    const index = this.position.get(name);
    if (index === undefined) throw new Error(`unknown variable "${name}"`);
    return index;
  }

  /** A number in the display unit as one in base units, and back. */
  toBase(index: number, shown: number): number {
    return toBase(this.unit(index), shown);
  }

  fromBase(index: number, value: number): number {
    return fromBase(this.unit(index), value);
  }
}

export function toBase(unit: UnitData, shown: number): number {
  return shown * unit.scale + (unit.offset ?? 0);
}

export function fromBase(unit: UnitData, value: number): number {
  return (value - (unit.offset ?? 0)) / unit.scale;
}

/** Check the format and prepare the graph. */
export function readGraph(data: GraphData): Graph {
  if (data.format !== FORMAT) {
    throw new Error(`expected graph data of format ${FORMAT}, got ${data.format}`);
  }
  for (const [name, code] of Object.entries(OPERATIONS)) {
    if (data.operations[name] !== code) {
      throw new Error(`operation ${name}: expected code ${code}, got ${data.operations[name]}`);
    }
  }
  return new Graph(data);
}

function readFormula(data: FormulaData): Formula {
  const start = data.inputs + data.constants.length;
  const values = new Float64Array(start + data.code.length / 4);
  values.set(data.constants, data.inputs);
  return {
    inputs: data.inputs,
    code: Int32Array.from(data.code, (word) => word | 0),
    start,
    values,
    result: data.result,
  };
}
