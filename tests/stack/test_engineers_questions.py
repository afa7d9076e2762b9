"""What a device engineer asks beside the ten questions: chiplets, guard bands, HBM4, cold plates, wear, upsets."""

from __future__ import annotations

import math

import pytest

from assay.scenario.question import read_question

TRAINING, SERVING = "llama3_8b_8_h100_training", "llama3_8b_h200_serving"
FLOOR = "packs/h100_floor"


def value(target: str, *includes: str, preset: str = TRAINING, **values: str) -> float:
    given = {name.replace("__", "."): text for name, text in values.items()}
    question = read_question(preset, given, None, includes)
    return question.resolve(target, intervals=False).require_value()


def test_two_dies_switch_as_much_as_one_and_yield_more() -> None:
    """Stapper: (1 + A D s / a)^-a of 407 instead of 814 mm2; energy and clock are those of all transistors."""
    halves = {"manufacturing__package__dies": "2 1/GPU", "manufacturing__die__transistors": "4e10"}
    for target in ("gpu.cycle_energy", "gpu.top_clock", "training.step_time"):
        assert value(target, FLOOR, **halves) == pytest.approx(value(target, FLOOR), rel=1e-4)
    assert value("manufacturing.die.yield", FLOOR, **halves) == pytest.approx(
        (1 + 4.07 * 0.1 * 0.7 / 2) ** -2, rel=2e-3
    )
    cost = value("manufacturing.gpu.cost", FLOOR)
    assert 0.9 < value("manufacturing.gpu.cost", FLOOR, **halves) / cost < 1


@pytest.mark.parametrize("millivolts", [30, 100])
def test_a_guard_band_slows_and_is_no_higher_voltage(millivolts: int) -> None:
    """Alpha-power law at the voltage that is left; wires keep the fifth of a path that they take."""
    threshold = value("transistor.threshold", FLOOR)
    left = 0.75 - millivolts / 1000
    speed = ((left - threshold) / (0.75 - threshold)) ** 1.3 * 0.75 / left
    given = {"transistor__guard": f"{millivolts} mV"}
    assert value("transistor.speed", FLOOR, **given) == pytest.approx(speed, rel=5e-3)
    slower = value("gpu.top_clock", FLOOR, **given) / value("gpu.top_clock", FLOOR)
    assert speed < slower < 1
    assert value("training.step_time", FLOOR, **given) > value("training.step_time", FLOOR)


def test_a_stack_of_the_next_standard() -> None:
    """JEDEC JESD270-4: 2,048 pins of 8 Gbit/s are 2.048 TB/s; 12 dies of 24 Gbit are 36 GiB."""
    asked = {"preset": SERVING}
    bandwidth = value("gpu.memory.bandwidth", "memories/hbm4", **asked)
    assert bandwidth == pytest.approx(6 * 2.048e12, rel=1e-9)
    assert value("gpu.memory.capacity", "memories/hbm4", **asked) == 6 * 36 * 2**30
    times = [
        value("serving.time_per_output_token", f"memories/{name}", **asked)
        for name in ("hbm3e", "hbm4")
    ]
    assert 4.8 / 12.288 < times[1] / times[0] < 1


def test_a_cold_plate() -> None:
    """Resistances in series by hand: silicon, interface, plate and film; fans of the liquid's share stand still."""
    liquid = "coolers/h100_liquid"
    series = (775e-6 / 148 + 7.5e-6) / 814e-6 + 0.004 + 1 / (1e4 * 0.02)
    assert value("gpu.thermal_resistance", FLOOR, liquid) == pytest.approx(series, rel=2e-3)
    assert value("gpu.temperature", FLOOR, liquid) == pytest.approx(300.15 + series * 700, rel=1e-3)
    parts = value("cluster.node.supplied_power", FLOOR) / (
        1 + value("cluster.node.fan_share", FLOOR)
    )
    assert value("cluster.node.supplied_power", FLOOR, liquid) == pytest.approx(
        parts * (1 + 0.2 * value("cluster.node.fan_share", FLOOR)), rel=2e-3
    )


def test_wires_wear_by_heat() -> None:
    """Black and Arrhenius with JEP122's 0.9 eV: ten years at 378 K, at 326 K eighty times as long."""
    life = value("regulation.wear.life", FLOOR, "wear/copper")
    die = value("transistor.temperature", FLOOR)
    longer = math.exp(0.9 / 8.617333e-5 * (1 / die - 1 / 378.15))
    assert life / (365.25 * 86400) == pytest.approx(10 * longer, rel=1e-3)
    rate = value("cluster.failures.gpu_rate", FLOOR, "wear/copper") * 365.25 * 86400
    assert rate == pytest.approx(0.1015 + 1 / (10 * longer), rel=1e-3)


def test_neutrons_are_a_small_part_of_interruptions() -> None:
    """JESD89A: 13 neutrons by cm2 and hour on 2e8 flip-flops of 2.67e-16 cm2, a tenth of which does harm."""
    upsets = 13 * 2.67e-16 * 2e8 * 24 * 365.25
    rate = value("nuclear.upsets.rate", "upsets/flip_flops") * 365.25 * 86400
    assert rate == pytest.approx(upsets, rel=5e-3)
    failures = value("cluster.failures.gpu_rate", "upsets/flip_flops") * 365.25 * 86400
    assert failures == pytest.approx(0.1015 + 0.1 * upsets, rel=1e-3)
