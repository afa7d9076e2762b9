"""Which device event a host call waited for, and which events one stream waited for on another.

Profilers seldom name the event of a wait. What a trace shows instead: a wait that blocked returns
just after the event it waited for, and an engine reads results in the order in which it asked for
them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.array_types import Ints
from assay.diagnose.replay.columns import Columns
from assay.lazy_import import np

if TYPE_CHECKING:
    Pair = tuple[Ints, Ints]

CLOCK_TOLERANCE_NS: Final = 20_000
"""How far the clocks of host and device may disagree before an order is not believed."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Device events and the host calls that waited for them, and what was assumed."""

    pairs: Pair
    degradations: tuple[str, ...]


def enclosing(columns: Columns, leaves: Ints, rows: Ints) -> Ints:
    """The host event of the same process that an event lies in, or -1."""
    enclosing_rows = np.full(len(rows), -1, np.int64)
    for pid in np.unique(columns.pid[rows]):
        sections = leaves[columns.pid[leaves] == pid]
        of_process = np.flatnonzero(columns.pid[rows] == pid)
        if not len(sections):
            continue
        sections = sections[np.argsort(columns.start[sections], kind="stable")]
        inner = rows[of_process]
        place = np.searchsorted(columns.start[sections], columns.start[inner], "right") - 1
        section = sections[place.clip(0)]
        holds = (place >= 0) & (columns.end[section] >= columns.end[inner])
        enclosing_rows[of_process[holds]] = section[holds]
    return enclosing_rows


def event_edges(columns: Columns) -> tuple[Pair, tuple[str, ...]]:
    """Waits of one stream for another: what was launched before, and what was launched next.

    A call that makes a stream wait is followed by the work that has to wait; the work it waits for
    is the last one launched before, on another stream.
    """
    nothing = np.zeros(0, np.int64)
    is_wait = np.array(["StreamWaitEvent" in name for name in columns.names], np.bool_)
    calls = np.flatnonzero((columns.thread >= 0) & is_wait[columns.name])
    launched = np.flatnonzero(columns.call >= 0)
    if not len(calls) or not len(launched):
        return (nothing, nothing), ()
    launched = launched[np.lexsort((launched, columns.start[columns.call[launched]]))]
    thread = columns.thread[columns.call[launched]]
    sources, targets = [], []
    for caller in np.unique(columns.thread[calls]):
        mine = launched[thread == caller]
        begins = columns.start[columns.call[mine]]
        place = np.searchsorted(begins, columns.start[calls[columns.thread[calls] == caller]])
        place = place[(place > 0) & (place < len(mine))]
        sources.append(mine[place - 1])
        targets.append(mine[place])
    src, dst = np.concatenate(sources), np.concatenate(targets)
    believed = (columns.stream[src] != columns.stream[dst]) & (
        columns.end[src] <= columns.start[dst] + CLOCK_TOLERANCE_NS
    )
    notes: tuple[str, ...] = ()
    if len(src) and not believed.all():
        notes = (
            f"{int((~believed).sum())} of {len(src)} waits between streams: the trace does not "
            "show which work they wait for",
        )
    return (src[believed], dst[believed]), notes


def wait_edges(columns: Columns, leaves: Ints) -> Waits:
    """For each call that waits for the device, the device event it waited for."""
    calls = leaves[columns.is_sync[leaves]]
    is_stream_wait = np.array(["StreamWaitEvent" in name for name in columns.names], np.bool_)
    calls = calls[~is_stream_wait[columns.name[calls]]]
    device = np.flatnonzero(columns.is_device)
    nothing = np.zeros(0, np.int64)
    if not len(calls) or not len(device):
        return Waits((nothing, nothing), ())
    target = _latest_ended(columns, device, columns.end[calls])
    notes: list[str] = []
    stepped = _of_step(columns, device, calls)
    target = np.where(stepped >= 0, stepped, target)
    reads = _event_waits(columns, calls[stepped < 0], device, notes)
    for call, row in reads.items():
        target[calls == call] = row
    known = target >= 0
    return Waits((target[known], calls[known]), tuple(notes))


def _latest_ended(columns: Columns, device: Ints, until: Ints) -> Ints:
    """The device event that ended last before each time, or -1."""
    order = device[np.argsort(columns.end[device], kind="stable")]
    place = np.searchsorted(columns.end[order], until, "right") - 1
    return np.where(place >= 0, order[place.clip(0)], -1)


def _of_step(columns: Columns, device: Ints, calls: Ints) -> Ints:
    """The last device event of a call's own step, where the engine numbers both."""
    rows_of_calls = np.full(len(calls), -1, np.int64)
    numbered = device[columns.step[device] >= 0]
    if not len(numbered):
        return rows_of_calls
    order = numbered[np.lexsort((columns.end[numbered], columns.step[numbered]))]
    step = columns.step[order]
    place = np.searchsorted(step, columns.step[calls], "right") - 1
    # Copies of a step that follow the wait are not what it waited for.
    for _ in range(3):
        late = (place >= 0) & (columns.end[order[place.clip(0)]] > columns.end[calls])
        place = np.where(late, place - 1, place)
    fits = (place >= 0) & (columns.step[calls] >= 0)
    row = order[place.clip(0)]
    fits &= (columns.step[row] == columns.step[calls]) & (columns.end[row] <= columns.end[calls])
    return np.where(fits, row, rows_of_calls)


def _event_waits(columns: Columns, calls: Ints, device: Ints, notes: list[str]) -> dict[int, int]:
    """Waits for an event that was recorded after copies to the host, in the order of the copies."""
    is_event = np.array(["EventSynchronize" in name for name in columns.names], np.bool_)
    calls = calls[is_event[columns.name[calls]]]
    groups = _copy_groups(columns, device)
    if not len(calls) or not len(groups):
        return {}
    calls = calls[np.argsort(columns.start[calls], kind="stable")]
    launched = columns.start[columns.call[groups]]
    ended = columns.end[groups]
    asked = np.searchsorted(launched, columns.start[calls])
    done = np.searchsorted(ended, columns.end[calls] + CLOCK_TOLERANCE_NS // 10, "right")
    latest = np.minimum(asked, done) - 1
    # A wait that blocked for long returned because of the copy that ended just before.
    waited = ended[latest.clip(0)] - columns.start[calls]
    blocked = (latest >= 0) & (waited > 4 * (columns.end[calls] - ended[latest.clip(0)]))
    if blocked.any():
        behind = Counter((asked - 1 - latest)[blocked].tolist()).most_common(1)[0][0]
    else:
        # Copies that no wait has read when the last one is asked for are read at the end.
        behind = max(int((asked == len(groups)).sum()) - 1, 0)
        notes.append(
            f"none of {len(calls)} waits for copies to the host blocked for long: they are taken to read "
            f"the copies of {'the same step' if not behind else f'{behind} steps before'}, as "
            "those at the end of the trace do"
        )
    event_waits: dict[int, int] = {}
    previous = -1
    for call, first, last in zip(calls.tolist(), asked.tolist(), latest.tolist(), strict=True):
        place = min(max(first - 1 - behind, previous + 1), last)
        if place >= 0:
            event_waits[call] = int(groups[place])
            previous = max(previous, place)
    return event_waits


def _copy_groups(columns: Columns, device: Ints) -> Ints:
    """The last copy to the host of each run of them, a run being free of other launches."""
    is_read = np.array(["DtoH" in name or "Device -> Pinned" in name or "Device -> Pageable" in name
                        for name in columns.names], np.bool_)  # fmt: skip
    launched = device[columns.call[device] >= 0]
    launched = launched[np.lexsort((launched, columns.start[columns.call[launched]]))]
    reads = columns.is_copy[launched] & is_read[columns.name[launched]]
    last = reads.copy()
    last[:-1] &= ~reads[1:]
    return launched[last]
