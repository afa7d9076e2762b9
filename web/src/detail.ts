// Level of detail: what a pixel shows of the many spans in it, found without visiting them.
//
// Spans of a track do not overlap, so prefix sums of durations give the exact busy time of any
// stretch, and a pyramid of maxima its longest span. The cost of a row is that of its pixels.

const RADIX = 16;

export class Detail {
  /** Busy time of rows before each row. */
  readonly busy: Float64Array;
  private readonly levels: Int32Array[] = [];

  constructor(
    readonly start: Float64Array,
    readonly stop: Float64Array,
  ) {
    const rows = start.length;
    this.busy = new Float64Array(rows + 1);
    for (let row = 0; row < rows; row++) {
      this.busy[row + 1] = this.busy[row] + (stop[row] - start[row]);
    }
    for (let size = rows; size > RADIX; size = Math.ceil(size / RADIX)) {
      this.levels.push(this.maxima(this.levels.at(-1) ?? null, size));
    }
  }

  private maxima(below: Int32Array | null, size: number): Int32Array {
    const found = new Int32Array(Math.ceil(size / RADIX));
    for (let group = 0; group < found.length; group++) {
      let best = below ? below[group * RADIX] : group * RADIX;
      const end = Math.min((group + 1) * RADIX, size);
      for (let at = group * RADIX + 1; at < end; at++) {
        const row = below ? below[at] : at;
        if (this.length(row) > this.length(best)) best = row;
      }
      found[group] = best;
    }
    return found;
  }

  private length(row: number): number {
    return this.stop[row] - this.start[row];
  }

  /** The longest span of rows `low` to `high`, which are not empty. */
  longest(low: number, high: number): number {
    let best = low;
    let longest = -1;
    let below: Int32Array | null = null;
    let level = 0;
    const visit = (at: number): void => {
      const row = below ? below[at] : at;
      const length = this.stop[row] - this.start[row];
      if (length > longest) {
        longest = length;
        best = row;
      }
    };
    while (high - low > 2 * RADIX && level < this.levels.length) {
      while (low % RADIX !== 0) visit(low++);
      while (high % RADIX !== 0) visit(--high);
      low /= RADIX;
      high /= RADIX;
      below = this.levels[level++];
    }
    while (low < high) visit(low++);
    return best;
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
