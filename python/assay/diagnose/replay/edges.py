"""What each event of a trace waits for: the edges of its dependency graph, with delays.

An event begins or ends at the latest of what it waits for, each with a delay (`lag_ns`). Delays
are read from the trace: the edge that decided carries the delay that was observed, the others the
usual one of their kind, so that a replay without changes gives the times of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.array_types import Flags, Ints
from assay.diagnose.replay import waits
from assay.diagnose.replay.columns import Columns
from assay.lazy_import import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.observe.trace import Trace

KINDS: Final = ("thread", "launch", "stream", "graph", "event", "inside", "wait")
"""Kinds of edge; `Edges.kind` is an index into it.

thread: order on a host thread, between events that contain no other; launch: an API call starts a
device event; stream: order on a stream; graph: order inside one replay of a graph; event: a stream
waits for another; inside: a call runs device work itself, as on a CPU; wait: the host waits for
the device.
"""
THREAD, LAUNCH, STREAM, GRAPH, EVENT, INSIDE, WAIT = range(len(KINDS))

FROM_START: Final = (LAUNCH, INSIDE)
"""Kinds that count from the start of their source; the others count from its end."""
TO_END: Final = (WAIT,)
"""Kinds that hold up the end of their destination; the others hold up its start."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges in arrays of one length, and the events that they connect.

    `start(dst)` (or, for `TO_END`, `end(dst)`) is the latest of `end(src) + lag_ns` (for
    `FROM_START`: `start(src) + lag_ns`) over the edges into it; the one that decided is `binding`.
    """

    src: Ints
    """Rows of the event table."""
    dst: Ints
    kind: NDArray[np.int8]
    lag_ns: Ints
    binding: Flags
    rows: Ints
    """Events that take part: on the device all, on threads those that contain no other."""
    work_ns: Ints
    """Of each row of `rows`: its duration without waiting."""
    usual_ns: dict[str, int]
    """The usual delay of each kind of edge: its median where that edge decided."""
    degradations: tuple[str, ...] = ()


def dependencies(trace: Trace, columns: Columns | None = None) -> Edges:
    """The dependency graph of a trace; one pass over sorted arrays.

    `columns` are those of its events, where the caller has read them already.
    """
    columns = Columns.of(trace.events) if columns is None else columns
    leaves = thread_leaves(columns)
    parts = [_thread_edges(columns, leaves), *_device_order(columns), _launch_edges(columns)]
    inside = _inside_edges(columns, leaves)
    events, event_notes = waits.event_edges(columns)
    blocked = waits.wait_edges(columns, leaves)
    pairs = [
        (THREAD, parts[0]),
        (STREAM, parts[1]),
        (GRAPH, parts[2]),
        (LAUNCH, parts[3]),
        (INSIDE, inside),
        (EVENT, events),
    ]
    src, dst, kind = _joined(pairs)
    lag, binding, usual = _delays(columns, src, dst, kind)
    waiting = _joined([(WAIT, blocked.pairs), (WAIT, _inside_ends(columns, leaves))])
    wait_lag, wait_binding, wait_work = _wait_delays(columns, *waiting[:2])
    rows = np.sort(np.concatenate([np.flatnonzero(columns.is_device), leaves]))
    work = columns.end - columns.start
    np.minimum.at(work, waiting[1], wait_work)
    if wait_binding.any():
        usual["wait"] = int(np.median(wait_lag[wait_binding]))
    return Edges(
        np.concatenate([src, waiting[0]]),
        np.concatenate([dst, waiting[1]]),
        np.concatenate([kind, waiting[2]]),
        np.concatenate([lag, wait_lag]),
        np.concatenate([binding, wait_binding]),
        rows,
        work[rows],
        usual,
        (*event_notes, *blocked.degradations),
    )


Pair = tuple["Ints", "Ints"]


def _joined(pairs: list[tuple[int, Pair]]) -> tuple[Ints, Ints, NDArray[np.int8]]:
    src = np.concatenate([ends[0] for _, ends in pairs])
    dst = np.concatenate([ends[1] for _, ends in pairs])
    kind = np.concatenate([np.full(len(ends[0]), code, np.int8) for code, ends in pairs])
    return src, dst, kind


def thread_leaves(columns: Columns) -> Ints:
    """Host events that contain no other of their thread, in order of threads and starts."""
    rows = np.flatnonzero(columns.thread >= 0)
    order = rows[np.lexsort((rows, -columns.end[rows], columns.start[rows], columns.thread[rows]))]
    is_leaf = np.ones(len(order), np.bool_)
    same = columns.thread[order[1:]] == columns.thread[order[:-1]]
    is_leaf[:-1] = ~same | (columns.start[order[1:]] >= columns.end[order[:-1]])
    return order[is_leaf]


def _thread_edges(columns: Columns, leaves: Ints) -> Pair:
    same = columns.thread[leaves[1:]] == columns.thread[leaves[:-1]]
    return leaves[:-1][same], leaves[1:][same]


def _device_order(columns: Columns) -> tuple[Pair, Pair]:
    """Order on streams, and apart from it order inside one replay of a graph."""
    rows = np.flatnonzero(columns.is_device)
    order = rows[np.lexsort((rows, columns.start[rows], columns.stream[rows]))]
    before, after = order[:-1], order[1:]
    same = columns.stream[after] == columns.stream[before]
    before, after = before[same], after[same]
    replay = replays(columns)
    inside = (replay[after] >= 0) & (replay[after] == replay[before])
    return (before[~inside], after[~inside]), (before[inside], after[inside])


def replays(columns: Columns) -> Ints:
    """The correlation of the graph launch that a device event belongs to, or -1."""
    correlation = np.where(columns.is_device, columns.correlation, -1)
    values, inverse, counts = np.unique(correlation, return_inverse=True, return_counts=True)
    launched = columns.call[np.flatnonzero(columns.call >= 0)]
    by_graph = np.array(["GraphLaunch" in name for name in columns.names], np.bool_)
    graphs = np.unique(columns.correlation[launched[by_graph[columns.name[launched]]]])
    # One launch starts one kernel; a correlation that several share is a graph's.
    is_replay = (values >= 0) & ((counts > 2) | np.isin(values, graphs))
    return np.where(is_replay[inverse], correlation, -1)


def _launch_edges(columns: Columns) -> Pair:
    """From an API call to the device event it started; of a graph, to the first on each stream."""
    rows = np.flatnonzero(columns.call >= 0)
    rows = rows[np.lexsort((columns.start[rows], columns.stream[rows], columns.call[rows]))]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (columns.call[rows[1:]] != columns.call[rows[:-1]]) | (
        columns.stream[rows[1:]] != columns.stream[rows[:-1]]
    )
    return columns.call[rows[first]], rows[first]


def _inside_edges(columns: Columns, leaves: Ints) -> Pair:
    """From a host section to the first device event on each stream that it runs itself."""
    sections, rows = _run_inside(columns, leaves)
    order = np.lexsort((columns.start[rows], columns.stream[rows], sections))
    sections, rows = sections[order], rows[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (sections[1:] != sections[:-1]) | (
        columns.stream[rows[1:]] != columns.stream[rows[:-1]]
    )
    return sections[first], rows[first]


def _run_inside(columns: Columns, leaves: Ints) -> Pair:
    """Host sections, and the device events without a call that lie in each."""
    rows = np.flatnonzero(columns.is_device & (columns.call < 0))
    sections = waits.enclosing(columns, leaves, rows)
    return sections[sections >= 0], rows[sections >= 0]


def _inside_ends(columns: Columns, leaves: Ints) -> Pair:
    """From the last device event in each section to the section's end."""
    sections, rows = _run_inside(columns, leaves)
    order = np.lexsort((columns.end[rows], sections))
    sections, rows = sections[order], rows[order]
    last = np.ones(len(rows), np.bool_)
    last[:-1] = sections[1:] != sections[:-1]
    return rows[last], sections[last]


def _delays(
    columns: Columns, src: Ints, dst: Ints, kind: NDArray[np.int8]
) -> tuple[Ints, Flags, dict[str, int]]:
    """Delays of edges into starts, and which edge decided each start."""
    from_start = np.isin(kind, FROM_START)
    slack = columns.start[dst] - np.where(from_start, columns.start[src], columns.end[src])
    group = _groups(columns, dst, kind)
    usual = _usual(columns, src, dst, group, slack)
    nominal = np.array([usual.get(name, 0) for name in _GROUPS], np.int64)[group]
    excess = slack - nominal
    order = np.lexsort((excess, dst))
    binding = np.zeros(len(dst), np.bool_)
    if len(order):
        decided = np.ones(len(order), np.bool_)
        decided[1:] = dst[order[1:]] != dst[order[:-1]]
        binding[order[decided]] = True
    return np.where(binding, slack, np.minimum(nominal, slack)), binding, usual


_GROUPS: Final = (*KINDS, "graph_launch")
_GRAPH_LAUNCH: Final = len(KINDS)


def _groups(columns: Columns, dst: Ints, kind: NDArray[np.int8]) -> NDArray[np.int8]:
    """Kinds of edge, with launches of graphs apart from those of kernels."""
    of_graph = (kind == LAUNCH) & (replays(columns)[dst] >= 0)
    return np.where(of_graph, _GRAPH_LAUNCH, kind).astype(np.int8)


def _usual(
    columns: Columns, src: Ints, dst: Ints, group: NDArray[np.int8], slack: Ints
) -> dict[str, int]:
    """The usual delay of each kind, from events where no other edge can have decided."""
    usual = {}
    previous_end = np.full(len(columns.start), np.iinfo(np.int64).min)
    ordered = np.isin(group, (STREAM, GRAPH, EVENT))
    np.maximum.at(previous_end, dst[ordered], columns.end[src[ordered]])
    called = np.full(len(columns.start), np.iinfo(np.int64).max)
    for code in (LAUNCH, _GRAPH_LAUNCH, INSIDE):
        calls = group == code
        if not calls.any():
            continue
        # The device was idle when the call began: the call decided.
        idle = slack[calls & (previous_end[dst] <= columns.start[src])]
        # Where it seldom was, work begins at the latest when the call has submitted it.
        duration = np.median((columns.end - columns.start)[src[calls]])
        delay = np.median(idle) if len(idle) >= _ENOUGH else min(duration, slack[calls].min())
        usual[_GROUPS[code]] = int(delay)
        # How much later than usual a device event began after its call.
        called[dst[calls]] = slack[calls] - 3 * int(delay)
    # Called long before, on a stream that was busy: the order of the stream decided.
    queued = (called[dst] > 0) & (slack < called[dst]) & (columns.end[src] >= previous_end[dst])
    for code in (GRAPH, STREAM, EVENT):
        decided = slack[(group == code) & queued]
        if len(decided) >= _ENOUGH:
            usual[KINDS[code]] = int(np.median(decided))
        elif (group == code).any():
            # Calls decided every start: gaps say nothing of the delay of a busy stream.
            known = usual.get("stream", usual.get("graph", 0))
            usual[KINDS[code]] = min(known, int(slack[group == code].min()))
    return usual


_ENOUGH: Final = 5
"""Edges that must have decided before their median is taken."""


def _wait_delays(columns: Columns, src: Ints, dst: Ints) -> tuple[Ints, Flags, Ints]:
    """Delays of waits, whether each blocked, and the time it takes where it does not block."""
    duration = columns.end[dst] - columns.start[dst]
    slack = columns.end[dst] - columns.end[src]
    blocked = columns.end[src] > columns.start[dst]
    returning = int(np.median(slack[blocked])) if blocked.any() else 0
    lag = np.where(blocked, slack, np.minimum(slack, returning))
    return lag, blocked, np.where(blocked, slack.clip(0, None), duration)
