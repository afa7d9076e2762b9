import assert from "node:assert/strict";
import { test } from "node:test";
import { shown, shownInterval } from "../app/src/design/quantity";
import { grouped, readable, unitText } from "../app/src/design/readable";

for (const [printed, written] of [
  ["31000 USD/GPU", "31,000 USD/GPU"],
  ["$72000 per hour", "$72,000 per hour"],
  ["10000000 token", "10,000,000 token"],
  ["999 W", "999 W"],
  ["1234.5678 s", "1,234.5678 s"],
  ["0.00078125 USD", "0.00078125 USD"],
  ["2.5e12 FLOP/s", "2.5e12 FLOP/s"],
  ["98.28 1/um^2", "98.28 1/\u00b5m\u00b2"],
  ["35 ug/token", "35 \u00b5g/token"],
  ["5200 token/(s*GPU)", "5,200 token/(s\u00b7GPU)"],
  ["1.182", "1.182"],
] as const) {
  test(`${printed} is written ${written}`, () => assert.equal(readable(printed), written));
}

test("letters of names are no prefixes, and large exponents stay", () => {
  assert.equal(unitText("unit/user"), "unit/user");
  assert.equal(unitText("m^23"), "m^23");
  assert.equal(grouped("(14000 to 26000)"), "(14,000 to 26,000)");
});

test("the interval of a prediction decides its digits", () => {
  const cost = { value: 2.248e-7, unit: "USD/token", lo: 1.44e-7, hi: 3.68e-7, isPredicted: true };
  assert.equal(shown(cost), "$0.22 per million tokens");
  assert.equal(shownInterval(cost), "0.14 to 0.37");
  assert.equal(shown({ value: 5207, unit: "token/s" }), "5,207 token/s");
  assert.equal(shown({ value: 5.2e7, unit: "token/s" }), "52 Mtoken/s");
});
