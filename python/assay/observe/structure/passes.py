"""Forward passes from periodicity: stretches where the kernels of a layer repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.array_types import Ints

_SHORTEST_LAYER = 5
"""Kernels of a layer at least; the most fused engines launch seven."""
_DISTINCT = 4
"""Distinct kernels of a layer at least; repeated fills and copies have one or two."""
_LAGS = 48
"""Candidate periods that are tried."""
_UNKNOWN_PERIODS = 6
"""Repetitions that make a pass when the number of layers is not known."""
_EDGE_PERIODS = 3
"""Repetitions that make a truncated pass at the edge of a trace."""


@dataclass(frozen=True, slots=True)
class Run:
    """Kernels `start..stop` repeat with a period; `layers` is how often, not rounded."""

    start: int
    stop: int
    period: int
    layers: float


def find_passes(codes: Ints, layers: int | None, group: int = 1) -> list[list[Run]]:
    """The forward passes of a sequence of kernel identities, each as the runs it consists of.

    `layers` is the model's number of layers, where it is known; `group` is the number of layers
    after which their kinds repeat (hybrids). A pass whose layers are not all alike (dense first
    layers of a MoE, a stray kernel) consists of several runs.
    """
    pieces = _pieces(codes, layers, group)
    usual, share = _usual_layers(pieces)
    # Pieces that are alike and short are passes of a pipeline stage, which has part of the layers.
    if layers is None or (usual < 0.5 * layers and share > 0.6 and len(pieces) > 2):
        layers = usual or None
    return _joined(pieces, layers)


def _pieces(codes: Ints, layers: int | None, group: int) -> list[Run]:
    """Runs of repetition that do not overlap, in order; short periods are taken first.

    A period of several layers, or of a whole step, also repeats: it is taken only where no
    shorter period covers its kernels.
    """
    taken = np.zeros(len(codes), bool)
    runs: list[Run] = []
    small: list[Run] = []
    for lag in _candidate_lags(codes):
        for start, stop in _equal_stretches(codes, lag):
            periods = (stop - start) / lag + 1
            if taken[start : stop + lag].mean() > 0.1 or not _is_layer(codes, start, lag):
                continue
            enough, share = _needed(codes[start : start + lag], periods, layers, group)
            run = Run(start, stop + lag, lag, periods * share)
            if enough:
                runs.append(run)
                taken[start : stop + lag] = True
            elif periods >= _EDGE_PERIODS:
                small.append(run)
    # What is left: the rest of passes that something interrupts, and passes the trace cuts off.
    # Of hybrids the longest runs, which hold all kinds of layers.
    first = (lambda run: run.start - run.stop) if group > 1 else (lambda run: run.period)
    for run in sorted(small, key=first):
        if not taken[run.start : run.stop].any():
            runs.append(run)
            taken[run.start : run.stop] = True
    return sorted(runs, key=lambda run: run.start)


def _needed(period: Ints, periods: float, layers: int | None, group: int) -> tuple[bool, int]:
    """Whether so many repetitions are a pass, and how many layers one repetition has."""
    if layers is None:
        return periods >= _UNKNOWN_PERIODS, 1
    # Kernels that every layer has show how many layers a period has: some have two a layer.
    most = int(np.unique(period, return_counts=True)[1].max())
    if group > 1 and group <= most <= 3 * group and periods >= max(0.5 * layers / group, 2):
        return True, group
    return periods >= max(0.5 * layers, 2), 1


def _candidate_lags(codes: Ints) -> list[int]:
    """Distances between equal kernels, the frequent ones, shortest first."""
    order = np.argsort(codes, kind="stable")
    same = codes[order][1:] == codes[order][:-1]
    distances = np.diff(order)[same]
    distances = distances[(distances >= _SHORTEST_LAYER) & (distances <= len(codes) // 2)]
    if not len(distances):
        return []
    values, counts = np.unique(distances, return_counts=True)
    frequent = values[np.argsort(-counts, kind="stable")[:_LAGS]]
    return sorted(frequent.tolist())


def _equal_stretches(codes: Ints, lag: int) -> list[tuple[int, int]]:
    """Stretches `i` of at least one period where `codes[i] == codes[i + lag]`."""
    equal = np.concatenate(([False], codes[:-lag] == codes[lag:], [False]))
    edges = np.flatnonzero(equal[1:] != equal[:-1])
    starts, stops = edges[::2], edges[1::2]
    long = stops - starts >= lag
    return list(zip(starts[long].tolist(), stops[long].tolist(), strict=True))


def _is_layer(codes: Ints, start: int, lag: int) -> bool:
    return len(np.unique(codes[start : start + lag])) >= _DISTINCT


def _usual_layers(pieces: list[Run]) -> tuple[int, float]:
    """How often layers repeat in most pieces, and in which share of them; 0 without any."""
    if not pieces:
        return 0, 0.0
    values, counts = np.unique([round(run.layers) for run in pieces], return_counts=True)
    return int(values[counts.argmax()]), float(counts.max() / len(pieces))


def _joined(pieces: list[Run], layers: int | None) -> list[list[Run]]:
    """Pieces of one pass put together, as long as its layers do not exceed the model's."""
    passes: list[list[Run]] = []
    total = 0.0
    for run in pieces:
        if passes and layers is not None:
            last = passes[-1][-1]
            near = run.start - last.stop <= 3 * max(run.period, last.period)
            if near and total + run.layers <= layers + 1:
                passes[-1].append(run)
                total += run.layers
                continue
        passes.append([run])
        total = run.layers
    if layers is None:
        return passes
    return [
        pass_
        for number, pass_ in enumerate(passes)
        if sum(run.layers for run in pass_) >= 0.5 * layers or number in (0, len(passes) - 1)
    ]
