"""A transistor by values computed by hand, CACTI's device table and the measured curve of an H200; process nodes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.model import Registry
from assay.scenario.question import read_question
from assay.stack import gpu, hbm, physics, transistor

REGISTRY = Registry.from_scopes([physics.scope, hbm.scope, gpu.scope, transistor.scope])
# CACTI 7, tech_params/22nm.dat: subthreshold current of a low-standby-power device in A/um, by degree Celsius.
LSTP_22NM = {
    0: 2.43e-11, 10: 4.85e-11, 20: 9.68e-11, 30: 1.94e-10, 40: 3.87e-10, 50: 7.73e-10, 70: 3.09e-9,
    80: 6.19e-9, 90: 1.24e-8, 100: 2.48e-8,
}  # fmt: skip
LSTP = {"threshold_reference": 0.40126, "ideality": 1.0, "drain_lowering": 0.0, "supply": 0.8}
DEVICE = {
    "oxide.permittivity": 3.9, "oxide.thickness": 1e-9, "width": 1e-6, "length": 5e-8,
    "mobility": 0.03, "threshold_reference": 0.3, "threshold_drift": 0.0, "ideality": 1.3,
    "drain_lowering": 0.0, "temperature": 300.0, "supply": 1.0,
}  # fmt: skip


def value(target: str, **given: float) -> float:
    named = {f"transistor.{name.replace('__', '.')}": number for name, number in given.items()}
    return REGISTRY.resolve(f"transistor.{target}", named).require_value()


def device(target: str, **changes: float) -> float:
    return value(target, **{name.replace(".", "__"): x for name, x in DEVICE.items()} | changes)


def test_swing_at_room_and_at_work() -> None:
    """k T ln(10) / e by hand: 59.53 mV at 300 K, 71.06 mV at 85 degrees Celsius."""
    assert value("swing_floor", temperature=300.0) == pytest.approx(59.53e-3, rel=1e-4)
    assert value("swing_floor", temperature=358.15) == pytest.approx(71.06e-3, rel=1e-4)
    assert value("swing", temperature=300.0, ideality=1.5) == pytest.approx(89.29e-3, rel=1e-4)


def test_the_voltage_curve_of_an_h200_is_an_alpha_power_law() -> None:
    """Fitted to its power at ten clocks: slope 0.614 at boost, and 0.729 of the voltage at 0.559 of it."""
    law = {"alpha": 1.8, "threshold_share": 0.315}
    assert value("voltage_slope", **law) == pytest.approx(0.614, rel=1e-3)
    assert value("speed", **law, voltage_ratio=0.729) == pytest.approx(0.559, rel=0.01)
    near = [value("speed", **law, voltage_ratio=v) for v in (0.999, 1.001)]
    assert math.log(1.001 / 0.999) / math.log(near[1] / near[0]) == pytest.approx(0.6143, rel=1e-3)


def test_leakage_by_temperature_as_cactis_table_has_it() -> None:
    """Doubles every ten kelvin; a drift of 0.5 mV/K explains it."""
    kelvin = np.array([celsius + 273.15 for celsius in LSTP_22NM])
    slope = np.polyfit(kelvin, np.log(list(LSTP_22NM.values())), 1)[0]
    efold = value("leakage_efold", **LSTP, threshold_drift=5e-4, temperature=323.15)
    assert efold == pytest.approx(1 / slope, rel=0.05)


def test_leakage_efold_is_the_derivative_of_the_off_current() -> None:
    drifting = {"threshold_drift": 7e-4}
    low, high = (device("off_current", **drifting, temperature=t) for t in (349.9, 350.1))
    expected = 0.2 / math.log(high / low)
    assert device("leakage_efold", **drifting, temperature=350.0) == pytest.approx(
        expected, rel=1e-4
    )


def test_drain_current_in_its_three_regions() -> None:
    """By hand: C_ox = 3.9 eps_0 / nm = 34.53 mF/m2, beta = 0.03 C_ox 20 = 20.72 mA/V2."""
    beta = 0.03 * 3.9 * 8.8541878128e-12 / 1e-9 * 20
    assert device("drain_current") == pytest.approx(beta / 2 * 0.7**2, rel=1e-9)
    triode = device("drain_current", drain_voltage=0.1)
    assert triode == pytest.approx(beta * (0.7 - 0.05) * 0.1, rel=1e-9)
    # Where the regions meet, triode and saturation agree.
    edges = [device("drain_current", drain_voltage=v) for v in (0.7 - 1e-9, 0.7 + 1e-9)]
    assert edges[0] == pytest.approx(edges[1], rel=1e-6)
    # Below the threshold a swing divides the current by ten.
    at = [device("drain_current", gate_voltage=v) for v in (0.1, 0.1 + device("swing"))]
    assert at[1] / at[0] == pytest.approx(10, rel=1e-9)


def test_body_bias_and_drain_voltage_move_the_threshold() -> None:
    """By hand: 0.16 (sqrt(0.93 + 0.6) - sqrt(0.93)) V, and a tenth of the drain voltage."""
    biased = {"body_effect": 0.16, "surface_potential": 0.93, "body_bias": 0.6}
    rise = device("threshold", **biased) - device("threshold")
    assert rise == pytest.approx(0.16 * (math.sqrt(1.53) - math.sqrt(0.93)), rel=1e-9)
    assert device("threshold", drain_lowering=0.1) == pytest.approx(0.2)


def test_leakage_is_that_of_channel_and_gate() -> None:
    gate = {"tunneling_scale": 1e9, "tunneling_decay": 1e10}
    expected = device("off_current") + 1e9 * math.exp(-10) * 1e-6 * 5e-8
    assert device("leakage_current", **gate) == pytest.approx(expected, rel=1e-12)


PRESET = "llama3_8b_8_h100_training"


def answer(
    target: str, *includes: str, variant: dict[str, str] | None = None, **given: str
) -> float:
    assign = {name.replace("__", "."): text for name, text in given.items()}
    question = read_question(PRESET, assign, variant, includes)
    return question.resolve(target, intervals=False).require_value()


# A shrink of GH100 to TSMC's N2 by its published figures: energy x 0.486, area / 1.495, 30,000 USD a wafer.
@pytest.mark.parametrize(
    ("target", "percent"),
    [
        ("training.step_time", -9.4),
        ("econ.run.power_cost", -28),
        ("econ.cost.per_token", -10.4),
        ("carbon.per_token", -27),
    ],
)
def test_a_shrink_to_2_nm(target: str, percent: float) -> None:
    change = answer(target, "nodes/n2") / answer(target) - 1
    assert 100 * change == pytest.approx(percent, abs=2)


def test_a_shrunken_die_costs_as_much_and_draws_less() -> None:
    assert answer("manufacturing.die.cost", "processes/n2") == pytest.approx(431, rel=0.02)
    dirty = answer(
        "manufacturing.die.cost",
        "processes/n2",
        manufacturing__process__defect_density="0.2 1/cm^2",
    )
    assert dirty == pytest.approx(580, rel=0.02)
    assert answer("gpu.power.busy", "processes/n2") == pytest.approx(519, rel=0.02)


def test_the_process_of_the_board_changes_nothing() -> None:
    for target in ("training.step_time", "econ.cost.per_token", "manufacturing.die.area"):
        assert answer(target, "processes/n5") == pytest.approx(answer(target), rel=1e-4)


def test_the_entry_of_a_process_says_what_it_replaces() -> None:
    question = read_question(PRESET, None, None, ("nodes/n2",))
    assert any("manufacturing.die.area: computed by" in note for note in question.notes)
    # The machine is kept: a process node is no server.
    assert "cluster.node.gpus" in question.given or "interconnect.node_ranks" in question.given


def test_a_lower_voltage_saves_energy_and_costs_speed() -> None:
    by_voltage = {
        "gpu.cycle_energy": "transistor.cycle_energy",
        "gpu.voltage_slope": "transistor.slope_of_chip",
    }
    law = {
        "transistor__alpha": "1.8",
        "transistor__threshold_share": "0.315",
        "transistor__node__energy": "1",
    }
    same = answer("training.step_time", variant=by_voltage, **law)
    assert same == pytest.approx(answer("training.step_time"), rel=1e-3)
    clocks = [
        answer("transistor.boost_clock", variant=by_voltage, **law, transistor__voltage_ratio=v)
        for v in ("1", "0.9")
    ]
    assert clocks[1] / clocks[0] == pytest.approx(((0.9 - 0.315) / 0.685) ** 1.8 / 0.9, rel=1e-9)
    power = [
        answer("gpu.power.busy", variant=by_voltage, **law, transistor__voltage_ratio=v)
        for v in ("1", "0.75")
    ]
    assert power[1] < 0.9 * power[0]
