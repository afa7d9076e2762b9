"""Stacks, their capacity, their bandwidth and their price are one fact, however it is asked for."""

from __future__ import annotations

import math

import pytest

from assay.errors import InputError
from assay.scenario.questions.sweeping import SweepAnswer, sweep

COST, CAPACITY = "econ.cost.per_token", "gpu.memory.capacity"
TRAINING = "llama3_8b_8_h100_training"


def test_more_stacks_hold_and_cost_more() -> None:
    """16 GiB a stack: 8 stacks are 128 GiB; H100 80 GB and B200 192 GB class parts pay for each."""
    answer = sweep(
        [COST, CAPACITY, "gpu.memory.bandwidth"], ["hbm.stacks=5,8 1/GPU"],
        preset=TRAINING, includes=("packs/h100_floor",),
    )  # fmt: skip
    assert isinstance(answer, SweepAnswer)
    assert answer.problem is None
    few, many = answer.table.rows()
    assert many[CAPACITY] == pytest.approx(8 * 16 * 2**30 / 1e9)
    assert many["gpu.memory.bandwidth"] == pytest.approx(1.6 * few["gpu.memory.bandwidth"])
    assert 0.2 < math.log(many[COST] / few[COST]) / math.log(1.6) < 0.3


def test_stacks_beside_a_stated_capacity_are_refused_as_by_resolve() -> None:
    answer = sweep(
        [COST, CAPACITY], ["hbm.stacks=5,8 1/GPU"],
        preset=TRAINING, includes=("stacks/hbm3_8_high",),
    )  # fmt: skip
    assert isinstance(answer.problem, InputError)
    assert "gpu.memory.capacity" in answer.problem.message
