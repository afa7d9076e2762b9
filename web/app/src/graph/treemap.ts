// Squarified treemaps (Bruls, Huizing and van Wijk 2000): areas in proportion, shapes near squares.

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A box for each weight, in its order; weights are not negative and the largest come first. */
export function treemap(weights: readonly number[], inside: Box): Box[] {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const boxes: Box[] = [];
  if (total <= 0 || inside.width <= 0 || inside.height <= 0) {
    return weights.map(() => ({ x: inside.x, y: inside.y, width: 0, height: 0 }));
  }
  const scale = (inside.width * inside.height) / total;
  let room = inside;
  let start = 0;
  while (start < weights.length) {
    const side = Math.min(room.width, room.height);
    let end = start + 1;
    let sum = weights[start]! * scale;
    let ratio = worst(weights, start, end, sum, side, scale);
    while (end < weights.length) {
      const next = sum + weights[end]! * scale;
      const nextRatio = worst(weights, start, end + 1, next, side, scale);
      if (nextRatio > ratio) break;
      sum = next;
      ratio = nextRatio;
      end += 1;
    }
    const depth = side > 0 ? sum / side : 0;
    let along = 0;
    for (let at = start; at < end; at++) {
      const length = depth > 0 ? (weights[at]! * scale) / depth : 0;
      boxes.push(
        room.width >= room.height
          ? { x: room.x, y: room.y + along, width: depth, height: length }
          : { x: room.x + along, y: room.y, width: length, height: depth },
      );
      along += length;
    }
    room =
      room.width >= room.height
        ? { ...room, x: room.x + depth, width: Math.max(room.width - depth, 0) }
        : { ...room, y: room.y + depth, height: Math.max(room.height - depth, 0) };
    start = end;
  }
  return boxes;
}

/** The largest ratio of sides in a row. */
function worst(
  weights: readonly number[],
  start: number,
  end: number,
  sum: number,
  side: number,
  scale: number,
): number {
  if (sum <= 0) return Number.POSITIVE_INFINITY;
  const largest = weights[start]! * scale;
  const smallest = weights[end - 1]! * scale;
  if (smallest <= 0) return Number.POSITIVE_INFINITY;
  return Math.max((side * side * largest) / (sum * sum), (sum * sum) / (side * side * smallest));
}
