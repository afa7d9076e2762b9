// Where lanes and tracks are, from top to bottom.

import type { TimelineData, Track } from "./data";

const GROUP_HEIGHT = 24;
const LANE_GAP = 6;
const THIN = 8;
const TRACK_HEIGHTS = { stream: 28, ranges: 18, thread: 18 } as const;

/** A band of a track on the screen. */
export interface TrackBand {
  readonly track: Track;
  readonly top: number;
  readonly height: number;
}

/** A lane or the heading of a group of lanes. */
export interface NameBand {
  readonly kind: "group" | "lane";
  readonly key: string;
  readonly text: string;
  readonly detail: string;
  readonly top: number;
  readonly height: number;
  readonly isCollapsed: boolean;
  readonly canCollapse: boolean;
}

export interface Rows {
  readonly names: readonly NameBand[];
  readonly tracks: readonly TrackBand[];
  readonly height: number;
}

/** Lay out the lanes; `collapsed` holds keys of groups and lanes. */
export function layOut(data: TimelineData, collapsed: ReadonlySet<string>): Rows {
  const names: NameBand[] = [];
  const tracks: TrackBand[] = [];
  let top = 0;
  let group = "";
  data.description.lanes.forEach((lane, index) => {
    const groupKey = `group ${lane.group}`;
    if (lane.group !== group) {
      group = lane.group;
      const isCollapsed = collapsed.has(groupKey);
      names.push(band("group", groupKey, lane.group, "", top, GROUP_HEIGHT, isCollapsed, true));
      top += GROUP_HEIGHT;
    }
    if (collapsed.has(groupKey)) return;
    const key = laneKey(index);
    const isCollapsed = collapsed.has(key);
    const height = TRACK_HEIGHTS[lane.kind];
    const mine = data.tracks.filter((track) => track.lane === index);
    const shown = isCollapsed ? mine.slice(0, 1) : mine;
    const each = isCollapsed ? THIN : height;
    const total = Math.max(shown.length * each, 16) + LANE_GAP;
    const inset = (total - shown.length * each) / 2;
    const detail = `${lane.tracks.reduce((sum, one) => sum + one, 0).toLocaleString("en-US")}`;
    names.push(band("lane", key, lane.name, detail, top, total, isCollapsed, mine.length > 1));
    shown.forEach((track, depth) => {
      tracks.push({ track, top: top + inset + depth * each, height: each });
    });
    top += total;
  });
  return { names, tracks, height: top };
}

export function laneKey(lane: number): string {
  return `lane ${lane}`;
}

function band(
  kind: "group" | "lane",
  key: string,
  text: string,
  detail: string,
  top: number,
  height: number,
  isCollapsed: boolean,
  canCollapse: boolean,
): NameBand {
  return { kind, key, text, detail, top, height, isCollapsed, canCollapse };
}
