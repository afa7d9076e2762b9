// What the variables of the model are, and where the tape's inputs and outputs about them stand. The
// server writes it (python/assay/ui/lab_model.py).

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
  lower?: number;
  upper?: number;
  count?: boolean;
  target?: boolean;
  /** Names of the relations that may define it, and the preferred one; -1 where there is none. */
  relations: string[];
  relation: number;
}

export interface ConditionData {
  name: string;
  text: string;
  meaning?: string;
}

export interface ModelData {
  variables: VariableData[];
  units: UnitData[];
  /** How many inputs and outputs the tape has in each section, in their order. */
  inputs: Record<string, number>;
  outputs: Record<string, number>;
  /** Variables of the sections that are not about all of them. */
  computed: number[];
  several: number[];
  exact: number[];
  constraints: ConditionData[];
  validity: ConditionData[];
  refusals: { text: string; numbers: number }[];
  draw: { tape: string; inputs: string[]; assigned: number; scores: number[]; end: number };
}

export class Graph {
  readonly position = new Map<string, number>();
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  /** The variable and the place of each relation, by name. */
  readonly relations = new Map<string, { variable: number; number: number }>();
  private readonly inputs: ReadonlyMap<string, number>;
  private readonly outputs: ReadonlyMap<string, number>;

  constructor(readonly data: ModelData) {
    const count = data.variables.length;
    this.lower = new Float64Array(count).fill(Number.NEGATIVE_INFINITY);
    this.upper = new Float64Array(count).fill(Number.POSITIVE_INFINITY);
    for (const [index, variable] of data.variables.entries()) {
      this.position.set(variable.name, index);
      if (variable.lower !== undefined) this.lower[index] = variable.lower;
      if (variable.upper !== undefined) this.upper[index] = variable.upper;
      for (const [number, name] of variable.relations.entries()) {
        this.relations.set(name, { variable: index, number });
      }
    }
    this.inputs = starts(data.inputs);
    this.outputs = starts(data.outputs);
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

  /** Where a section of the tape's inputs or outputs begins. */
  input(section: string): number {
    return this.inputs.get(section)!;
  }

  output(section: string): number {
    return this.outputs.get(section)!;
  }

  /** A number in the display unit as one in base units, and back. */
  toBase(index: number, shown: number): number {
    return toBase(this.unit(index), shown);
  }

  fromBase(index: number, value: number): number {
    return fromBase(this.unit(index), value);
  }
}

function starts(sizes: Record<string, number>): Map<string, number> {
  const places = new Map<string, number>();
  let next = 0;
  for (const [section, size] of Object.entries(sizes)) {
    places.set(section, next);
    next += size;
  }
  return places;
}

export function toBase(unit: UnitData, shown: number): number {
  return shown * unit.scale + (unit.offset ?? 0);
}

export function fromBase(unit: UnitData, value: number): number {
  return (value - (unit.offset ?? 0)) / unit.scale;
}
