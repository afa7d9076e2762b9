import assert from "node:assert/strict";
import { test } from "node:test";
import { type ColumnEntry, decodeColumn } from "../src/columns";

/** Byte planes of zigzag codes, written the slow way. */
function encode(values: (bigint | null)[], isDelta: boolean): [ColumnEntry, Uint8Array] {
  let last = 0n;
  const coded = values.map((value) => {
    const full = value ?? (isDelta ? last : 0n);
    const stored = BigInt.asIntN(64, isDelta ? full - last : full);
    last = full;
    return BigInt.asUintN(64, (stored << 1n) ^ (stored >> 63n));
  });
  const bits = Math.max(...coded.map((one) => one.toString(2).length), 1);
  const width = Math.ceil(bits / 8);
  const nulls = values.some((value) => value === null);
  const bytes: number[] = [];
  for (let plane = 0; plane < width; plane++) {
    for (const one of coded) bytes.push(Number((one >> BigInt(8 * plane)) & 255n));
  }
  if (nulls) bytes.push(...values.map((value) => (value === null ? 1 : 0)));
  const entry = { name: "x", kind: "integer" as const, width, delta: isDelta, nulls };
  return [entry, Uint8Array.from(bytes)];
}

const CASES: (bigint | null)[][] = [
  [0n],
  [1n, -1n, 255n, -256n, 65536n],
  [5n, null, 7n, null],
  [(1n << 63n) - 1n, -(1n << 63n), 0n, 12n],
  [1n << 53n, (1n << 53n) + 1n],
];

for (const isDelta of [false, true]) {
  for (const values of CASES) {
    test(`integers ${values} ${isDelta ? "as differences" : "as they are"}`, () => {
      const [entry, bytes] = encode(values, isDelta);
      const column = decodeColumn(entry, bytes, values.length);
      values.forEach((value, row) => {
        if (value === null) assert.equal(column.nulls?.[row], 1);
        else assert.equal(BigInt(column.values[row]), value);
      });
    });
  }
}

test("floats keep their bits", () => {
  const values = [0.1, -0, Number.MAX_VALUE, 1e-300];
  const raw = new Uint8Array(Float64Array.from(values).buffer);
  const planes = new Uint8Array(raw.length);
  for (let row = 0; row < 4; row++) {
    for (let plane = 0; plane < 8; plane++) planes[plane * 4 + row] = raw[row * 8 + plane];
  }
  const entry = { name: "x", kind: "float" as const, width: 8, delta: false, nulls: false };
  assert.deepEqual([...decodeColumn(entry, planes, 4).values], values);
});

test("a column of another length is refused", () => {
  const [entry, bytes] = encode([1n, 2n], false);
  assert.throws(() => decodeColumn(entry, bytes, 3), /column x: expected 3 bytes, got 2/);
});
