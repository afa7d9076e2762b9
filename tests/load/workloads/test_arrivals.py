"""Arrival processes against their closed forms and SciPy's distributions."""

import itertools
import math
import statistics

import numpy as np
import pytest
import scipy.stats

from assay.errors import InputError
from assay.load.workloads import builtin
from assay.load.workloads.arrivals import (
    gamma_arrivals,
    on_off_arrivals,
    period_s,
    replayed,
    schedule,
)
from assay.load.workloads.workload import Workload

N, RATE = 4000, 8.0


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise([0.0, *times])]


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_gaps_follow_the_gamma_distribution_of_vllm(burstiness: float, seed: int) -> None:
    found = gaps(gamma_arrivals(N, RATE, burstiness=burstiness, seed=seed))
    assert statistics.mean(found) == pytest.approx(1 / RATE)
    variation = statistics.stdev(found) / statistics.mean(found)
    # Standard error of the coefficient of variation is below 5 % here.
    assert variation == pytest.approx(1 / math.sqrt(burstiness), rel=0.1)
    expected = scipy.stats.gamma(burstiness, scale=1 / (RATE * burstiness))
    assert scipy.stats.kstest(found, expected.cdf).pvalue > 1e-3


def test_a_poisson_process_has_as_much_variance_as_mean_in_every_second() -> None:
    times = gamma_arrivals(N, RATE, seed=3)
    counts = np.histogram(times, bins=np.arange(0.0, N / RATE))[0]
    dispersion = counts.var() / counts.mean()
    # The index of dispersion of m counts has a standard deviation of sqrt(2 / m).
    assert abs(dispersion - 1) < 4 * math.sqrt(2 / len(counts))
    assert scipy.stats.kstest(gaps(times), scipy.stats.expon(scale=1 / RATE).cdf).pvalue > 1e-3


def test_the_last_request_arrives_at_requests_over_rate() -> None:
    assert gamma_arrivals(10, 4.0)[-1] == pytest.approx(2.5)
    assert gamma_arrivals(3, 2.0, burstiness=math.inf) == [0.5, 1.0, 1.5]
    assert gamma_arrivals(5, 1.0, seed=1) == gamma_arrivals(5, 1.0, seed=1)
    assert gamma_arrivals(5, 1.0, seed=1) != gamma_arrivals(5, 1.0, seed=2)


def test_on_off_bursts_rest_and_keep_their_mean_rate() -> None:
    times = on_off_arrivals(N, RATE, on_s=2.0, off_s=6.0)
    assert all(time % 8.0 <= 2.0 + 1e-9 for time in times)
    assert N / times[-1] == pytest.approx(RATE, rel=0.02)
    running = [time // 8.0 * 2.0 + time % 8.0 for time in times]
    expected = scipy.stats.expon(scale=1 / (4 * RATE))
    assert scipy.stats.kstest(gaps(running), expected.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gamma_arrivals(0, 1.0), "requests: expected at least 1"),
        (lambda: gamma_arrivals(1, 0.0), "rate: expected requests per second above 0"),
        (lambda: gamma_arrivals(1, math.inf), "rate: expected"),
        (lambda: gamma_arrivals(1, 1.0, burstiness=0.0), "burstiness: expected above 0"),
        (lambda: gamma_arrivals(1, 1.0, burstiness=math.nan), "burstiness: expected above 0"),
        (lambda: on_off_arrivals(1, 1.0, on_s=0.0, off_s=1.0), "bursts: expected seconds"),
    ],
)
def test_impossible_processes_are_refused(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


def recorded(*times: float, scale: float = 1.0) -> Workload:
    closed = builtin.workload("decode", requests=len(times), input_tokens=4, output_tokens=2)
    return replayed(closed, times, scale)


def test_a_replay_counts_from_its_first_request_and_scales_time() -> None:
    replay = recorded(100.0, 101.0, 104.0, scale=0.5)
    assert [one.arrival_s for one in replay.requests] == [0.0, 0.5, 2.0]
    assert (replay.arrival, replay.rate, replay.concurrency) == ("replay", 1.0, None)
    assert recorded(5.0, 5.0).rate is None


def test_a_window_goes_on_after_the_last_request_at_the_mean_gap() -> None:
    replay = recorded(0.0, 1.0, 4.0)
    assert period_s(replay) == pytest.approx(6.0)
    first = list(itertools.islice(schedule(replay), 7))
    assert [one.due_s for one in first] == pytest.approx([0, 1, 4, 6, 7, 10, 12])
    assert [one.request.number for one in first] == [0, 1, 2, 0, 1, 2, 0]
    # A window that begins elsewhere has the same gaps, counted from its own first request.
    later = list(itertools.islice(schedule(replay, offset=4), 4))
    assert [one.position for one in later] == [0, 1, 2, 3]
    assert [one.due_s for one in later] == pytest.approx([0, 3, 5, 6])


def test_requests_of_a_closed_loop_are_due_at_once() -> None:
    closed = builtin.workload("decode", requests=2)
    found = list(itertools.islice(schedule(closed, offset=1), 3))
    assert [(one.request.number, one.due_s) for one in found] == [(1, 0.0), (0, 0.0), (1, 0.0)]
    assert period_s(closed) == 0.0
