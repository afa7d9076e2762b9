"""Ticks on a virtual clock: no drift, missed ones counted."""

import threading

import pytest
from hypothesis import given, strategies as st

from assay.observe.telemetry.sampler import Ticker

PERIOD = 1_000_000_000


class VirtualClock:
    """A clock that jumps to the deadline it waits for, late by what the test says."""

    def __init__(self, late: list[int]) -> None:
        self.now = 0
        self._late = iter(late)

    def now_ns(self) -> int:
        return self.now

    def wait_until(self, deadline_ns: int, stop: threading.Event) -> bool:
        self.now = max(self.now, deadline_ns) + next(self._late, 0)
        return stop.is_set()


work = st.integers(0, 5 * PERIOD)


@given(
    start=st.integers(0, 10 * PERIOD),
    period=st.integers(1, 3 * PERIOD),
    loads=st.lists(work, min_size=1, max_size=50),
    late=st.lists(st.integers(0, PERIOD // 10), max_size=50),
)
def test_ticks_lie_on_the_grid_and_none_is_lost_unsaid(
    start: int, period: int, loads: list[int], late: list[int]
) -> None:
    clock = VirtualClock(late)
    ticker = Ticker(start, period, clock)
    stop = threading.Event()
    numbers: list[int] = []
    for load in loads:
        number = ticker.wait(stop)
        assert number is not None
        # A tick comes at its deadline or later, and is not older than one interval plus lateness.
        assert clock.now >= start + number * period
        numbers.append(number)
        clock.now += load
    assert numbers == sorted(set(numbers))
    # Every interval up to the last was either delivered or counted as missed.
    assert len(numbers) + ticker.missed == numbers[-1] + 1


@given(loads=st.lists(st.integers(0, PERIOD - 1), min_size=2, max_size=200))
def test_short_work_neither_drifts_nor_misses(loads: list[int]) -> None:
    clock = VirtualClock([])
    ticker = Ticker(0, PERIOD, clock)
    stop = threading.Event()
    for expected, load in enumerate(loads):
        assert ticker.wait(stop) == expected
        assert clock.now == expected * PERIOD
        clock.now += load
    assert ticker.missed == 0


def test_a_stopped_ticker_ends() -> None:
    stop = threading.Event()
    stop.set()
    assert Ticker(0, PERIOD, VirtualClock([])).wait(stop) is None


def test_a_period_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="period_ns"):
        Ticker(0, 0, VirtualClock([]))
