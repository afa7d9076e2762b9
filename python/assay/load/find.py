"""The highest load that holds an SLO: doubling to a bracket, then bisection, on measured windows.

A load holds only if the lower bound of its attainment does; a load whose interval still covers the
wanted share after `most_windows` windows is undecided and does not hold. The answer is measured again
at the end, in longer windows: the highest of several loads that held is also the luckiest. Where the
lowest load fails, the SLO is infeasible: the answer is the nearest measured point and the term that
binds there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from assay.errors import InputError
from assay.load.attainment import Attainment, attainment, least_requests
from assay.load.metrics import limits_ms
from assay.load.workloads.arrivals import gamma_arrivals, with_arrivals
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.workload import ServiceLevel, Window, Workload

Kind = Literal["max-rate", "max-concurrency"]
KINDS: Final[tuple[Kind, ...]] = ("max-rate", "max-concurrency")

Measure = Callable[[Workload, Window], Measurement]

AT_ONCE: Final = "at once"
A_SECOND: Final = "requests/s"

_LATENCIES: Final = 20
"""Least length of a window at a rate, in latencies of a request that runs alone: a queue needs time
to show that it grows."""
_CONFIRMED: Final = 4
"""How many times longer the windows are in which the answer is measured again."""
_FARTHEST: Final = 1 << 14
"""The highest load of the search, as a multiple of the first."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How surely and how closely to search."""

    least_share: float = 0.9
    """SLO attainment: the share of requests that must keep every limit."""
    tolerance: float = 0.05
    """The search ends when the bracket is this narrow, relative to the load."""
    requests: int | None = None
    """Requests of a window, at least; None takes twice what the share needs."""
    most_windows: int = 3
    """Windows at one load before it is left undecided."""
    most: float | None = None
    """The highest load to try."""


@dataclass(frozen=True, slots=True)
class Point:
    """One load, and what was measured there."""

    load: float
    unit: str
    """`AT_ONCE` or `A_SECOND`: a search for a rate begins with one request at a time."""
    attainment: Attainment
    holds: bool | None
    windows: tuple[Measurement, ...]

    def to_data(self) -> dict[str, Any]:
        """As plain data, without the records."""
        return {
            "load": self.load,
            "unit": self.unit,
            "holds": self.holds,
            "attainment": self.attainment.share._asdict(),
            "binds": self.attainment.binds,
            "requests": self.attainment.requests,
            "load_state": self.windows[-1].load_state,
            "figures": dict(self.windows[-1].figures),
        }


@dataclass(frozen=True, slots=True)
class LoadSearch:
    """The answer of a search."""

    kind: Kind
    best: Point | None
    """The highest load that holds; None where the SLO is infeasible."""
    above: Point | None
    """The lowest load above it that does not hold; None where no load failed."""
    nearest: Point | None
    """Where it is infeasible: the measured point that is nearest to holding."""
    points: tuple[Point, ...]
    """Every load that was measured, in order of the search."""
    notes: tuple[str, ...]


def find(
    kind: Kind,
    workload: Workload,
    slo: ServiceLevel,
    measure: Measure,
    options: SearchOptions | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> LoadSearch:
    """Search for the highest rate, or the most requests at once, that hold an SLO."""
    options = options or SearchOptions()
    check(slo, options)
    return _Search(kind, workload, slo, measure, options, say).run()


def check(slo: ServiceLevel, options: SearchOptions) -> None:
    """Refuse what cannot be searched for, before a server is asked anything."""
    if not limits_ms(slo):
        raise InputError("--find: expected an SLO, got none", "add --slo ttft=1s,tpot=50ms")
    if not 0 < options.least_share < 1:
        raise InputError(
            f"--attainment: expected a share between 0 and 1, got {options.least_share:g}"
        )
    needed = least_requests(options.least_share)
    if options.requests is not None and options.requests * options.most_windows < needed:
        raise InputError(
            f"--requests: expected at least {-(-needed // options.most_windows)} in each window to "
            f"show {options.least_share:.3g} of them, got {options.requests}"
        )


class _Search:
    def __init__(
        self,
        kind: Kind,
        workload: Workload,
        slo: ServiceLevel,
        measure: Measure,
        options: SearchOptions,
        say: Callable[[str], None],
    ) -> None:
        self._kind, self._workload, self._slo = kind, replace(workload, slo=slo), slo
        self._measure, self._options, self._say = measure, options, say
        self._requests = options.requests or 2 * least_requests(options.least_share)
        self._points: list[Point] = []
        self._sent = 0
        self._alone_s = 0.0

    def run(self) -> LoadSearch:
        """Bracket, bisect, measure the answer again."""
        alone = self._at_once(1)
        if not alone.holds:
            # What fails alone fails in company.
            return self._answer(None, None)
        if self._kind == "max-concurrency":
            return self._answer(*self._narrowed(*self._bracket(alone)))
        rate = alone.windows[-1].figures["request_throughput"]
        self._alone_s = alone.windows[-1].figures["mean_e2el_ms"] / 1e3
        first = self._at_rate(min(rate, self._options.most or rate))
        start = first if first.holds else self._lower(first)
        if start is None:
            return self._answer(None, None)
        low, high = self._bracket(start) if start is first else (start, self._above(start))
        return self._answer(*self._narrowed(low, high))

    def _narrowed(self, low: Point, high: Point | None) -> tuple[Point | None, Point | None]:
        """Bisect and measure the answer again; one that fails then is the new upper end."""
        while True:
            while high is not None and not self._is_close(low, high):
                point = self._at(self._between(low, high))
                low, high = (point, high) if point.holds else (low, point)
            again = self._again(low)
            if again.holds:
                return again, high
            high = again
            held = [point for point in self._newest() if point.holds and point.load < low.load]
            if not held:
                return None, high
            low = max(held, key=lambda point: point.load)

    def _between(self, low: Point, high: Point) -> float:
        if self._kind == "max-concurrency":
            return float((low.load + high.load) // 2)
        return math.sqrt(low.load * high.load)

    def _is_close(self, low: Point, high: Point) -> bool:
        if self._kind == "max-concurrency" and high.load - low.load <= 1:
            return True
        return high.load <= low.load * (1 + self._options.tolerance)

    def _lower(self, failed: Point) -> Point | None:
        """A rate that holds, found by halving; None where even a rare request does not."""
        rate = failed.load
        for _ in range(6):
            rate /= 2
            if (point := self._at_rate(rate)).holds:
                return point
        return None

    def _bracket(self, low: Point) -> tuple[Point, Point | None]:
        """Double the load until it does not hold; None above where the limit itself holds."""
        most = self._options.most or low.load * _FARTHEST
        while low.load < most:
            point = self._at(min(2 * low.load, most))
            if not point.holds:
                return low, point
            low = point
        return low, None

    def _above(self, low: Point) -> Point | None:
        failed = [point for point in self._newest() if point.load > low.load and not point.holds]
        return min(failed, key=lambda point: point.load, default=None)

    def _newest(self) -> list[Point]:
        """The newest point of each load of this search's kind."""
        unit = AT_ONCE if self._kind == "max-concurrency" else A_SECOND
        return list({point.load: point for point in self._points if point.unit == unit}.values())

    def _at(self, load: float, longer: int = 1) -> Point:
        if self._kind == "max-concurrency":
            return self._at_once(int(load), longer)
        return self._at_rate(load, longer)

    def _at_once(self, number: int, longer: int = 1) -> Point:
        workload = replace(self._workload, arrival="closed", concurrency=number, rate=None)
        # A closed loop fills before it is steady: a window is at least four rounds long.
        requests = max(self._requests, 4 * number) * longer
        return self._point(float(number), AT_ONCE, requests, lambda turn: workload)

    def _at_rate(self, rate: float, longer: int = 1) -> Point:
        def arriving(turn: int) -> Workload:
            count = len(self._workload.requests)
            times = gamma_arrivals(count, rate, seed=turn)
            return with_arrivals(self._workload, "poisson", times, rate)

        requests = max(self._requests, math.ceil(rate * _LATENCIES * self._alone_s)) * longer
        return self._point(rate, A_SECOND, requests, arriving)

    def _again(self, point: Point) -> Point:
        """The same load with fresh and longer windows, judged together with the first."""
        fresh = self._at(point.load, _CONFIRMED)
        together = attainment((*point.windows, *fresh.windows), self._slo)
        is_kept = together.holds(self._options.least_share) and fresh.holds is not False
        merged = Point(point.load, point.unit, together, is_kept, (*point.windows, *fresh.windows))
        self._points[-1] = merged
        return merged

    def _point(
        self, load: float, unit: str, requests: int, workload: Callable[[int], Workload]
    ) -> Point:
        windows: list[Measurement] = []
        holds = None
        while holds is None and len(windows) < self._options.most_windows:
            self._say(f"{load:.4g} {unit}: window {len(windows) + 1} of {requests} requests")
            # Other requests at other times in every window: no prefix cache helps, no luck repeats.
            window = Window(requests=requests, offset=self._sent)
            windows.append(self._measure(workload(self._sent), window))
            self._sent += requests
            attained = attainment(windows, self._slo)
            holds = attained.holds(self._options.least_share)
        point = Point(load, unit, attained, holds, tuple(windows))
        self._points.append(point)
        return point

    def _answer(self, best: Point | None, above: Point | None) -> LoadSearch:
        nearest = None
        if best is None:
            nearest = max(self._points, key=lambda point: point.attainment.share.value)
        return LoadSearch(
            self._kind, best, above, nearest, tuple(self._points), self._notes(best, above)
        )

    def _notes(self, best: Point | None, above: Point | None) -> tuple[str, ...]:
        notes = []
        if best is not None and above is None:
            notes.append("no load failed: the highest that was tried holds")
        if above is not None and above.holds is None:
            notes.append(
                f"at {above.load:.4g} {above.unit} the interval covers the wanted share after "
                f"{len(above.windows)} windows: undecided counts as not held"
            )
        if out_of_order := not_monotone(self._newest()):
            notes.append(out_of_order)
        return tuple(notes)


def not_monotone(points: Sequence[Point]) -> str | None:
    """A sentence where a load fails surely although a higher one holds surely."""
    for low in points:
        for high in points:
            if low.load < high.load and low.holds is False and high.holds:
                return (
                    f"not monotone: {low.load:.4g} {low.unit} fail although {high.load:.4g} hold; "
                    "something else than the load changed between the windows"
                )
    return None
