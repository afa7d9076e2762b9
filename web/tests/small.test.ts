import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32, inkOn, nameColor, operationColor } from "../src/colors";
import { Detail } from "../src/detail";
import { readLink, writeLink } from "../src/link";
import { duration, printable, shortened, tickLabel, tickStep } from "../src/text";
import { unionOf } from "../src/union";
import { Viewport } from "../src/viewport";

test("control and direction characters are written as escapes", () => {
  assert.equal(printable("a\u001b[2J\u202eb\n"), "a\\u{1b}[2J\\u{202e}b\\u{a}");
  assert.equal(printable("<b>&amp;"), "<b>&amp;");
});

test("a gigantic name is cut and the rest counted", () => {
  assert.equal(shortened("x".repeat(3000), 10), `${"x".repeat(10)}\u2026 (2,990 more characters)`);
});

for (const [ns, text] of [
  [0, "0 ns"],
  [950, "950 ns"],
  [4_841_234, "4.841 ms"],
  [999_999, "1.000 ms"],
  [2.5e9, "2.500 s"],
  [1.2e15, "1,200,000 s"],
] as const) {
  test(`${ns} ns is ${text}`, () => assert.equal(duration(ns), text));
}

test("ticks are round, and zero has no sign", () => {
  assert.equal(tickStep(97, 5), 20);
  assert.equal(tickStep(4.8e6, 6), 1e6);
  assert.equal(tickLabel(-0, 1e6), "0 ms");
  assert.equal(tickLabel(1_500_000, 500_000), "1,500 \u00b5s");
});

test("checksums are those of zlib", () => {
  assert.equal(crc32(new TextEncoder().encode("123456789")), 0xcbf43926);
});

test("a fused operation has the color of its main part", () => {
  const whole = operationColor("input_norm+qkv_proj", "light");
  assert.equal(whole, operationColor("qkv_proj", "light"));
  assert.notEqual(whole, operationColor("input_norm", "light"));
  assert.equal(operationColor("unheard of", "dark"), operationColor("not mapped", "dark"));
  assert.match(nameColor("gemm", "light"), /^#[0-9a-f]{6}$/);
  assert.equal(inkOn("#ffffff"), "#14181d");
  assert.equal(inkOn("#24568f"), "#ffffff");
});

test("links are read as they are written; what is no number is ignored", () => {
  const link = { step: 12, from: 5, to: 90, search: "a&b=c" };
  assert.deepEqual(readLink(writeLink(link)), link);
  assert.deepEqual(readLink("#step=many&from=1"), { from: 1 });
  assert.deepEqual(readLink(""), {});
});

test("zooming keeps the point under the pointer, and stays near the trace", () => {
  const viewport = new Viewport(1e9);
  viewport.show(2e8, 4e8);
  viewport.zoom(2, 0.25);
  assert.ok(Math.abs(viewport.from + viewport.length * 0.25 - 2.5e8) < 1);
  assert.ok(Math.abs(viewport.length - 1e8) < 1);
  for (let round = 0; round < 200; round++) viewport.zoom(1.5, 0.5);
  assert.equal(Math.round(viewport.length), 20);
  for (let round = 0; round < 200; round++) viewport.zoom(0.5, 0.1);
  assert.ok(viewport.from <= 0 && viewport.to >= 1e9 && viewport.length < 1.2e9);
  viewport.show(1e8, 2e8);
  for (let round = 0; round < 50; round++) viewport.pan(0.9);
  assert.ok(viewport.to <= 1e9 + viewport.length * 0.11);
});

test("the union of tracks counts overlapping time once", () => {
  // Two tracks: rows 0 and 1, and row 2, which covers the gap between them.
  const detail = new Detail(Float64Array.of(0, 10, 3), Float64Array.of(5, 20, 12));
  const tracks = [
    { lane: 0, depth: 0, first: 0, end: 2 },
    { lane: 0, depth: 1, first: 2, end: 3 },
  ];
  const found: [number, number][] = [];
  unionOf(detail, tracks, 1, 18, (start, stop) => found.push([start, stop]));
  assert.deepEqual(found, [[1, 18]]);
  const alone: [number, number][] = [];
  unionOf(detail, tracks.slice(0, 1), 0, 30, (start, stop) => alone.push([start, stop]));
  assert.deepEqual(alone, [
    [0, 5],
    [10, 20],
  ]);
});
