// The union of the spans of a lane, whose tracks overlap each other in time.

import type { Track } from "./data";
import type { Detail } from "./detail";

/** Call `visit` with each stretch between two times in which some span of the tracks is open. */
export function unionOf(
  detail: Detail,
  tracks: readonly Track[],
  from: number,
  to: number,
  visit: (start: number, stop: number) => void,
): void {
  const { start, stop } = detail;
  const rows = tracks.map((track) => detail.firstEndingAfter(from, track.first, track.end));
  let low = Number.NaN;
  let high = Number.NEGATIVE_INFINITY;
  for (;;) {
    let next = -1;
    for (let at = 0; at < tracks.length; at++) {
      if (rows[at] >= tracks[at].end) continue;
      if (next < 0 || start[rows[at]] < start[rows[next]]) next = at;
    }
    if (next < 0 || start[rows[next]] >= to) break;
    const row = rows[next]++;
    if (start[row] > high) {
      if (high > low) visit(low, high);
      low = Math.max(start[row], from);
    }
    high = Math.max(high, Math.min(stop[row], to));
  }
  if (high > low) visit(low, high);
}
