import assert from "node:assert/strict";
import { test } from "node:test";
import { changeOf, openAtFirst, pathsAbove, pathTo, rowsOf } from "../app/src/graph/receipt";
import { optionsOf, paramsOf, scenarioOf, withValue } from "../app/src/graph/scenario";
import type { Line, Receipt } from "../app/src/graph/types";

function line(
  name: string,
  value: number | null,
  inputs: Record<string, number | null> = {},
): Line {
  return {
    name,
    symbol: name,
    meaning: "",
    value,
    unit: "1",
    status: Object.keys(inputs).length ? "computed" : "given",
    relation: null,
    text: null,
    source: "",
    block: null,
    lo: null,
    hi: null,
    figure: String(value),
    interval: "",
    scope: "s",
    family: "s",
    share: null,
    inputs: Object.entries(inputs).map(([input, share]) => ({ name: input, share })),
  };
}

function receipt(lines: readonly Line[]): Receipt {
  return {
    target: lines[0]!.name,
    value: lines[0]!.value,
    unit: "1",
    lo: null,
    hi: null,
    missing: [],
    constraints: [],
    unjudged: [],
    validity: [],
    conflicts: [],
    switches: [],
    degradations: [],
    lines,
    notes: [],
  };
}

// total = machines + power * price, power = chips * watts: 60 + 4 * 5 * 2.
const BILL = receipt([
  line("total", 100, { machines: 0.6, power: 0.4, price: 0.4 }),
  line("machines", 60),
  line("power", 20, { chips: 1, watts: 1 }),
  line("price", 2),
  line("chips", 4),
  line("watts", 5),
]);

test("the share of a line is the product along its path", () => {
  const rows = rowsOf(BILL, null, new Set(["total", "total>power"]), true);
  assert.deepEqual(
    rows.map((row) => [row.name, row.depth, row.share]),
    [
      ["total", 0, 1],
      ["machines", 1, 0.6],
      ["power", 1, 0.4],
      ["chips", 2, 0.4],
      ["watts", 2, 0.4],
      ["price", 1, 0.4],
    ],
  );
  assert.deepEqual(
    rowsOf(BILL, null, new Set(), true).map((row) => row.name),
    ["total"],
  );
});

test("lines that carry little stay closed at first", () => {
  assert.deepEqual([...openAtFirst(BILL, 0.5, 9)], ["total"]);
  assert.deepEqual([...openAtFirst(BILL, 0.1, 9)], ["total", "total>power"]);
  assert.deepEqual([...openAtFirst(BILL, 0.1, 1)], ["total"]);
});

test("a simultaneous block ends where a variable comes again", () => {
  const loop = receipt([line("x", 2, { y: 0.5, a: 0.5 }), line("y", 1, { x: 1 }), line("a", 1)]);
  const everything = new Set(["x", "x>y", "x>y>x", "x>y>x>y"]);
  const rows = rowsOf(loop, null, everything, false);
  assert.deepEqual(
    rows.map((row) => [row.path, row.isCircular]),
    [
      ["x", false],
      ["x>y", false],
      ["x>y>x", true],
      ["x>a", false],
    ],
  );
  assert.ok(openAtFirst(loop, 0, 50).size < 5);
});

test("two receipts share lines; a line that only one has says so", () => {
  const after = receipt([
    line("total", 120, { machines: 0.5, rent: 0.5 }),
    line("machines", 60),
    line("rent", 60),
  ]);
  const rows = rowsOf(after, BILL, new Set(["total"]), true);
  assert.equal(changeOf(rows[0]!), 1.2);
  const names = rows.map((row) => [row.name, row.line !== null, row.before !== null]);
  assert.deepEqual(names.slice(1, 3), [
    ["machines", true, true],
    ["rent", true, false],
  ]);
  assert.ok(names.some(([name, now, then]) => name === "power" && !now && then));
});

test("what moved between two scenarios comes first", () => {
  const after = receipt(
    BILL.lines.map((one) => (one.name === "price" ? { ...one, value: 3 } : one)),
  );
  const rows = rowsOf(after, BILL, new Set(["total"]), true);
  assert.deepEqual(
    rows.map((row) => row.name),
    ["total", "price", "machines", "power"],
  );
});

test("a variable is found by the shortest path, and its ancestors are opened", () => {
  assert.equal(pathTo(BILL, "watts"), "total>power>watts");
  assert.equal(pathTo(BILL, "nothing"), null);
  assert.deepEqual(pathsAbove("total>power>watts"), ["total", "total>power"]);
});

test("a scenario survives its address, and becomes the options of a command", () => {
  const scenario = withValue(
    { preset: "p", includes: ["accelerators/h200_sxm"], values: ["a.b=1"] },
    "econ.load",
    "60 %",
  );
  const params = new URLSearchParams(paramsOf(scenario) as Record<string, string>);
  assert.deepEqual(scenarioOf(new URLSearchParams(params.toString())), scenario);
  assert.equal(
    optionsOf(scenario),
    "--preset p --with accelerators/h200_sxm --set a.b=1 --set 'econ.load=60 %'",
  );
  assert.deepEqual(withValue(scenario, "a.b", "2").values, ["econ.load=60 %", "a.b=2"]);
  assert.deepEqual(withValue(scenario, "a.b", "").values, ["econ.load=60 %"]);
  assert.equal(optionsOf(withValue(scenario, "x", "$(rm)'")).includes("'x=$(rm)'\\'''"), true);
});
