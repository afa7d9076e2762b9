"""Lanes of a timeline: slices on one track must nest, and events of one stream may overlap."""

from __future__ import annotations

from assay.lazy_import import np


def lanes(tracks: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """For each slice the lane of its track, counted from 0, so that slices of a lane nest.

    Slices nest if of two that share a point in time one contains the other; slices that only touch
    do not share one. Longer ones that start at the same time contain the others. Each slice takes
    the first lane that has room.
    """
    lane_of = np.zeros(len(tracks), np.int64)
    order = np.lexsort((-ends, starts, tracks))
    edges = np.flatnonzero(np.diff(tracks[order])) + 1
    for chosen in np.split(order, edges):
        if len(chosen) < 2:
            continue
        begin, end = starts[chosen], ends[chosen]
        # Where nothing before is open any more, all lanes are free: only what shares time with
        # another slice needs to be looked at one by one.
        free = begin[1:] >= np.maximum.accumulate(end)[:-1]
        alone = np.concatenate([[True], free]) & np.concatenate([free, [True]])
        shared = chosen[~alone]
        if len(shared):
            lane_of[shared] = _nested(starts[shared].tolist(), ends[shared].tolist())
    return lane_of


def _nested(starts: list[int], ends: list[int]) -> list[int]:
    """Lanes of the slices of one track, sorted by start, longer ones first."""
    # The ends of the slices that are open in each lane, the innermost last.
    open_ends: list[list[int]] = []
    chosen = []
    for start, end in zip(starts, ends, strict=True):
        lane = 0
        for stack in open_ends:
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or end <= stack[-1]:
                stack.append(end)
                break
            lane += 1
        else:
            open_ends.append([end])
        chosen.append(lane)
    return chosen


def bracket_order(lane_ids: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The order of the begins (0 to n-1) and ends (n to 2n-1) of slices that nest in each lane.

    Lane by lane and in time; at one time the ends of slices come first, the innermost first, then
    the begins, the outermost first; a slice without a duration ends right after it begins.
    """
    count = len(lane_ids)
    order = np.lexsort((-ends, starts, lane_ids))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    is_point = starts == ends
    tie = np.concatenate([2 * place, np.where(is_point, 2 * place + 1, -place - 1)])
    times = np.concatenate([starts, ends])
    return np.lexsort((tie, times, np.concatenate([lane_ids, lane_ids])))
