// Search of spans by kernel name or operation.

import type { TimelineData } from "./data";
import { bisect } from "./detail";

export class Search {
  readonly total: number;
  /** Matches before each row. */
  readonly before: Uint32Array;

  constructor(
    private readonly data: TimelineData,
    readonly query: string,
  ) {
    const matches = matcher(query);
    const names = data.name.words.map(matches);
    const operations = data.op.words.map(matches);
    this.before = new Uint32Array(data.rows + 1);
    for (let row = 0; row < data.rows; row++) {
      const isMatch = names[data.name.codes[row]] || operations[data.op.codes[row]];
      this.before[row + 1] = this.before[row] + (isMatch ? 1 : 0);
    }
    this.total = this.before[data.rows];
  }

  has(row: number): boolean {
    return this.before[row + 1] > this.before[row];
  }

  /** Whether a row from `low` to `high` matches. */
  any(low: number, high: number): boolean {
    return this.before[high] > this.before[low];
  }

  /** The match after a row, or before it, in the order of time; the first or last without a row. */
  neighbor(row: number | null, isForward: boolean): number | null {
    let best: number | null = null;
    for (const track of this.data.tracks) {
      const found = isForward
        ? this.firstFrom(this.after(row, track.first, track.end), track.end)
        : this.lastBefore(this.until(row, track.first, track.end), track.first);
      if (found === null || found === row) continue;
      if (best === null || (isForward ? this.precedes(found, best) : this.precedes(best, found))) {
        best = found;
      }
    }
    return best;
  }

  /** The place of a row among the matches in the order of time, from 1. */
  position(row: number): number {
    let earlier = 0;
    for (const track of this.data.tracks) {
      const end = this.until(row, track.first, track.end);
      earlier += this.before[end] - this.before[track.first];
    }
    return earlier + 1;
  }

  /** The first row of a track that comes after a row in the order of time. */
  private after(row: number | null, first: number, end: number): number {
    if (row === null) return first;
    const at = bisect(this.data.start, this.data.start[row], first, end, false);
    // Spans that start at the same time are ordered by row.
    return this.data.start[at] === this.data.start[row] && at < end && at <= row ? at + 1 : at;
  }

  /** The end of the rows of a track that come before a row in the order of time. */
  private until(row: number | null, first: number, end: number): number {
    if (row === null) return end;
    const at = bisect(this.data.start, this.data.start[row], first, end, false);
    return this.data.start[at] === this.data.start[row] && at < end && at < row ? at + 1 : at;
  }

  private precedes(one: number, other: number): boolean {
    const difference = this.data.start[one] - this.data.start[other];
    return difference < 0 || (difference === 0 && one < other);
  }

  private firstFrom(row: number, end: number): number | null {
    if (!this.any(row, end)) return null;
    let low = row;
    let high = end;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.any(low, middle)) high = middle;
      else low = middle;
    }
    return low;
  }

  private lastBefore(row: number, first: number): number | null {
    if (!this.any(first, row)) return null;
    let low = first;
    let high = row;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.any(middle, high)) low = middle;
      else high = middle;
    }
    return low;
  }
}

/** Words are found anywhere, in any case; a query between slashes is a regular expression. */
export function matcher(query: string): (text: string) => boolean {
  const expression = /^\/(.+)\/$/.exec(query);
  if (expression) {
    const pattern = new RegExp(expression[1], "i");
    return (text) => pattern.test(text);
  }
  const wanted = query.toLowerCase();
  return (text) => text.toLowerCase().includes(wanted);
}
