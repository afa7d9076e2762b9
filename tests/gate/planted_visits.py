"""Sides that are series of numbers: speeds of starts are given, time is counted, nothing is started.

Imports nothing of the gate: what is planted cannot share its mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from assay.improve.engines.protocol import Followed
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.workload import Objective, PlannedRequest, Window, Workload

WORKLOAD = Workload(
    "planted",
    "requests of ten tokens",
    tuple(PlannedRequest(number, f"prompt {number}", 10) for number in range(64)),
    concurrency=1,
    objective=Objective("output_throughput"),
)


class VirtualClock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class PlantedVisits:
    """Visits whose speed is `speed(arm, start)`, starts counted over both arms.

    `fails(arm, request)` is an error, `answers(arm, request)` the text; a start takes `start_s`.
    """

    def __init__(
        self,
        speed: Callable[[str, int], float],
        *,
        start_s: float = 5.0,
        fails: Callable[[str, int], str | None] = lambda arm, number: None,
        answers: Callable[[str, int], str] = lambda arm, number: f"answer {number}",
        gap: float | None = 0.0,
    ) -> None:
        self.clock = VirtualClock()
        self.opened: list[str] = []
        self.running = 0
        self.followed: list[str] = []
        self._speed, self._start_s, self._fails = speed, start_s, fails
        self._answers, self._gap = answers, gap

    @contextmanager
    def open(self, arm: Any) -> Iterator[Any]:
        """One visit; never two at a time."""
        assert self.running == 0
        self.running += 1
        speed = self._speed(arm, len(self.opened))
        self.opened.append(arm)
        self.clock.now += self._start_s
        try:
            yield _Planted(self, arm, speed)
        finally:
            self.running -= 1


class _Planted:
    def __init__(self, visits: PlantedVisits, arm: str, speed: float) -> None:
        self._visits, self._arm, self._rate = visits, arm, 100.0 * speed

    def measure(self, workload: Workload, window: Window) -> Measurement:
        visits, count = self._visits, window.requests or 1
        records, now = [], 0.0
        for at in range(count):
            number = (window.offset + at) % len(workload.requests)
            begun, now = now, now + 10.0 / self._rate
            error = visits._fails(self._arm, number)
            text = "" if error else visits._answers(self._arm, number)
            records.append(
                RequestRecord(
                    number, begun, None if error else begun + 1e-3, now, 4, 0 if error else 10,
                    error=error, digest=text, output=text,
                )
            )  # fmt: skip
        visits.clock.now += now
        done = [record for record in records if record.error is None]
        figures = {"output_throughput": 10.0 * len(done) / now if done else 0.0}
        return Measurement(
            workload.name, visits.clock.now, now, tuple(records), figures, "stable", {}
        )

    def follow(self, answers: Any, tie: float) -> list[Followed | None]:
        self._visits.followed.append(self._arm)
        gap = self._visits._gap
        return [None if gap is None else Followed((*[0.0] * 9, gap)) for _ in answers]
