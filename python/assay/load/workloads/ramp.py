"""Rates that rise within a window: at which of them does an engine stop keeping its service levels?

One window answers what a search answers in many: its requests arrive faster and faster, from half of the
workload's rate to twice that. The figure `slo_rate` is the rate up to which 90 % of them keep every
limit. It is compared between settings, on the same arrivals; what an engine holds for good at a steady
rate is a little less (`assay load --find max-rate`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final

import numpy as np

from assay.array_types import Flags
from assay.errors import InputError
from assay.load.metrics import is_good, request_latencies_ms, succeeded
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.workload import Objective, Workload

RAMP: Final = "ramp"
SLO_RATE: Final = "slo_rate"
"""Requests a second up to which the service levels are kept."""
SPAN: Final = 2.0
"""The highest rate of a ramp over its middle one, and that over the lowest."""
LEAST_SHARE: Final = 0.9
"""SLO attainment: the share of requests that must keep every limit."""
BINS: Final = 6
"""Parts of a ramp that throughput and interactivity are told of."""
LEAST_REQUESTS: Final = 8 * BINS
MOST_REQUESTS: Final = 10_000
RAMPS: Final = 4
"""Ramps of a workload, each with arrivals of its own: blocks that follow each other ask for other ones."""


def ramped(workload: Workload, rate: float, requests: int, seed: int = 0) -> Workload:
    """Requests of a workload as ramps around a rate; a window is one of them, or several.

    >>> from assay.load.workloads.builtin import workload
    >>> ramp = ramped(workload("chat"), 4.0, 48)
    >>> ramp.arrival, ramp_length(ramp), rate_of(ramp, 0), rate_of(ramp, 47), rate_of(ramp, 48)
    ('ramp', 48, 2.0, 8.0, 2.0)
    """
    if not 0 < rate < math.inf:
        raise InputError(f"rate: expected requests per second above 0, got {rate:g}")
    known = workload.requests
    if len(known) < LEAST_REQUESTS:
        raise InputError(
            f'workload "{workload.name}": expected at least {LEAST_REQUESTS} requests to raise a '
            f"rate over, got {len(known)}"
        )
    # A ramp that is shorter than its answers take would never meet a queue: requests come again.
    length = min(max(requests, LEAST_REQUESTS), MOST_REQUESTS)
    notes = workload.notes
    if length > len(known):
        notes = (*notes, f"{len(known)} requests come again within a block of {length}")
    chosen = [known[number % len(known)] for number in range(RAMPS * length)]
    bare = replace(workload, requests=tuple(chosen), arrival=RAMP, rate=rate, concurrency=None)
    chance = Random(f"ramp {seed}")
    gaps = (chance.expovariate(rate_of(bare, place)) for place in range(len(chosen)))
    arriving = tuple(
        replace(request, number=number, arrival_s=time)
        for number, (request, time) in enumerate(
            zip(chosen, itertools.accumulate(gaps), strict=True)
        )
    )
    return replace(bare, requests=arriving, objective=Objective(SLO_RATE), notes=notes)


def ramp_length(workload: Workload) -> int:
    """Requests of one ramp."""
    return len(workload.requests) // RAMPS


def rate_of(workload: Workload, place: int) -> float:
    """The rate at a request of a workload of ramps."""
    assert workload.rate is not None
    length = ramp_length(workload)
    share = place % length / max(length - 1, 1)
    return float(workload.rate * SPAN ** (2.0 * share - 1.0))


def ramp_figures(workload: Workload, records: Sequence[RequestRecord]) -> dict[str, float]:
    """What the ramps of a window say: `slo_rate`, and throughput and interactivity of each part."""
    ramps = list(_ramps(workload, records))
    if not ramps:
        return {}
    rates = [_kept_rate(workload, ramp) for ramp in ramps]
    figures = {SLO_RATE: math.exp(math.fsum(map(math.log, rates)) / len(rates))}
    parts = [_parts(workload, ramp) for ramp in ramps]
    for name in set.intersection(*(set(part) for part in parts)):
        figures[name] = math.fsum(part[name] for part in parts) / len(parts)
    return figures


def _ramps(workload: Workload, records: Sequence[RequestRecord]) -> Iterator[list[RequestRecord]]:
    """Whole ramps, each in the order in which its requests were sent."""
    count = ramp_length(workload)
    ordered = sorted(records, key=lambda record: record.sent_s)
    for first in range(0, len(ordered) - count + 1, count):
        yield ordered[first : first + count]


def _kept_rate(workload: Workload, ramp: Sequence[RequestRecord]) -> float:
    """The rate at the end of the longest beginning of which the share keeps the limits.

    Of all places it is the one with most good requests beyond the share: one slow request at the
    start, or a lucky one at the end, does not move it far.
    """
    kept = _good(workload, ramp)
    beyond = np.cumsum(kept - LEAST_SHARE)
    place = int(np.argmax(beyond))
    return rate_of(workload, place) if beyond[place] > 0 else rate_of(workload, 0)


def _good(workload: Workload, ramp: Sequence[RequestRecord]) -> Flags:
    good = np.array([succeeded(record) for record in ramp], dtype=bool)
    if good.any():
        done = [record for record in ramp if succeeded(record)]
        good[good] = is_good(done, workload.slo)
    return good


def _parts(workload: Workload, ramp: Sequence[RequestRecord]) -> Mapping[str, float]:
    """Tokens a second in all and of a user, in each part of a ramp."""
    edges = [round(part * len(ramp) / BINS) for part in range(BINS + 1)]
    figures: dict[str, float] = {}
    for part, (first, behind) in enumerate(itertools.pairwise(edges), 1):
        begin = ramp[first].sent_s
        end = ramp[behind].sent_s if behind < len(ramp) else ramp[-1].sent_s
        done = [record for record in ramp[first:behind] if succeeded(record)]
        tpot = request_latencies_ms(done)["tpot"] if done else np.zeros(0)
        if not done or end <= begin or not (tpot > 0).any():
            continue
        ended = sum(record.output_tokens for record in ramp if begin <= record.end_s < end)
        figures[f"ramp_{part}_rate"] = rate_of(workload, (first + behind - 1) // 2)
        figures[f"ramp_{part}_output_throughput"] = ended / (end - begin)
        figures[f"ramp_{part}_tokens_per_s_user"] = 1e3 / float(np.median(tpot[tpot > 0]))
    return figures
