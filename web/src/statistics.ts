// Device time by label between two times.

import type { TextColumn, TimelineData } from "./data";
import { bisect, type Detail } from "./detail";
import { unionOf } from "./union";

export interface LabelSum {
  readonly code: number;
  readonly count: number;
  readonly time: number;
}

export interface Statistics {
  readonly sums: readonly LabelSum[];
  readonly count: number;
  /** Sum of the time of kernels and copies, clipped to the range. */
  readonly time: number;
  /** Busy time of each lane of a device that did something. */
  readonly busy: readonly { readonly lane: number; readonly time: number }[];
}

/** Sum what ran on devices between two times by the labels of `labels`. */
export function statistics(
  data: TimelineData,
  detail: Detail,
  labels: TextColumn,
  from: number,
  to: number,
): Statistics {
  const times = new Float64Array(labels.words.length);
  const counts = new Uint32Array(labels.words.length);
  const busy: { lane: number; time: number }[] = [];
  for (const track of data.tracks) {
    if (data.description.lanes[track.lane].kind !== "stream") continue;
    const low = detail.firstEndingAfter(from, track.first, track.end);
    const high = bisect(data.start, to, low, track.end, false);
    for (let row = low; row < high; row++) {
      const code = labels.codes[row];
      times[code] += Math.min(data.stop[row], to) - Math.max(data.start[row], from);
      counts[code]++;
    }
  }
  data.description.lanes.forEach((lane, index) => {
    if (lane.kind !== "stream") return;
    let time = 0;
    const tracks = data.tracks.filter((track) => track.lane === index);
    unionOf(detail, tracks, from, to, (start, stop) => {
      time += stop - start;
    });
    if (time > 0) busy.push({ lane: index, time });
  });
  const sums = labels.words
    .map((_, code) => ({ code, count: counts[code], time: times[code] }))
    .filter((one) => one.count > 0)
    .sort((one, other) => other.time - one.time);
  return {
    sums,
    count: sums.reduce((total, one) => total + one.count, 0),
    time: sums.reduce((total, one) => total + one.time, 0),
    busy,
  };
}
