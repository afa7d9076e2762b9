"""Servers behind an API process, and requests of which so many are under way at once."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.catalog.engines import Frontend
from assay.errors import EvaluationError
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.replay import replay
from assay.planner.capacity.served import ServerLimits, sample_of, saturation, serve

from .synthetic_servers import table

Numbers = NDArray[np.float64]
COUNT = 400


def lengths(prompt: float, output: float) -> tuple[Numbers, Numbers, Numbers]:
    one = np.ones(COUNT)
    return prompt * one, prompt * one, output * one


def test_a_closed_loop_completes_what_little_s_law_says() -> None:
    # Eight under way, each one step for its prompt and 99 for the rest of its answer, of 10 ms each.
    steps = table(decode=0.01, token=0.0)
    run = replay(steps, ServerLimits(1e9), np.zeros(COUNT), *lengths(1, 101), at_once=8)
    assert COUNT / run.seconds == pytest.approx(8 / (100 * 0.01), rel=0.02)
    assert float(run.end_to_end.max()) == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize(
    ("frontend", "most"), [(Frontend(0.02, 0.0), 50.0), (Frontend(0.0, 0.001), 100.0)]
)
def test_an_api_process_bounds_the_rate_of_a_fast_device(frontend: Frontend, most: float) -> None:
    steps = table(decode=1e-4, token=1e-7)
    limits = ServerLimits(1e9, frontend=frontend)
    sample = sample_of(*lengths(100, 10))
    assert saturation(steps, sample, limits) == pytest.approx(most)
    run = replay(steps, limits, np.zeros(COUNT), *lengths(100, 10), at_once=64)
    assert COUNT / run.seconds == pytest.approx(most, rel=0.1)
    free = serve(steps, sample, 0.5 * most, ServerLimits(1e9), Objective()).first_token.mean
    late = serve(steps, sample, 0.5 * most, limits, Objective()).first_token.mean
    # M/D/1 at half of its rate: half a service time of waiting.
    assert late - free == pytest.approx(frontend.request / 2, abs=1e-4)
    with pytest.raises(EvaluationError, match="the API process needs 120%"):
        serve(steps, sample, 1.2 * most, limits, Objective())
