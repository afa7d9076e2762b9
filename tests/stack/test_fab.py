"""A fab by published energies of silicon, capital of wafers, queues, learning curves and stoichiometry."""

from __future__ import annotations

import math

import pytest
from scipy.integrate import solve_ivp

from assay import stack
from assay.catalog import entries
from assay.scenario.question import read_question

TRAINING = "llama3_8b_8_h100_training"
FAB = entries.read("fabs", "n5").given
N5 = ("processes/n5", "scanners/nxe_3600d", "fabs/n5")


def value(target: str, **given: float) -> float:
    named = {name.replace("__", "."): number for name, number in given.items()}
    return (
        stack.registry()
        .resolve(target, {**FAB, "manufacturing.wafer.diameter": 0.3, **named})
        .require_value()
    )


def answer(
    target: str, *includes: str, variant: dict[str, str] | None = None, **given: str
) -> float:
    assign = {name.replace("__", "."): text for name, text in given.items()}
    question = read_question(TRAINING, assign, variant, includes or N5)
    return question.resolve(target, intervals=False).require_value()


def test_energy_of_silicon_from_quartz_to_wafer() -> None:
    """Williams et al. 2002: 2,127 kWh for a kilogram of wafer, of 9.4 kg of silicon."""
    mass = value("fab.wafer.mass")
    assert mass == pytest.approx(2329 * math.pi * 0.15**2 * 775e-6, rel=1e-9)
    assert value("fab.wafer.silicon_energy") / 3.6e6 / mass == pytest.approx(2127, rel=5e-3)
    silicon = value("fab.wafer.sand") / value("fab.quartz.ratio") * 0.9 / mass
    assert silicon == pytest.approx(9.4, rel=0.01)


def test_quartz_and_coke_by_stoichiometry() -> None:
    """SiO2 60.08, Si 28.085, CO2 44.01 g/mol."""
    assert value("fab.quartz.ratio") == pytest.approx(60.08 / 28.085, rel=1e-3)
    assert value("fab.furnace.emissions") == pytest.approx(2 * 44.01 / 28.085, rel=1e-3)


def test_capital_that_a_wafer_consumes() -> None:
    """CSET 2020, Table 9: 16,746 USD by wafer a year at 5 nm, of which a wafer consumes 4,235."""
    assert value("fab.capital.wafer_cost") == pytest.approx(4235, rel=1e-3)


def test_price_of_a_wafer_is_the_published_one() -> None:
    """CSET 2020: 16,988 USD; parts that nobody publishes are assumed, their sum is not fitted closer than this."""
    assert answer("manufacturing.wafer.price") == pytest.approx(16988, rel=0.05)


def test_electricity_of_a_wafer_by_area() -> None:
    """ACT: 2.75 kWh/cm2 at 5 nm."""
    chosen = {"manufacturing.footprint.logic.energy": "fab.energy_by_area"}
    energy = answer("manufacturing.footprint.logic.energy", variant=chosen)
    assert energy / 3.6e6 * 1e-4 == pytest.approx(2.75, rel=0.05)


@pytest.mark.parametrize(("loading", "factor"), [(0.5, 1.0), (0.8, 4.0), (0.9, 9.0)])
def test_waiting_grows_with_loading(loading: float, factor: float) -> None:
    """M/M/1: rho / (1 - rho)."""
    assert value("fab.flow.queue_factor", fab__tool__loading=loading) == pytest.approx(factor)


def test_wafers_under_way_by_littles_law() -> None:
    given = {"manufacturing__wafer__rate": 10000 / 2.6298e6, "fab__flow__cycle_time": 90 * 86400.0}
    assert value("fab.flow.under_way", **given) == pytest.approx(10000 * 90 / 30.4375, rel=1e-4)


def test_defects_fall_exponentially() -> None:
    pace, age = 0.5, 1.3
    solved = solve_ivp(lambda _, d: -(d - 0.07) / pace, (0, age), [0.5], rtol=1e-10, atol=1e-12)
    given = {
        "fab__learning__first": 0.5, "fab__learning__last": 0.07, "fab__learning__pace": pace,
        "fab__learning__age": age,
    }  # fmt: skip
    assert value("fab.learning.defects", **given) == pytest.approx(float(solved.y[0][-1]), rel=1e-6)
    assert value("fab.learning.defects", **given) == pytest.approx(
        0.07 + 0.43 * math.exp(-age / pace), rel=1e-6
    )


def test_costs_by_doublings() -> None:
    """Wright: 0.8 a doubling is 0.512 after three."""
    given = {"fab__learning__progress": 0.8, "fab__learning__made": 8.0}
    assert value("fab.learning.experience", **given) == pytest.approx(0.512)


def test_availability_by_states() -> None:
    given = {
        "fab__tool__failure_interval": 190.0, "fab__tool__repair_time": 10.0, "fab__tool__scheduled_share": 0.1,
    }  # fmt: skip
    assert value("fab.tool.availability", **given) == pytest.approx(0.95 * 0.9)


def test_gases_that_escape() -> None:
    """10 exposures of 5 g, 6,630 times carbon dioxide, 70 % used up, a tenth returns, 95 % abated."""
    given = {
        "fab__exposures": 10.0, "fab__gas__mass": 0.005, "fab__gas__warming": 6630.0, "fab__gas__used": 0.7,
        "fab__gas__byproduct": 0.1, "manufacturing__footprint__abatement": 0.95,
    }  # fmt: skip
    assert value("fab.gas.emissions", **given) == pytest.approx(10 * 0.005 * 6630 * 0.4 * 0.05)


def test_a_dose_reaches_the_cost_of_a_token() -> None:
    """A dearer exposure: scanner, wafer, die, GPU, token."""
    chosen = {
        "econ.gpu.price": "gpu.price_by_margin",
        "fab.capital.wafer_cost": "fab.capital.of_tools",
    }
    given = {
        "econ__gpu__margin": "0.85", "fab__tool__failure_interval": "190 h", "fab__tool__repair_time": "10 h",
        "fab__tool__scheduled_share": "0.1", "fab__tool__loading": "0.85", "fab__immersion__price": "7e7 USD",
        "fab__immersion__rate": "275 1/h", "fab__tool__lifetime": "5 year", "fab__dry__price": "10 USD",
        "fab__processing__price": "3e8 USD", "fab__processing__rate": "200 1/h",
    }  # fmt: skip
    costs = [
        answer("econ.cost.per_token", variant=chosen, **given, lithography__dose=f"{dose} mJ/cm^2")
        for dose in (30, 33)
    ]
    assert (costs[1] / costs[0] - 1) / 0.1 > 1e-3


def test_sand_of_a_gpu_and_a_token() -> None:
    """814 mm2 of logic and 49.5 cm2 of memory, with losses: a third of a kilogram of quartz."""
    sand = answer("fab.gpu.sand")
    area = answer("fab.gpu.silicon") * 1e4
    assert 60 < area < 120
    assert sand == pytest.approx(area / (math.pi * 15**2) * value("fab.wafer.sand"), rel=1e-6)
    atoms = answer("fab.token.atoms")
    assert atoms == pytest.approx(answer("fab.token.sand") / 0.06008 * 6.022e23, rel=1e-3)
