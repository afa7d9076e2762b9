"""Cell and device of dynamic memory against SciPy, closed forms, JEDEC's timings and a measured H200."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from assay import stack
from assay.scenario.question import read_question

SERVING = "llama3_8b_h200_serving"
CELL = {
    "dram.cell.capacitance": 30e-15, "dram.cell.voltage": 0.9, "dram.cell.leakage": 1e-15,
    "dram.cell.loss": 0.1125, "dram.bitline.capacitance": 90e-15,
}  # fmt: skip


def value(target: str, **given: float | str) -> float:
    named = {name.replace("__", "."): number for name, number in given.items()}
    return stack.registry().resolve(target, {**CELL, **named}).require_value()


def test_a_cell_shares_its_charge_with_the_bitline_from_half_the_supply() -> None:
    """By hand: 27 fC; 0.45 V x 30 / 120 fF = 112.5 mV, half of what a bitline at ground would see."""
    assert value("dram.cell.charge") == pytest.approx(27e-15)
    assert value("dram.bitline.signal") == pytest.approx(0.1125)
    short = stack.registry().resolve(
        "dram.bitline.signal",
        {**CELL, "dram.bitline.capacitance": 200e-15, "dram.sense.floor": 0.08},
    )
    assert {v.name: v.status for v in short.constraints}["dram.sense.decides"] == "false"


def test_a_sense_amplifier_takes_longer_over_less_signal() -> None:
    assert value("dram.sense.time", dram__sense__constant=5e-10) == pytest.approx(
        5e-10 * math.log(4)
    )


def test_time_to_lose_an_eighth_is_that_of_cacti() -> None:
    """0.9 C 0.125 V / I_off: 0.9 x 30 fF x 0.125 x 0.9 V / 1 fA = 3.04 s."""
    assert value("dram.retention.typical") == pytest.approx(0.9 * 30e-15 * 0.125 * 0.9 / 1e-15)


@pytest.mark.parametrize("leakage", [1e-15, 1e-13, 1e-12])
def test_decay_of_a_cell_by_scipy_and_closed_form(leakage: float) -> None:
    found = value("dram.cell.left", dram__cell__leakage=leakage)
    constant = 30e-15 * 0.9 / leakage
    assert found == pytest.approx(0.9 * math.exp(-0.032 / constant), rel=1e-7)
    solved = solve_ivp(lambda _, v: -v / constant, (0, 0.032), [0.9], rtol=1e-10, atol=1e-12)
    assert found == pytest.approx(solved.y[0][-1], rel=1e-7)


def test_retention_is_lognormal() -> None:
    """Moments in closed form: median m, mean m exp(s^2 / 2), 5 % below m exp(-1.645 s)."""
    given = {"dram.retention.median": 2.0, "dram.retention.spread": 0.8}
    registry = stack.registry()
    assert registry.resolve("dram.retention.time", given).value == 2.0
    mean = registry.resolve("dram.retention.mean", given).require_value()
    assert mean == pytest.approx(2 * math.exp(0.32))
    weak = registry.resolve(
        "dram.retention.guard_band", {**given, "dram.retention.deviations": 1.6449}
    )
    drawn = registry.resolve("dram.retention.time", given)
    assert drawn.lower is not None
    assert drawn.lower == pytest.approx(weak.require_value(), rel=0.05)
    assert drawn.upper == pytest.approx(2 * math.exp(1.6449 * 0.8), rel=0.05)


def test_refresh_by_density_and_temperature() -> None:
    """JESD238 as Ramulator 2 has it: 3.9 us; 260, 350, 450, 550 ns for 4, 8, 16 Gbit and more."""
    assert value("dram.refresh.interval") == pytest.approx(3.90625e-6)
    times = [
        value("dram.refresh.all_bank_time", dram__channel_density=f"{density} GiB")
        for density in (0.5, 1, 2, 4)
    ]
    assert times == pytest.approx([260e-9, 350e-9, 450e-9, 550e-9])
    hot = value("dram.refresh.interval", dram__temperature=368.0)
    assert hot == pytest.approx(value("dram.refresh.interval") / 2)


def share(memory: str, **given: str) -> float:
    named = {name.replace("__", "."): text for name, text in given.items()}
    question = read_question(SERVING, named, None, (f"memories/{memory}",))
    return question.resolve("dram.efficiency", intervals=False).require_value()


def test_share_of_the_data_sheets_rate_that_an_h200_reads_and_copies() -> None:
    """Measured: 4.574 of 4.8 TB/s read, 4.257 copied; banks refreshed one by one explain the first."""
    assert share("hbm3e") == pytest.approx(4.574 / 4.8, rel=0.01)
    assert share("hbm3e", dram__write_share="0.5") == pytest.approx(4.257 / 4.8, rel=0.01)
    assert share("hbm3", dram__refresh__mode="all") == pytest.approx(0.910, abs=1e-3)
    # A row that is opened for 64 bytes alone leaves pins idle.
    assert share("hbm3e", dram__row__size="64 byte") < 0.8


def test_energy_of_a_burst_from_data_sheet_currents() -> None:
    """(390 - 55) mA x 1.2 V / 32 GB/s = 1.57 pJ a bit."""
    question = read_question(SERVING, None, None, ("memories/hbm3",))
    joules = question.resolve("dram.burst_energy", intervals=False).require_value()
    assert joules / 8 == pytest.approx(0.335 * 1.2 / 32e9 / 8)


def test_token_time_follows_what_memory_delivers_where_chosen() -> None:
    chosen = {"kernels.gemm.read_share": "dram.share_of_gemms"}
    times = [
        read_question(SERVING, {"dram.refresh.mode": mode}, chosen, ("memories/hbm3e",))
        .resolve("serving.time_per_output_token", intervals=False)
        .require_value()
        for mode in ("bank", "all")
    ]
    elasticity = np.log(times[1] / times[0]) / np.log(
        share("hbm3e") / share("hbm3e", dram__refresh__mode="all")
    )
    assert 0.2 < elasticity < 0.9
