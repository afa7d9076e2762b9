import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeAt, transformOf, WHOLE, zoomAt } from "../app/src/pages/cone/camera";
import { bySize, chooseLabels } from "../app/src/pages/cone/labels";
import { generator } from "./random";

const FRAME = { width: 1000, height: 600 };
const MAP = { width: 40, height: 60 };

function places(count: number) {
  const next = generator(11);
  return {
    x: Float32Array.from({ length: count }, () => next(MAP.width)),
    y: Float32Array.from({ length: count }, () => next(MAP.height)),
    radius: Float32Array.from({ length: count }, () => 2 + next(6)),
    labels: Array.from({ length: count }, (_, at) => `variable.${at}`),
  };
}

test("a zoom keeps what is under the pointer where it is", () => {
  let camera = WHOLE;
  for (const [factor, x, y] of [
    [1.25, 300, 200],
    [3, 900, 20],
    [0.4, 10, 590],
  ] as const) {
    const before = transformOf(MAP, FRAME, camera);
    camera = zoomAt(camera, factor, x, y);
    const after = transformOf(MAP, FRAME, camera);
    const column = (x - before.shiftX) / before.scaleX;
    const row = (y - before.shiftY) / before.scaleY;
    assert.ok(Math.abs(column * after.scaleX + after.shiftX - x) < 1e-6);
    assert.ok(Math.abs(row * after.scaleY + after.shiftY - y) < 1e-6);
  }
  assert.equal(zoomAt(WHOLE, 1e9, 0, 0).zoom, 100);
  assert.equal(zoomAt(WHOLE, 1e-9, 0, 0).zoom, 1 / 3);
});

test("the whole map lies inside its frame, on a phone too", () => {
  for (const frame of [FRAME, { width: 340, height: 380 }]) {
    const { scaleX, scaleY, shiftX, shiftY } = transformOf(MAP, frame, WHOLE);
    assert.ok(shiftX > 0 && shiftX + MAP.width * scaleX < frame.width);
    assert.ok(shiftY > 0 && shiftY + MAP.height * scaleY < frame.height);
  }
});

test("every node is found where it is drawn, and nothing beside the map", () => {
  const scene = places(200);
  const transform = transformOf(MAP, FRAME, WHOLE);
  for (let slot = 0; slot < 200; slot++) {
    const x = scene.x[slot]! * transform.scaleX + transform.shiftX;
    const y = scene.y[slot]! * transform.scaleY + transform.shiftY;
    const found = nodeAt(scene, transform, 1, x, y);
    // Another node may stand at the same place.
    assert.deepEqual([scene.x[found], scene.y[found]], [scene.x[slot], scene.y[slot]]);
  }
  assert.equal(nodeAt(scene, transform, 1, 2, 2), -1);
});

test("names do not cover each other, stay in the frame, and larger nodes come first", () => {
  const scene = places(2000);
  const transform = transformOf(MAP, FRAME, WHOLE);
  const order = bySize(scene.radius);
  const labels = chooseLabels(scene, transform, 1, FRAME, [], order);
  assert.ok(labels.length > 10, `${labels.length} names`);
  for (const [at, one] of labels.entries()) {
    assert.ok(one.x >= 0 && one.x + one.width <= FRAME.width);
    for (const other of labels.slice(at + 1)) {
      const apart =
        Math.abs(one.y - other.y) >= 8 ||
        one.x + one.width <= other.x ||
        other.x + other.width <= one.x;
      assert.ok(apart, `${one.slot} covers ${other.slot}`);
    }
  }
  for (let at = 1; at < order.length; at++)
    assert.ok(scene.radius[order[at - 1]!]! >= scene.radius[order[at]!]!);
  const forced = chooseLabels(scene, transform, 1, FRAME, [7, 8], new Int32Array(0));
  assert.deepEqual(
    forced.map((one) => one.slot),
    [7, 8],
  );
});
