"""Why a device idled: every gap between its events, by what the host and other work did meanwhile.

The launch of the event that ends a gap decides. Had it returned before the gap began, the event was
queued and the gap is the device's: dispatch latency, a wait for another stream, another process, or
the host's after all, where it began to wait inside the gap or recorded nothing at all meanwhile.
Else the host was late: the call itself is a launch gap; what lies before it is a wait of the host, a
stall, or the usual work between two launches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assay.array_types import Flags, Ints
from assay.diagnose.itemizing import intervals
from assay.diagnose.itemizing.host_activity import HostActivity, Spans
from assay.diagnose.terms import CODES
from assay.lazy_import import pl

LAUNCH, STALL = CODES["launch_gaps"], CODES["host_stalls"]
SYNC, QUEUE = CODES["synchronization"], CODES["queueing"]
PROFILER, UNKNOWN = CODES["profiler_overhead"], CODES["unknown"]

HOST_OPERATIONS: Final = ("prepare_inputs", "select_logits", "sampling", "collect_outputs")
"""Operations around the model: a device that waits for them waits for the host's work on inputs
and outputs, not for the launch of the next layer."""

DISPATCH_TIMES: Final = 20
DISPATCH_NS: Final = 20_000
"""A queued event that starts later than both, in medians and in nanoseconds, was held by more
than dispatch."""

STALL_NS: Final = 25_000
"""Host time before a launch is a stall where it is so much longer than the 90th percentile of the
same place in other layers and steps."""
SILENT: Final = 0.8
"""Share of a gap that the host must record nothing in, to have stood still."""
FEW: Final = 8
"""Occurrences below which a place has no distribution of its own."""
LONG_TIMES: Final = 30.0
LONG_NS: Final = 500_000
"""Host time that is a stall wherever it occurs, in medians over all places and in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Idle intervals of a lane; events are indices into its device events, -1 for none."""

    start: Ints
    end: Ints
    before: Ints
    """The event that ended last."""
    after: Ints
    """The event that ends the gap."""
    opens_step: Flags
    """Whether a step begins with the end of the gap."""


@dataclass(frozen=True, slots=True)
class DeviceSide:
    """What is known of the device events around gaps."""

    correlation: Ints
    stream: Ints
    operation: Ints
    """Code of the operation, -1 for none."""
    is_host_operation: Flags
    """Whether an operation, by code, is one of `HOST_OPERATIONS`."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Classified pieces of gaps."""

    start: Ints
    end: Ints
    term: Ints
    gap: Ints
    cause: Ints
    """Row of the event that explains the piece: a call, a wait, a record of the profiler; or -1."""


def classify(gaps: Gaps, device: DeviceSide, host: HostActivity, others: Spans) -> Idle:
    """Every nanosecond of the gaps in a term; `others` is work of other processes on the device."""
    count = len(gaps.start)
    after, known = np.maximum(gaps.after, 0), gaps.after >= 0
    call_start = np.where(known, host.calls.start[after], -1)
    call_end = np.where(known, host.calls.end[after], -1)
    thread = np.where(known, host.calls.thread[after], -1)
    correlation = np.where(known, device.correlation[after], -1)
    before = np.maximum(gaps.before, 0)
    in_replay = (
        (gaps.before >= 0) & (correlation >= 0) & (device.correlation[before] == correlation)
    )
    launched = (call_start >= 0) & ~in_replay
    queued = in_replay | (launched & (call_end <= gaps.start))
    late = launched & ~queued
    base = _Base()
    _add_queued(base, gaps, device, np.flatnonzero(queued), in_replay)
    _add_late(base, gaps, device, np.flatnonzero(late), call_start, call_end)
    rest = np.flatnonzero(~queued & ~late)
    has_sections = len(host.sections) > 0
    base.add(gaps.start[rest], gaps.end[rest], STALL if has_sections else UNKNOWN, rest)
    start, end, term, gap = base.arrays()
    cause = np.where(late[gap] | queued[gap], host.calls.row[after][gap], -1)
    idle = Idle(start, end, term, gap, cause)
    if has_sections:
        unlaunched = ~(queued | late)
        idle = _overlay(idle, host.sections.where(host.is_launch), LAUNCH, unlaunched)
        idle = _overlay(idle, host.blocking, SYNC, unlaunched)
    for number in np.unique(thread[late]).tolist():
        idle = _overlay(idle, host.blocking.of_thread(number), SYNC, late & (thread == number))
    held = np.zeros(count, bool)
    held[idle.gap[idle.term == UNKNOWN]] = True
    held &= queued | late
    if held.any():
        # From when on the device had its work and did not begin.
        ready = replace(gaps, start=np.where(late, np.maximum(call_end, gaps.start), gaps.start))
        idle = _overlay(idle, _begins_in(ready, host.blocking), SYNC, held, only=UNKNOWN)
        silent = _is_silent(ready, host, held)
        term = np.where((idle.term == UNKNOWN) & silent[idle.gap], STALL, idle.term)
        idle = replace(idle, term=term)
    idle = _overlay(idle, others, QUEUE, held, only=UNKNOWN)
    idle = _overlay(idle, host.profiler, PROFILER, ~queued)
    idle = _less_records(idle, gaps, host, late)
    assert len(np.unique(idle.gap)) == count
    return idle


class _Base:
    """Pieces as they are collected."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints, Ints, Ints]] = []

    def add(self, start: Ints, end: Ints, term: Ints | int, gap: Ints) -> None:
        """Add pieces; empty ones are left out."""
        kept = start < end
        terms = np.broadcast_to(np.asarray(term, np.int64), start.shape)
        self._parts.append((start[kept], end[kept], terms[kept], gap[kept]))

    def arrays(self) -> tuple[Ints, Ints, Ints, Ints]:
        joined = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        start, end, term, gap = (column[order] for column in joined)
        return start, end, term, gap


def _add_queued(
    base: _Base, gaps: Gaps, device: DeviceSide, queued: Ints, in_replay: Flags
) -> None:
    """Dispatch latency up to its usual bound; what goes beyond is not explained by it."""
    start, end = gaps.start[queued], gaps.end[queued]
    length = end - start
    usual = int(np.median(length)) if len(length) else 0
    held = length > _limit(usual)
    cut = np.where(held, start + usual, end)
    before, after = gaps.before[queued], gaps.after[queued]
    crosses = ~in_replay[queued] & (before >= 0) & (device.stream[before] != device.stream[after])
    base.add(start, cut, np.where(crosses, SYNC, LAUNCH), queued)
    base.add(cut, end, UNKNOWN, queued)


def _limit(usual: int) -> int:
    return max(DISPATCH_TIMES * usual, DISPATCH_NS)


def _begins_in(gaps: Gaps, spans: Spans) -> Spans:
    """Spans that begin inside a gap: what was waited for before does not explain it."""
    at = np.searchsorted(gaps.start, spans.start, side="right") - 1
    return spans.where((at >= 0) & (spans.start < gaps.end[np.maximum(at, 0)]))


def _is_silent(gaps: Gaps, host: HostActivity, held: Flags) -> Flags:
    """Held gaps through most of which the host begins nothing and does not wait for the device.

    Work was queued and the device idle: the whole process stood still.
    """
    is_silent = np.zeros(len(gaps.start), bool)
    if not len(host.begins):
        return is_silent
    _, start, end = intervals.owned_pieces(host.blocking.start, host.blocking.end)
    waited = intervals.overlap(gaps.start, gaps.end, start, end)
    first = np.searchsorted(host.begins, gaps.start, side="right")
    last = np.searchsorted(host.begins, gaps.end)
    for at in np.flatnonzero(held).tolist():
        length = gaps.end[at] - gaps.start[at]
        inside = host.begins[first[at] : last[at]]
        quiet = np.diff(inside, prepend=gaps.start[at], append=gaps.end[at]).max()
        is_silent[at] = quiet >= SILENT * length and 2 * waited[at] < length
    return is_silent


def _add_late(
    base: _Base, gaps: Gaps, device: DeviceSide, late: Ints, call_start: Ints, call_end: Ints
) -> None:
    """The host's time before the launch, the launch itself, and its way to the device."""
    start, end = gaps.start[late], gaps.end[late]
    called = np.clip(call_start[late], start, end)
    returned = np.clip(call_end[late], called, end)
    latency = end - returned
    usual = int(np.median(latency)) if len(latency) else 0
    arrived = np.where(latency > _limit(usual), returned + usual, end)
    base.add(called, arrived, LAUNCH, late)
    base.add(arrived, end, UNKNOWN, late)
    operation = device.operation[gaps.after[late]]
    around = gaps.opens_step[late] | np.append(device.is_host_operation, False)[operation]
    base.add(start[around], called[around], STALL, late[around])
    inside = ~around
    place = operation[inside] * (len(device.is_host_operation) + 1)
    place += device.operation[np.maximum(gaps.before[late][inside], 0)]
    ordinary = _usual_host_time(place, (called - start)[inside])
    cut = np.maximum(called[inside] - ordinary, start[inside])
    base.add(start[inside], cut, STALL, late[inside])
    base.add(cut, called[inside], LAUNCH, late[inside])


def _usual_host_time(place: Ints, length: Ints) -> Ints:
    """How much host time before a launch is usual: all of it where it is not a stall."""
    if not len(length):
        return length
    overall = float(np.median(length))
    places = pl.DataFrame({"place": place, "length": length}).with_columns(
        count=pl.len().over("place"),
        median=pl.col("length").median().over("place"),
        high=pl.col("length").quantile(0.9).over("place"),
    )
    median, high = places["median"].to_numpy(), places["high"].to_numpy()
    long = max(LONG_TIMES * overall, LONG_NS)
    is_known = (places["count"].to_numpy() >= FEW) & (median <= long)
    typical = np.where(is_known, median, overall)
    odd = is_known & (length > high + STALL_NS)
    usual_host_time: Ints = np.where(odd | (length > long), typical.astype(np.int64), length)
    return usual_host_time


def _less_records(idle: Idle, gaps: Gaps, host: HostActivity, late: Flags) -> Idle:
    """Give the profiler what its records of the host cost inside gaps that the host made."""
    spent = np.append(np.int64(0), np.cumsum(host.record_ns))
    first = np.searchsorted(host.begins, gaps.start)
    cost = spent[np.searchsorted(host.begins, gaps.end)] - spent[first]
    cost = np.where(late, cost, 0)
    if not cost.any():
        return idle
    is_host = (idle.term == LAUNCH) | (idle.term == STALL)
    length = np.where(is_host, idle.end - idle.start, 0)
    paid = intervals.within_budget(idle.gap, length, cost[idle.gap])
    middle = idle.start + paid
    parts = [
        (idle.start, middle, np.full_like(idle.term, PROFILER), idle.gap, idle.cause),
        (middle, idle.end, idle.term, idle.gap, idle.cause),
    ]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    kept = np.flatnonzero(columns[0] < columns[1])
    order = kept[np.argsort(columns[0][kept], kind="stable")]
    return Idle(*(column[order] for column in columns))


def _overlay(idle: Idle, spans: Spans, term: int, allowed: Flags, only: int | None = None) -> Idle:
    """Give what spans cover of the allowed gaps to a term; `only` of pieces of another term."""
    if not len(spans) or not allowed.any():
        return idle
    index, start, end = intervals.owned_pieces(spans.start, spans.end)
    # Only spans that touch a gap matter.
    touched = np.searchsorted(idle.end, start, side="right") < np.searchsorted(idle.start, end)
    index, start, end = index[touched], start[touched], end[touched]
    points = np.unique(np.concatenate([idle.start, idle.end, start, end]))
    piece = np.full(max(len(points) - 1, 0), -1, np.int64)
    over = np.full(len(piece), -1, np.int64)
    intervals.paint(points, idle.start, idle.end, np.arange(len(idle.start)), piece)
    intervals.paint(points, start, end, spans.row[index], over)
    is_open = allowed[idle.gap] & (True if only is None else idle.term == only)
    over[(piece < 0) | ~is_open[piece]] = -1
    kept = np.flatnonzero(piece >= 0)
    piece, over = piece[kept], over[kept]
    new = np.append(True, (np.diff(piece) != 0) | (np.diff(over) != 0))[: len(piece)]
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(piece)) - 1
    piece, over = piece[first], over[first]
    return Idle(
        points[:-1][kept[first]],
        points[1:][kept[last]],
        np.where(over >= 0, term, idle.term[piece]),
        idle.gap[piece],
        np.where(over >= 0, over, idle.cause[piece]),
    )
