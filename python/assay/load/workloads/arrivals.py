"""When requests arrive: open loops by a random process, or as recorded, and what comes after the last.

The processes are those of `vllm bench serve`: gaps drawn from a gamma distribution whose shape is
the burstiness (1 is a Poisson process, less is burstier; the coefficient of variation of the gaps is
1 / sqrt(burstiness)), then scaled so that the last request arrives at requests / rate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

from assay.errors import InputError
from assay.load.workloads.workload import PlannedRequest, Workload


def gamma_arrivals(
    requests: int, rate: float, *, burstiness: float = 1.0, seed: int = 0
) -> list[float]:
    """Arrival times in seconds of requests with gamma gaps; burstiness 1 is a Poisson process.

    >>> [round(time, 3) for time in gamma_arrivals(4, 2.0, burstiness=math.inf)]
    [0.5, 1.0, 1.5, 2.0]
    """
    _check(requests, rate)
    if not burstiness > 0:
        raise InputError(f"burstiness: expected above 0, got {burstiness:g}")
    if math.isinf(burstiness):
        return [(1 + number) / rate for number in range(requests)]
    random = Random(f"arrivals {seed}")
    gaps = (random.gammavariate(burstiness, 1.0) for _ in range(requests))
    times = list(itertools.accumulate(gaps))
    # Gaps of a very bursty process can all be 0 in floating point: then all arrive at once.
    factor = requests / rate / times[-1] if times[-1] > 0 else 0.0
    return [time * factor for time in times]


def on_off_arrivals(
    requests: int, rate: float, *, on_s: float, off_s: float, seed: int = 0
) -> list[float]:
    """A Poisson process that runs for `on_s` seconds and rests for `off_s`, again and again.

    The rate is the mean over both; while it runs, it is (on + off) / on times as high.
    """
    if not (0 < on_s < math.inf and 0 <= off_s < math.inf):
        raise InputError(f"bursts: expected seconds on and off, got {on_s:g} and {off_s:g}")
    running = gamma_arrivals(requests, rate * (on_s + off_s) / on_s, seed=seed)
    return [time + math.floor(time / on_s) * off_s for time in running]


class ScheduledRequest(NamedTuple):
    """A request of a window and when it is sent."""

    position: int
    """0 is the first request of the window."""
    request: PlannedRequest
    due_s: float
    """Seconds after the first request of the window; 0 in a closed loop."""


def schedule(workload: Workload, offset: int = 0) -> Iterator[ScheduledRequest]:
    """The requests of a window that begins at `offset`, without end: after the last comes the first.

    In an open loop the first request is due at once, and the others at their distance from it; the
    times go on after the last request as they would if the recording followed itself.
    """
    requests = workload.requests
    if not requests:
        raise InputError(f"workload {workload.name}: expected requests, got none")
    period = period_s(workload)
    first = offset % len(requests)
    origin = requests[first].arrival_s
    for position in itertools.count():
        turn, index = divmod(first + position, len(requests))
        request = requests[index]
        due = 0.0 if workload.arrival == "closed" else request.arrival_s - origin + turn * period
        yield ScheduledRequest(position, request, due)


def period_s(workload: Workload) -> float:
    """Seconds from one pass of an open loop's requests to the next; 0 in a closed loop."""
    if workload.arrival == "closed" or not workload.requests:
        return 0.0
    first, last = workload.requests[0].arrival_s, workload.requests[-1].arrival_s
    # The first request of the next pass follows the last one at the mean gap.
    gaps = len(workload.requests) - 1
    if gaps and last > first:
        return (last - first) * (1 + 1 / gaps)
    return 1 / workload.rate if workload.rate else 0.0


def with_arrivals(
    workload: Workload, arrival: str, times: Sequence[float], rate: float | None
) -> Workload:
    """A workload whose requests arrive at these times, in an open loop."""
    requests = tuple(
        replace(request, arrival_s=time)
        for request, time in zip(workload.requests, times, strict=True)
    )
    return replace(workload, requests=requests, arrival=arrival, rate=rate, concurrency=None)


def with_rate(
    planned: Workload,
    rate: float | None,
    burstiness: float,
    bursts: tuple[float, float] | None,
    concurrency: int | None,
    seed: int,
) -> Workload:
    """The requests as an open loop of this rate, with at most `concurrency` under way.

    Without a rate they arrive as they did.
    """
    if rate is None:
        if bursts is not None:
            raise InputError("bursts: expected them with a rate, got no rate")
        return planned
    if bursts is not None:
        if not math.isclose(burstiness, 1.0):
            raise InputError("bursts: expected them without a burstiness, got both")
        on_s, off_s = bursts
        times = on_off_arrivals(len(planned.requests), rate, on_s=on_s, off_s=off_s, seed=seed)
        how = f"bursts of {on_s:g} s with {off_s:g} s of rest"
    else:
        times = gamma_arrivals(len(planned.requests), rate, burstiness=burstiness, seed=seed)
        how = f"burstiness {burstiness:g}"
    is_poisson = bursts is None and math.isclose(burstiness, 1.0)
    opened = with_arrivals(planned, "poisson" if is_poisson else "burst", times, rate)
    note = f"open loop: {rate:g} requests per second, {how}"
    return replace(opened, concurrency=concurrency, notes=(*opened.notes, note))


def replayed(workload: Workload, times: Sequence[float], time_scale: float = 1.0) -> Workload:
    """A workload whose requests arrive as recorded, counted from the first; in order of time.

    A `time_scale` of 0.5 replays in half the time, at twice the rate.
    """
    scaled = [(time - times[0]) * time_scale for time in times]
    # The mean rate has as many gaps as lie between the requests.
    rate = (len(times) - 1) / scaled[-1] if scaled[-1] > 0 else None
    return with_arrivals(workload, "replay", scaled, rate)


def _check(requests: int, rate: float) -> None:
    if requests < 1:
        raise InputError(f"requests: expected at least 1, got {requests}")
    if not 0 < rate < math.inf:
        raise InputError(f"rate: expected requests per second above 0, got {rate:g}")
