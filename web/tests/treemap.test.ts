import assert from "node:assert/strict";
import { test } from "node:test";
import { treemap } from "../app/src/graph/treemap";

test("the boxes of the published example", () => {
  // Bruls, Huizing and van Wijk 2000, figure 5: 6, 6, 4, 3, 2, 2, 1 in a rectangle of 6 by 4.
  const boxes = treemap([6, 6, 4, 3, 2, 2, 1], { x: 0, y: 0, width: 6, height: 4 });
  const rounded = boxes.map((box) =>
    [box.x, box.y, box.width, box.height].map((one) => Number(one.toFixed(2))),
  );
  assert.deepEqual(rounded[0], [0, 0, 3, 2]);
  assert.deepEqual(rounded[1], [0, 2, 3, 2]);
  assert.deepEqual(rounded[2], [3, 0, 1.71, 2.33]);
  assert.deepEqual(rounded[3], [4.71, 0, 1.29, 2.33]);
});

test("areas are in proportion, boxes fill the rectangle and do not overlap", () => {
  const weights = Array.from({ length: 80 }, (_, at) => 100 / (at + 1));
  const boxes = treemap(weights, { x: 5, y: 7, width: 300, height: 180 });
  const total = weights.reduce((sum, one) => sum + one, 0);
  let area = 0;
  for (const [at, box] of boxes.entries()) {
    const expected = (weights[at]! / total) * 300 * 180;
    assert.ok(Math.abs(box.width * box.height - expected) < 1e-6 * expected);
    area += box.width * box.height;
    assert.ok(box.x > 5 - 1e-9 && box.x + box.width < 305 + 1e-6);
    for (const other of boxes.slice(0, at)) {
      const across = Math.min(box.x + box.width, other.x + other.width) - Math.max(box.x, other.x);
      const down = Math.min(box.y + box.height, other.y + other.height) - Math.max(box.y, other.y);
      assert.ok(across < 1e-6 || down < 1e-6);
    }
  }
  assert.ok(Math.abs(area - 300 * 180) < 1e-3);
});

test("nothing to show takes no room", () => {
  assert.deepEqual(treemap([], { x: 0, y: 0, width: 1, height: 1 }), []);
  assert.deepEqual(
    treemap([0, 0], { x: 0, y: 0, width: 1, height: 1 }).map((box) => box.width),
    [0, 0],
  );
  for (const box of treemap([1, 0], { x: 0, y: 0, width: 1, height: 1 }))
    assert.ok(Number.isFinite(box.width));
});
