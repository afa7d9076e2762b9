import assert from "node:assert/strict";
import { test } from "node:test";
import { Detail, paintTrack } from "../src/detail";
import { generator, spans } from "./random";

const TRACKS = [1, 2, 40, 700, 5000].map((count) => spans(count, count));

test("the longest span of any rows is found", () => {
  const [start, stop] = spans(5000, 3);
  const detail = new Detail(start, stop);
  const random = generator(9);
  for (let round = 0; round < 400; round++) {
    const low = random(5000);
    const high = low + 1 + random(5000 - low);
    const lengths = Array.from({ length: high - low }, (_, at) => stop[low + at] - start[low + at]);
    const found = detail.longest(low, high);
    assert.ok(found >= low && found < high);
    assert.equal(stop[found] - start[found], Math.max(...lengths));
  }
});

test("busy time between two times is that of the clipped spans", () => {
  for (const [start, stop] of TRACKS) {
    const detail = new Detail(start, stop);
    const random = generator(start.length);
    const end = stop[stop.length - 1] + 20;
    for (let round = 0; round < 60; round++) {
      const from = random(end);
      const to = from + 1 + random(end);
      assert.equal(detail.busyBetween(from, to, 0, start.length), clipped(start, stop, from, to));
    }
  }
});

test("each pixel shows the exact share of it that is busy, and a span that is in it", () => {
  for (const [start, stop] of TRACKS) {
    const detail = new Detail(start, stop);
    const random = generator(start.length + 1);
    for (let round = 0; round < 40; round++) {
      const origin = random(stop[stop.length - 1]) - 10;
      const perPixel = [0.25, 1, 3.5, 40, 900][round % 5];
      const width = 64;
      const coverage = new Float64Array(width);
      const shown = new Int32Array(width).fill(-1);
      paintTrack(detail, 0, start.length, origin, perPixel, width, {
        pixel: (x, share, row) => {
          coverage[x] = share;
          shown[x] = row;
        },
        run: (from, to, row) => {
          coverage.fill(1, from, to);
          shown.fill(row, from, to);
        },
      });
      for (let x = 0; x < width; x++) {
        const from = origin + x * perPixel;
        const expected = clipped(start, stop, from, from + perPixel) / perPixel;
        assert.ok(Math.abs(coverage[x] - expected) < 1e-6, `${coverage[x]} for ${expected}`);
        if (expected > 0) {
          assert.ok(start[shown[x]] < from + perPixel && stop[shown[x]] > from);
        }
      }
    }
  }
});

function clipped(start: Float64Array, stop: Float64Array, from: number, to: number): number {
  let total = 0;
  for (let row = 0; row < start.length; row++) {
    total += Math.max(Math.min(stop[row], to) - Math.max(start[row], from), 0);
  }
  return total;
}
