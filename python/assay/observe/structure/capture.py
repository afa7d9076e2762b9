"""Captured graphs: what the CPU operations around the capture say of a replay's kernels.

A replay has no callers: its kernels share one launch. While the graph was captured, each kernel was
launched, without running, inside the CPU operation that made it. Where a trace holds the capture,
the n-th launch of a capture is the n-th kernel of its replays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assay.array_types import Flags, Ints
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.structure.names import CLASS_CODES, CLASSES, classify
from assay.observe.structure.sequence import Names, Sequence

_GEMM_CALL: Final = re.compile(r"^aten::(mm|addmm|linear|matmul|bmm|_scaled_mm)$")
_SAYS_LITTLE: Final = ("unknown", "elementwise", "reduce")
"""Classes of names that a caller may make precise."""
_DEEPEST: Final = 64
"""CPU operations before a launch that are looked at for its callers."""


@dataclass(frozen=True, slots=True)
class Capture:
    """The classes of one captured graph's callers, by node; -1 where they say little."""

    classes: Ints


def holds_capture(events: pl.DataFrame) -> bool:
    """Whether graphs were captured while the trace was recorded."""
    names = events.lazy().filter(pl.col("kind") == "api").select("name").unique().collect()
    return any("BeginCapture" in name for name in names["name"].cast(pl.String) if name)


def find_captures(events: pl.DataFrame) -> list[Capture]:
    """The captures that a trace holds with their CPU operations."""
    if not holds_capture(events):
        return []
    calls = (
        events.lazy()
        .filter(pl.col("kind") == "api")
        .select(pl.col("name").cast(pl.String), "start_ns", "tid", "correlation")
        .filter(pl.col("name").str.contains("BeginCapture|EndCapture|Launch|Memcpy|Memset"))
        .filter(~pl.col("name").str.contains("GraphLaunch"))
        .sort("start_ns")
        .collect()
    )
    begins = calls.filter(pl.col("name").str.contains("BeginCapture"))
    ran = events.filter(pl.col("kind").is_in(list(schema.DEVICE_KINDS)))["correlation"]
    ends = calls.filter(pl.col("name").str.contains("EndCapture"))
    launches = calls.filter(
        ~pl.col("name").str.contains("Capture") & ~pl.col("correlation").is_in(ran.implode())
    )
    captures = []
    for tid, begin in begins.select("tid", "start_ns").iter_rows():
        after = ends.filter((pl.col("tid") == tid) & (pl.col("start_ns") > begin))
        if not after.height:
            continue
        inside = launches.filter(
            (pl.col("tid") == tid) & pl.col("start_ns").is_between(begin, after["start_ns"][0])
        )
        if inside.height:
            kernels = inside["name"].str.contains("Launch").to_numpy()
            captures.append(Capture(_callers(events, tid, inside["start_ns"].to_numpy(), kernels)))
    return captures


def _callers(events: pl.DataFrame, tid: int, moments: Ints, kernels: Flags) -> Ints:
    """The class of the innermost telling CPU operation around each launch of a kernel."""
    operations = (
        events.filter((pl.col("kind") == "host") & (pl.col("tid") == tid))
        .sort("start_ns")
        .select("start_ns", "dur_ns", pl.col("name").cast(pl.String))
    )
    starts = operations["start_ns"].to_numpy()
    stops = starts + operations["dur_ns"].to_numpy()
    names = operations["name"].to_list()
    callers = np.full(len(moments), -1, np.int64)
    last = -1
    for number in np.flatnonzero(kernels).tolist():
        moment = int(moments[number])
        place = int(np.searchsorted(starts, moment, side="right"))
        for call in range(place - 1, max(place - 1 - _DEEPEST, -1), -1):
            if stops[call] >= moment and (kind := _class(names[call])) not in _SAYS_LITTLE:
                # What a GEMM launches after its first kernel is its reduction.
                follows = kind == "gemm" and call == last
                callers[number] = CLASS_CODES["splitk" if follows else kind]
                last = call
                break
    return callers


def _class(operation: str) -> str:
    return "gemm" if _GEMM_CALL.match(operation) else classify("kernel", operation)


def merge(
    names: Names, sequence: Sequence, captures: list[Capture]
) -> tuple[Names, Sequence, Ints]:
    """Names and a sequence that know the callers of replayed kernels, and those callers' classes.

    A kernel whose own name says little takes the class of its caller; the others keep theirs, and
    both are compared once operations are known.
    """
    callers = np.full(len(sequence), -1, np.int64)
    sizes = {len(capture.classes): capture for capture in captures}
    edges = np.flatnonzero(np.diff(sequence.replay)) + 1
    for members in np.split(np.arange(len(sequence)), edges):
        if len(members) and sequence.replay[members[0]] >= 0 and len(members) in sizes:
            callers[members] = sizes[len(members)].classes
    little = np.isin(names.classes, [CLASS_CODES[name] for name in _SAYS_LITTLE])[sequence.names]
    changed = np.flatnonzero(little & (callers >= 0))
    if not len(changed):
        return names, sequence, callers
    pairs = sequence.names[changed] * len(CLASSES) + callers[changed]
    values, inverse = np.unique(pairs, return_inverse=True)
    old = values // len(CLASSES)
    more = Names(
        [*names.texts, *(names.texts[index] for index in old)],
        [*names.kinds, *(names.kinds[index] for index in old)],
        np.concatenate((names.classes, values % len(CLASSES))),
        [*names.further, *(names.further[index] for index in old)],
    )
    renamed = sequence.names.copy()
    renamed[changed] = len(names.texts) + inverse
    return more, replace(sequence, names=renamed), callers
