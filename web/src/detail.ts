// Level of detail: what a pixel shows of the many spans in it, found without visiting them.
//
// Spans of a track do not overlap, so prefix sums of durations give the exact busy time of any
// stretch, and a pyramid of maxima its longest span. The cost of a row is that of its pixels.

const RADIX = 4;

/** Of each group of rows the longest, and how long it is. */
interface Level {
  readonly rows: Int32Array;
  readonly lengths: Float64Array;
}

export class Detail {
  /** Busy time of rows before each row. */
  readonly busy: Float64Array;
  private readonly lengths: Float64Array;
  private readonly levels: Level[] = [];

  constructor(
    readonly start: Float64Array,
    readonly stop: Float64Array,
  ) {
    const rows = start.length;
    this.busy = new Float64Array(rows + 1);
    this.lengths = new Float64Array(rows);
    for (let row = 0; row < rows; row++) {
      this.lengths[row] = stop[row] - start[row];
      this.busy[row + 1] = this.busy[row] + this.lengths[row];
    }
    let below: Level | null = null;
    for (let size = rows; size > RADIX; size = Math.ceil(size / RADIX)) {
      below = this.above(below, size);
      this.levels.push(below);
    }
  }

  private above(below: Level | null, size: number): Level {
    const groups = Math.ceil(size / RADIX);
    const level = { rows: new Int32Array(groups), lengths: new Float64Array(groups) };
    const lengths = below?.lengths ?? this.lengths;
    for (let group = 0; group < groups; group++) {
      let best = group * RADIX;
      const end = Math.min(best + RADIX, size);
      for (let at = best + 1; at < end; at++) if (lengths[at] > lengths[best]) best = at;
      level.rows[group] = below ? below.rows[best] : best;
      level.lengths[group] = lengths[best];
    }
    return level;
  }

  /** The longest span of rows `low` to `high`, which are not empty. */
  longest(low: number, high: number): number {
    let best = low;
    let longest = -1;
    let rows: Int32Array | null = null;
    let lengths = this.lengths;
    for (let level = 0; ; level++) {
      // Both ends up to whole groups, then the groups a level above.
      const isLast = high - low <= 2 * RADIX || level >= this.levels.length;
      const left = isLast ? high : Math.ceil(low / RADIX) * RADIX;
      const right = isLast ? high : Math.floor(high / RADIX) * RADIX;
      for (let at = low; at < left; at++) {
        if (lengths[at] > longest) {
          longest = lengths[at];
          best = rows ? rows[at] : at;
        }
      }
      for (let at = right; at < high; at++) {
        if (lengths[at] > longest) {
          longest = lengths[at];
          best = rows ? rows[at] : at;
        }
      }
      if (isLast) return best;
      low = left / RADIX;
      high = right / RADIX;
      ({ rows, lengths } = this.levels[level]);
    }
  }

  /** The first row of a track, from `low` to `high`, that ends after a time. */
  firstEndingAfter(time: number, low: number, high: number): number {
    return bisect(this.stop, time, low, high, true);
  }

  /** The first row of a track, from `low` to `high`, that starts at a time or later. */
  firstStartingFrom(time: number, low: number, high: number): number {
    // Most searches end near where they begin: double the stride, then bisect.
    let stride = 1;
    while (low + stride < high && this.start[low + stride] < time) stride *= 2;
    return bisect(this.start, time, low + (stride >> 1), Math.min(low + stride + 1, high), false);
  }

  /** Busy time of a track's rows `first` to `end` between two times. */
  busyBetween(from: number, to: number, first: number, end: number): number {
    const low = this.firstEndingAfter(from, first, end);
    const high = bisect(this.start, to, low, end, false);
    if (high <= low) return 0;
    const before = Math.max(from - this.start[low], 0);
    const after = Math.max(this.stop[high - 1] - to, 0);
    return this.busy[high] - this.busy[low] - before - after;
  }
}

/** The first position whose value is at least `value`, or above it where `isAbove`. */
export function bisect(
  values: Float64Array,
  value: number,
  low: number,
  high: number,
  isAbove: boolean,
): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] < value || (isAbove && values[middle] === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Receives the pixels of a row, each once or, where two spans share it, last with their sum. */
export interface RowSink {
  /** A pixel, the share of it that is busy, the longest span in it, and the rows that start in it. */
  pixel(x: number, coverage: number, row: number, low: number, high: number): void;
  /** Pixels `from` to `to` that one span fills. */
  run(from: number, to: number, row: number): void;
}

/** Draw the rows `first` to `end` of a track, from time `origin` on at so much time a pixel. */
export function paintTrack(
  detail: Detail,
  first: number,
  end: number,
  origin: number,
  perPixel: number,
  width: number,
  sink: RowSink,
): void {
  const { start, stop, busy } = detail;
  let row = detail.firstEndingAfter(origin, first, end);
  let carriedPixel = -1;
  let carriedTime = 0;
  let carriedRow = -1;
  while (row < end) {
    const x = start[row] <= origin ? 0 : Math.floor((start[row] - origin) / perPixel);
    if (x >= width) return;
    const from = origin + x * perPixel;
    const to = from + perPixel;
    const next = Math.max(detail.firstStartingFrom(to, row, end), row + 1);
    const last = next - 1;
    let time = busy[next] - busy[row];
    if (start[row] < from) time -= from - start[row];
    if (stop[last] > to) time -= stop[last] - to;
    let shown = next - row === 1 ? row : detail.longest(row, next);
    let low = row;
    if (carriedPixel === x) {
      if (carriedTime > Math.min(stop[shown], to) - Math.max(start[shown], from)) {
        shown = carriedRow;
      }
      time += carriedTime;
      low = carriedRow;
    }
    sink.pixel(x, Math.min(Math.max(time / perPixel, 0), 1), shown, low, next);
    if (stop[last] > to) {
      const edge = (stop[last] - origin) / perPixel;
      const whole = Math.min(Math.floor(edge), width);
      if (whole > x + 1) sink.run(x + 1, whole, last);
      if (whole < width && edge > whole) {
        carriedPixel = whole;
        carriedRow = last;
        carriedTime = (edge - whole) * perPixel;
        sink.pixel(whole, edge - whole, last, last, next);
      }
    }
    row = next;
  }
}
