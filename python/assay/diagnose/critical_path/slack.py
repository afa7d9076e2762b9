"""How much later each event could have ended without a later end of the trace."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.diagnose.replay.edges import FROM_START, TO_END, Edges

Ints = NDArray[np.int64]


def slack(start: Ints, end: Ints, edges: Edges, horizon: int) -> Ints:
    """The slack of every event that takes part in an edge: what may not end later is `horizon`.

    Starts and ends are points of a graph: what bounds one point bounds those before it, less the
    delay between them. A delay is the one that was observed, where the edge decided, and the usual
    one of its kind elsewhere. Zero for events without edges.
    """
    count = len(start)
    from_start, to_end = np.isin(edges.kind, FROM_START), np.isin(edges.kind, TO_END)
    work = end - start
    work[edges.rows] = edges.work_ns
    # Points: starts, then ends. An event's own time is an edge, too.
    source = np.concatenate((np.where(from_start, edges.src, edges.src + count), edges.rows))
    target = np.concatenate((np.where(to_end, edges.dst + count, edges.dst), edges.rows + count))
    delay = np.concatenate((edges.lag_ns, work[edges.rows]))
    moment = np.concatenate((start, end))
    # Kernels of one stream may overlap: the end of one is bounded by the start of the next.
    np.minimum.at(moment, source, moment[target])
    began = np.concatenate((start, start))
    order = np.lexsort((-target, _turn(count, edges)[target], -began[target], -moment[target]))
    # What the host does after the last device event delays nothing.
    late = np.maximum(np.concatenate((start, end)), horizon).tolist()
    for before, after, lag in zip(
        source[order].tolist(), target[order].tolist(), delay[order].tolist(), strict=True
    ):
        allowed = late[after] - lag
        if allowed < late[before]:
            late[before] = allowed
    slack_ns = np.maximum(np.array(late[count:], np.int64) - end, 0)
    taking_part = np.zeros(count, bool)
    taking_part[edges.rows] = True
    return np.where(taking_part, slack_ns, 0)


def _turn(count: int, edges: Edges) -> Ints:
    """Of points at one moment: the end of a call that waits, ends, starts, starts of callers."""
    turn = np.repeat(np.array([2, 1], np.int64), count)
    turn[edges.dst[np.isin(edges.kind, TO_END)] + count] = 0
    turn[edges.src[np.isin(edges.kind, FROM_START)]] = 3
    return turn
