// Columns of the event table, decoded from byte planes (python/assay/observe/timeline/blocks.py).

/** How a column is stored. */
export interface ColumnEntry {
  readonly name: string;
  readonly kind: "integer" | "float" | "text";
  readonly width: number;
  readonly delta: boolean;
  readonly nulls: boolean;
}

export type Values = Float64Array | BigInt64Array;

/** A decoded column. */
export interface Column {
  readonly values: Values;
  /** 1 where the row is null. */
  readonly nulls: Uint8Array | null;
}

/** Bytes of an integer that a double holds exactly: 6, with the sign bit of the zigzag code. */
const EXACT_BYTES = 6;

/** Decode a column of `rows` values. */
export function decodeColumn(entry: ColumnEntry, bytes: Uint8Array, rows: number): Column {
  const expected = rows * (entry.width + (entry.nulls ? 1 : 0));
  if (bytes.length !== expected) {
    throw new Error(`column ${entry.name}: expected ${expected} bytes, got ${bytes.length}`);
  }
  const nulls = entry.nulls ? bytes.subarray(rows * entry.width) : null;
  if (entry.kind === "float") return { values: floats(bytes, rows), nulls };
  // Sums of differences stay exact in a double up to 2^53; a wide difference needs 64-bit integers.
  const isExact = entry.width <= EXACT_BYTES;
  return { values: isExact ? doubles(entry, bytes, rows) : integers(entry, bytes, rows), nulls };
}

function doubles(entry: ColumnEntry, bytes: Uint8Array, rows: number): Float64Array {
  const values = new Float64Array(rows);
  for (let plane = entry.width - 1; plane >= 0; plane--) {
    const from = plane * rows;
    for (let row = 0; row < rows; row++) values[row] = values[row] * 256 + bytes[from + row];
  }
  let sum = 0;
  for (let row = 0; row < rows; row++) {
    const coded = values[row];
    const half = Math.floor(coded / 2);
    const value = coded % 2 === 1 ? -half - 1 : half;
    sum = entry.delta ? sum + value : value;
    values[row] = sum;
  }
  return values;
}

function integers(entry: ColumnEntry, bytes: Uint8Array, rows: number): BigInt64Array {
  const buffer = new Uint8Array(rows * 8);
  for (let plane = 0; plane < entry.width; plane++) {
    const from = plane * rows;
    for (let row = 0; row < rows; row++) buffer[row * 8 + plane] = bytes[from + row];
  }
  const coded = new BigUint64Array(buffer.buffer);
  const values = new BigInt64Array(buffer.buffer);
  let sum = 0n;
  for (let row = 0; row < rows; row++) {
    const value = BigInt.asIntN(64, (coded[row] >> 1n) ^ -(coded[row] & 1n));
    sum = entry.delta ? BigInt.asIntN(64, sum + value) : value;
    values[row] = sum;
  }
  return values;
}

function floats(bytes: Uint8Array, rows: number): Float64Array {
  const buffer = new Uint8Array(rows * 8);
  for (let plane = 0; plane < 8; plane++) {
    for (let row = 0; row < rows; row++) buffer[row * 8 + plane] = bytes[plane * rows + row];
  }
  return new Float64Array(buffer.buffer);
}
