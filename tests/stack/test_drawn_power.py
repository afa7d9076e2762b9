"""Power, voltage and heat of a chip that agree: limits that do not bind, shrinks, and losses that are paid for."""

from __future__ import annotations

import itertools

import pytest

from assay.scenario.question import read_question
from assay.scenario.questions.sweeping import SweepAnswer, SweepEntriesAnswer, sweep

TRAINING = "llama3_8b_8_h100_training"
FLOOR = ("packs/h100_floor",)
TOP, STEP, POWER, BUSY = "gpu.top_clock", "training.step_time", "gpu.power", "gpu.power.busy"
INPUT, VOLTS, COST = "delivery.input_power", "delivery.die_voltage", "econ.cost.per_token"


def swept(over: str, *targets: str) -> list[dict[str, float]]:
    answer = sweep(list(targets), [over], preset=TRAINING, includes=FLOOR)
    assert isinstance(answer, SweepAnswer | SweepEntriesAnswer)
    if isinstance(answer, SweepAnswer):
        return list(answer.table.rows())
    return [dict(row) for row in answer.swept.rows()]


def test_a_higher_limit_never_slows_a_chip() -> None:
    """A cap that does not bind changes nothing; under one that does, the board draws it."""
    rows = swept("gpu.power.limit=350,500,700,800,900,1000,1400 W/GPU", STEP, BUSY, INPUT, VOLTS)
    steps = [row[STEP] for row in rows]
    assert all(later <= sooner * (1 + 1e-9) for sooner, later in itertools.pairwise(steps))
    assert steps[-1] == pytest.approx(steps[-2], rel=1e-9)
    for row in rows:
        assert row[INPUT] == pytest.approx(row[BUSY], rel=5e-3)


def test_a_shrink_raises_the_top_clock() -> None:
    """TSMC: less energy by switch; a chip that draws less drops less voltage and is cooler, so no slower."""
    rows = swept("processes=n5,n3e,n2", TOP, STEP, BUSY, INPUT)
    tops, steps = [row[TOP] for row in rows], [row[STEP] for row in rows]
    assert tops == sorted(tops)
    assert steps[2] <= steps[1] * (1 + 1e-6) < steps[0]
    for row in rows:
        assert row[INPUT] == pytest.approx(row[BUSY], rel=5e-3)


def test_losses_of_the_grid_are_part_of_the_board() -> None:
    """By hand at 700 W and 100 uohm: V_r I = 700 W, I = 891 A, 79.4 W lost, 620.6 W at 0.6965 V."""
    rows = swept(
        "delivery.grid_resistance=0,40,100,200 uohm",
        "delivery.grid_loss", "delivery.die_power", VOLTS, POWER, STEP, COST,
    )  # fmt: skip
    current = 700 / 0.78563974
    assert rows[2]["delivery.grid_loss"] == pytest.approx(100e-6 * current**2, rel=1e-6)
    assert rows[2]["delivery.die_power"] == pytest.approx(700 - 100e-6 * current**2, rel=1e-6)
    assert rows[2][VOLTS] == pytest.approx(0.78563974 - 100e-6 * current, rel=1e-6)
    for name in (STEP, COST):
        assert [row[name] for row in rows] == sorted(row[name] for row in rows)
    assert rows[2][COST] > 1.01 * rows[1][COST]


def test_a_poor_grid_starves_the_chip() -> None:
    """Where 700 W would take all of the voltage the chip settles at less power, at a voltage that still switches."""
    (row,) = swept("delivery.grid_resistance=1000 uohm", VOLTS, INPUT, BUSY)
    assert row[INPUT] < 0.5 * 700
    assert row[VOLTS] > 0.3
    assert row[INPUT] == pytest.approx(row[BUSY], rel=5e-3)


def test_a_stated_activity_draws_and_drops_its_own_power() -> None:
    """A chip that is mostly dark draws little, so no limit slows it; voltage and heat are those of what it draws."""
    dark = []
    for activity, limit in itertools.product((0.2, 0.66), (700, 1500)):
        given = [f"gpu.activity={activity}", f"gpu.power.limit={limit} W/GPU"]
        question = read_question(TRAINING, given, None, FLOOR)
        busy, drawn = (
            question.resolve(name, intervals=False).require_value() for name in (BUSY, INPUT)
        )
        assert drawn == pytest.approx(busy, rel=5e-3)
        if activity == 0.2:
            dark.append(question.resolve("gpu.throttle", intervals=False).require_value())
    assert dark[1] == pytest.approx(dark[0], rel=1e-9)
    assert dark[0] == pytest.approx(1.98 / 1.83, rel=1e-3)
