"""What a lower threshold costs: leakage by the subthreshold swing, and the clock that it leaves under a limit."""

from __future__ import annotations

import math

import pytest

from assay.scenario.question import read_question

TRAINING = "llama3_8b_8_h100_training"
FLOOR = ("packs/h100_floor",)
# CODATA 2018, at 27 C and the 0.037 K/W of 700 W; swings of fins are a tenth above the least.
SWING = 1.1 * math.log(10) * 1.380649e-23 * (300.15 + 0.037 * 700) / 1.602176634e-19
THRESHOLD = 0.40105


def value(target: str, *given: str) -> float:
    return (
        read_question(TRAINING, list(given), None, FLOOR)
        .resolve(target, intervals=False)
        .require_value()
    )


def at(volts: float) -> str:
    return f"transistor.threshold_reference={volts!r} V"


@pytest.mark.parametrize("decades", [-1, 0, 1, 2])
def test_a_swing_of_threshold_is_a_factor_of_ten(decades: int) -> None:
    """Weste and Harris, sec. 2.4.4: n ln 10 kT/q changes the current of a transistor that is off tenfold."""
    leakage = value("gpu.power.leakage_reference", at(THRESHOLD - decades * SWING))
    assert leakage == pytest.approx(9.3 * 10**decades, rel=1e-9)


@pytest.mark.parametrize(
    "moved", ["transistor.drain_lowering=0.1", "transistor.threshold_drift=3.87907869 mV/K"]
)
def test_whatever_lowers_the_threshold_leaks(moved: str) -> None:
    """A tenth of the 0.75 V at the drain, or 2.879 mV/K of the 26.05 K above 300 K, are 75 mV."""
    leakage = value("gpu.power.leakage_reference", moved)
    assert leakage == pytest.approx(9.3 * 10 ** (0.075 / SWING), rel=1e-6)


def test_the_threshold_has_a_best_point() -> None:
    """High ones are slow, low ones leak; at the power limit both leave less of the clock."""
    steps = {
        volts: value("training.step_time", at(volts))
        for volts in (0.45, THRESHOLD, 0.36, 0.33, 0.3)
    }
    assert steps[0.45] > steps[THRESHOLD] > steps[0.36] < steps[0.33] < steps[0.3]
    assert steps[0.3] > 1.1 * steps[THRESHOLD]
    assert value("gpu.power.busy", at(0.3)) == pytest.approx(700, rel=1e-6)
    assert value("gpu.throttle", at(0.3)) < 0.85 * value("gpu.throttle")


@pytest.mark.parametrize("lowering", ["0", "0.03"])
def test_power_that_is_drawn_has_the_leakage(lowering: str) -> None:
    """Below a limit that does not bind, the regulators give what the board draws, its leakage included."""
    given = (at(0.34), f"transistor.drain_lowering={lowering}", "gpu.power.limit=1400 W/GPU")
    busy, leakage = value("gpu.power.busy", *given), value("gpu.power.leakage", *given)
    assert busy < 1350
    assert leakage > 0.1 * busy
    assert value("delivery.input_power", *given) == pytest.approx(busy, rel=5e-3)


def test_a_chip_that_leaks_its_limit_does_not_run() -> None:
    """0.15 V below the catalog is a factor of 130: 1.2 kW at 300 K, beyond 700 W at any clock."""
    assert value("gpu.throttle", at(0.25)) == 0
