// Which names a map has room for.

import { type Frame, growth, leftMargin, type Transform } from "./camera";
import type { Scene } from "./scene";

export const FONT_SIZE = 12;
/** Names in view at once: more are noise, and drawing text is the slowest part of a frame. */
const MOST = 140;
/** Width of a letter in heights of the font: near enough to keep names apart without measuring each. */
const LETTER = 0.56;
/** Pixels between a node and its name. */
const GAP = 4;
/** The part of a node's radius that names keep away from: a name may touch the edge. */
const INNER = 0.7;
/** Pixels of the buttons that zoom. */
const BUTTONS = { width: 140, height: 44 };
/** Lines above and below a node that a name which must be shown may move to. */
const MOST_LINES = 2;
/** Pixels of a cell of the raster that says where names are. */
const CELL = { width: 8, height: 8 };

export interface Label {
  readonly slot: number;
  /** The left end of the text, and the middle of its height. */
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

/** A raster of the frame that says where something is drawn. */
class Raster {
  private readonly columns: number;
  private readonly rows: number;
  private readonly taken: Uint8Array;

  constructor(frame: Frame) {
    this.columns = Math.ceil(frame.width / CELL.width);
    this.rows = Math.ceil(frame.height / CELL.height);
    this.taken = new Uint8Array(this.columns * this.rows);
  }

  /** Whether a box is inside the frame and free. */
  isFree(left: number, top: number, right: number, bottom: number): boolean {
    const [first, last] = [Math.floor(left / CELL.width), Math.floor(right / CELL.width)];
    const [high, low] = [Math.floor(top / CELL.height), Math.floor(bottom / CELL.height)];
    if (first < 0 || high < 0 || last >= this.columns || low >= this.rows) return false;
    for (let row = high; row <= low; row++)
      for (let column = first; column <= last; column++)
        if (this.taken[row * this.columns + column]) return false;
    return true;
  }

  take(left: number, top: number, right: number, bottom: number): void {
    const first = Math.max(Math.floor(left / CELL.width), 0);
    const last = Math.min(Math.floor(right / CELL.width), this.columns - 1);
    const low = Math.min(Math.floor(bottom / CELL.height), this.rows - 1);
    for (let row = Math.max(Math.floor(top / CELL.height), 0); row <= low; row++)
      this.taken.fill(1, row * this.columns + first, row * this.columns + last + 1);
  }
}

/** Names that cover neither each other nor nodes; those of `first` always, the others in order. */
export function chooseLabels(
  scene: Pick<Scene, "x" | "y" | "radius" | "labels">,
  transform: Transform,
  zoom: number,
  frame: Frame,
  first: readonly number[],
  order: Int32Array,
): Label[] {
  const raster = new Raster(frame);
  const grown = growth(transform, zoom);
  const found: Label[] = [];
  const done = new Set<number>();
  const screenX = (slot: number) => scene.x[slot]! * transform.scaleX + transform.shiftX;
  const screenY = (slot: number) => scene.y[slot]! * transform.scaleY + transform.shiftY;
  for (let slot = 0; slot < scene.x.length; slot++) {
    const [x, y] = [screenX(slot), screenY(slot)];
    const inside = INNER * scene.radius[slot]! * grown;
    if (x >= 0 && y >= 0 && x < frame.width && y < frame.height)
      raster.take(x - inside, y - inside, x + inside, y + inside);
  }
  // The buttons stand in the corner.
  raster.take(frame.width - BUTTONS.width, 0, frame.width, BUTTONS.height);

  raster.take(0, 0, 0.8 * leftMargin(frame), frame.height);

  function place(slot: number, isForced: boolean): void {
    const [x, y] = [screenX(slot), screenY(slot)];
    if (done.has(slot) || x < 0 || y < 0 || x >= frame.width || y >= frame.height) return;
    const width = scene.labels[slot]!.length * LETTER * FONT_SIZE;
    const away = scene.radius[slot]! * grown + GAP;
    const half = FONT_SIZE / 2;
    const inside = INNER * scene.radius[slot]! * grown;
    // At the right, at the left, above, below. The cell of the node itself is taken.
    const places = [
      [Math.max(x + away, (Math.floor((x + inside) / CELL.width) + 1) * CELL.width), y],
      [Math.min(x - away, Math.floor((x - inside) / CELL.width) * CELL.width - 1) - width, y],
      [x - away, y - away - FONT_SIZE],
      [x - away, y + away + FONT_SIZE],
    ] as const;
    const isFree = ([left, middle]: readonly [number, number]) =>
      raster.isFree(left, middle - half, left + width, middle + half);
    const free = places.find(isFree) ?? (isForced ? further(x, y, away, width).find(isFree) : null);
    if (!free && !isForced) return;
    const [left, middle] = free ?? places[0];
    raster.take(left, middle - half, left + width, middle + half);
    done.add(slot);
    found.push({ slot, x: left, y: middle, width });
  }

  /** Places some lines away, inside the frame. */
  function further(x: number, y: number, away: number, width: number): [number, number][] {
    const left = Math.min(x - away, frame.width - width - CELL.width);
    return Array.from({ length: 2 * MOST_LINES }, (_, at) => {
      const lines = Math.floor(at / 2) + 1;
      return [left, y + (at % 2 === 0 ? -1 : 1) * (away + lines * FONT_SIZE * 1.25)];
    });
  }

  for (const slot of first) place(slot, true);
  for (let at = 0; at < order.length && found.length < MOST; at++) place(order[at]!, false);
  return found;
}

/** Slots with the largest nodes first, in the order of the map among equals. */
export function bySize(radius: Float32Array): Int32Array {
  return Int32Array.from(radius.keys()).sort(
    (one, other) => radius[other]! - radius[one]! || one - other,
  );
}
