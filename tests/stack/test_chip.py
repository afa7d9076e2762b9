"""Floorplan, wires, timing and delivery against die photographs, CACTI, closed forms and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from assay import stack
from assay.array_types import Floats
from assay.scenario.question import read_question

TRAINING, SERVING = "llama3_8b_8_h100_training", "llama3_8b_h200_serving"
GA100 = ("accelerators/a100_sxm", "floorplans/ga100")
# CACTI 7, tech_params/22nm.dat, semi-global wires of its conservative projection.
WIRE = {
    "wires.pitch": 88e-9, "wires.aspect": 2.0, "wires.barrier": 3e-9, "wires.bulk_resistivity": 2.2e-8,
    "wires.scattering": 1.05, "wires.side_permittivity": 2.104, "wires.plate_permittivity": 3.9,
    "wires.height": 150e-9, "wires.miller": 1.5, "wires.fringe": 1.15e-10,
    "wires.driver.resistance": 1e4, "wires.driver.input": 1e-16, "wires.driver.output": 1e-16,
}  # fmt: skip
EPS = 8.8541878128e-12


def value(target: str, given: dict[str, float], **changes: float) -> float:
    named = {name.replace("__", "."): number for name, number in changes.items()}
    return stack.registry().resolve(target, {**given, **named}).require_value()


def answer(
    preset: str, target: str, *includes: str, variant: dict[str, str] | None = None, **given: str
) -> float:
    assign = {name.replace("__", "."): text for name, text in given.items()}
    return (
        read_question(preset, assign, variant, includes)
        .resolve(target, intervals=False)
        .require_value()
    )


def test_parts_of_ga100_make_its_area() -> None:
    """Published: 826 mm2."""
    assert answer(TRAINING, "manufacturing.die.area", *GA100) * 1e6 == pytest.approx(826, rel=0.01)
    assert answer(TRAINING, "floorplan.cores.area", *GA100) * 1e6 == pytest.approx(476.25, rel=1e-3)
    assert answer(TRAINING, "floorplan.cache.area", *GA100) * 1e6 == pytest.approx(119.31, rel=1e-3)


def test_a_denser_process_shrinks_logic_alone() -> None:
    """1.88 times the density: two thirds of the die shrink, the rest stays."""
    shrunk = answer(
        TRAINING, "manufacturing.die.area", *GA100, manufacturing__process__density="171.3e6 1/mm^2"
    )
    whole = answer(TRAINING, "manufacturing.die.area", *GA100)
    assert 1.3 < whole / shrunk < 171.3 / 91.2


def test_multiprocessors_cost_area_and_money_and_save_time() -> None:
    chosen = {"econ.gpu.price": "gpu.price_by_margin"}
    few, many = (
        {
            target: answer(
                TRAINING,
                target,
                *GA100,
                variant=chosen,
                gpu__multiprocessors=f"{n} 1/GPU",
                econ__gpu__margin="0.8",
            )
            for target in ("manufacturing.die.area", "econ.gpu.price", "training.step_time")
        }
        for n in (80, 108)
    )
    assert many["manufacturing.die.area"] - few["manufacturing.die.area"] == pytest.approx(
        28 * 1.18519 * (3.7207 + 0.5972) * 1e-6, rel=1e-3
    )
    assert many["econ.gpu.price"] > few["econ.gpu.price"]
    assert many["training.step_time"] < few["training.step_time"]


def test_resistance_and_capacitance_of_a_wire_as_cacti_computes_them() -> None:
    """a rho / ((t - b)(w - 2 b)); eps_0 (2 M k_h t / s + 2 k_v w / h) + fringe: walls, not width over gap."""
    resistance = 1.05 * 2.2e-8 / ((88e-9 - 3e-9) * (44e-9 - 6e-9))
    assert value("wires.resistance", WIRE) == pytest.approx(resistance, rel=1e-9)
    capacitance = EPS * (2 * 1.5 * 2.104 * 88 / 44 + 2 * 3.9 * 44 / 150) + 1.15e-10
    assert value("wires.capacitance", WIRE) == pytest.approx(capacitance, rel=1e-9)
    assert 1.5e-10 < capacitance < 4e-10


def test_delay_of_a_long_wire_by_a_ladder_in_time() -> None:
    """The far end of a ladder of 60 pieces reaches half of a step at 0.38 r c L^2."""
    length, pieces = 1e-3, 60
    r, c = (
        value(f"wires.{name}", WIRE) * length / pieces for name in ("resistance", "capacitance")
    )

    def rate(_: float, v: Floats) -> Floats:
        left = np.concatenate(([1.0], v[:-1]))
        right = np.concatenate((v[1:], [v[-1]]))
        return np.asarray((left - 2 * v + right) / (r * c))

    whole = r * c * pieces**2
    times = np.linspace(0, whole, 2001)
    solved = solve_ivp(
        rate, (0, whole), np.zeros(pieces), method="LSODA", t_eval=times, rtol=1e-8, atol=1e-10
    )
    half = float(np.interp(0.5, solved.y[-1], times))
    assert value("wires.delay", WIRE, wires__length=length) == pytest.approx(half, rel=0.03)


def test_best_repeaters_by_search() -> None:
    r, c = (value(f"wires.{name}", WIRE) for name in ("resistance", "capacitance"))

    def delay(size: float, spacing: float) -> float:
        piece = 1e4 / size * (size * 2e-16 + c * spacing) + r * spacing * (
            size * 1e-16 + c * spacing / 2
        )
        return 1e-3 / spacing * piece

    size, spacing = (value(f"wires.repeater.{name}", WIRE) for name in ("size", "spacing"))
    best = delay(size, spacing)
    assert value("wires.repeated_delay", WIRE, wires__length=1e-3) == pytest.approx(best, rel=1e-9)
    for up in (0.9, 1.1):
        assert best < delay(size * up, spacing)
        assert best < delay(size, spacing * up)


def test_energy_of_a_bit_and_its_way_to_a_multiprocessor() -> None:
    """Wires of this class take 0.05 to 0.15 pJ for a bit and millimeter."""
    energy = value("wires.bit_energy", WIRE, wires__swing=0.75) * 1e12 / 1e3
    assert 0.05 < energy < 0.15
    chosen = {
        "dram.transport_energy": "wires.transport_energy",
        "hbm.access_energy": "dram.access_energy",
    }
    given = {
        **WIRE, "wires.swing": 0.75, "wires.distance": 0.02, "dram.burst_energy": 8 * 1.57e-12,
    }  # fmt: skip
    joules = stack.registry().resolve("hbm.access_energy", given, chosen).require_value()
    assert joules / 8 == pytest.approx(1.57e-12 + 20 * energy * 1e-12, rel=1e-6)


PATH = {
    "timing.fanout_delay": 1e-11, "timing.depth": 25.0, "timing.overhead": 1e-10, "timing.gate_spread": 0.2,
    "timing.paths": 1e5, "transistor.speed": 1.0,
}  # fmt: skip


def test_the_slowest_of_many_paths_sets_the_clock() -> None:
    """Gumbel: the largest of 1e5 normal variates is 4.38 deviations above their mean."""
    spread = 0.2 * 250e-12 / 5
    assert value("timing.path.slowest", PATH) == pytest.approx(250e-12 + 4.38 * spread, rel=2e-3)
    assert value("timing.clock", PATH) == pytest.approx(1 / value("timing.period", PATH))
    drawn = stack.registry().resolve("timing.path.delay", PATH)
    assert drawn.upper == pytest.approx(250e-12 + 1.645 * spread, rel=5e-3)


def test_timing_bounds_the_clock_of_a_gpu() -> None:
    """nvidia-smi: 1,980 MHz, 505 ps; a quarter less speed at a lower voltage takes a quarter of it."""
    chosen = {"gpu.top_clock": "timing.top_clock"}
    given = {
        **PATH,
        "timing.overhead": 505e-12 - value("timing.path.slowest", PATH),
        "gpu.clock": 1.83e9,
        "gpu.reference.clock": 1.83e9,
        "gpu.reference.top_clock": 1.98e9,
    }
    ceiling = stack.registry().resolve("gpu.clock_ceiling", given, chosen).require_value()
    assert ceiling == pytest.approx(1.98 / 1.83, rel=1e-3)


def test_computing_takes_far_more_than_erasing() -> None:
    """k T ln 2 = 2.871e-21 J at 300 K; 1.09 pJ an operation is 3.8e8 of it."""
    assert value("timing.erasure", {"transistor.temperature": 300.0}) == pytest.approx(
        2.871e-21, rel=1e-3
    )
    energy = answer(TRAINING, "timing.operation_energy")
    assert energy == pytest.approx(5.875e-7 / (132 * 4096), rel=1e-9)
    ratio = answer(TRAINING, "timing.above_floor", transistor__temperature="300 K")
    assert ratio == pytest.approx(3.6e8, rel=0.1)


def test_voltage_that_reaches_a_die_is_that_of_one_current() -> None:
    """V = V_r - R P / V_r: what the regulators give is lost or reaches the die."""
    given = {
        "delivery.regulated_voltage": 0.9,
        "delivery.grid_resistance": 5e-5,
        "delivery.input_power": 600.0,
    }
    expected = 0.9 - 5e-5 * 600 / 0.9
    assert value("delivery.die_voltage", given) == pytest.approx(expected, rel=1e-9)
    lost = value("delivery.grid_loss", given)
    assert lost == pytest.approx(5e-5 * (600 / 0.9) ** 2, rel=1e-9)
    assert lost + value("delivery.die_power", given) == pytest.approx(600, rel=1e-9)


def test_heat_by_area_of_an_h100() -> None:
    """700 W over 8.14 cm2 are 86 W/cm2."""
    assert answer(TRAINING, "delivery.flux", delivery__die_power="700 W") / 1e4 == pytest.approx(
        86, rel=1e-3
    )


def test_thermal_resistances_in_series_reach_the_step() -> None:
    """775 um of silicon of 130 W/(m K) and 10 mm2 K/W over 8.14 cm2, a spreader, and a film."""
    given = {
        "delivery__die__thickness": "775 um", "delivery__die__conductivity": "130 W/(m*K)",
        "delivery__interface__resistivity": "1e-5 K*m^2/W", "delivery__spreader__resistance": "0.005 K*GPU/W",
        "delivery__film__coefficient": "1000 W/(K*m^2)",
    }  # fmt: skip
    chosen = {"gpu.thermal_resistance": "delivery.thermal_resistance"}
    resistance = answer(
        TRAINING,
        "gpu.thermal_resistance",
        variant=chosen,
        **given,
        delivery__film__area="0.1 m^2/GPU",
    )
    expected = (775e-6 / 130 + 1e-5) / 814e-6 + 0.005 + 0.01
    assert resistance == pytest.approx(expected, rel=1e-9)
    steps = [
        answer(
            TRAINING,
            "training.step_time",
            variant=chosen,
            **given,
            delivery__film__area=f"{area} m^2/GPU",
        )
        for area in (0.1, 0.03)
    ]
    assert steps[1] > steps[0]


@pytest.mark.parametrize("seconds", [0.0, 5.0, 60.0])
def test_a_die_warms_up_exponentially(seconds: float) -> None:
    given = {
        "gpu.power.busy": 600.0, "gpu.coolant_temperature": 300.0, "gpu.thermal_resistance": 0.04,
        "delivery.heat_capacity": 400.0, "delivery.elapsed": seconds,
    }  # fmt: skip
    expected = 300 + 24 * (1 - math.exp(-seconds / 16))
    assert value("delivery.warm_up", given) == pytest.approx(expected, rel=1e-7)
