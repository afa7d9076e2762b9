"""Mixes by published emissions, days by closed forms, markets by their equilibrium, investments by SciPy."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq

from assay import stack
from assay.scenario.question import read_question

TRAINING = "llama3_8b_8_h100_training"
SOURCES = ("coal", "gas", "hydro", "nuclear", "wind", "solar")
KWH = 3.6e6
DAY = 86400.0
YEAR = 31557600.0


def value(target: str, given: dict[str, float], variant: dict[str, str] | None = None) -> float:
    return stack.registry().resolve(target, given, variant).require_value()


def _mix(**shares: float) -> dict[str, float]:
    return {f"hours.{source}.share": shares.get(source, 0.0) for source in SOURCES}


def test_emissions_of_mixes() -> None:
    """IPCC medians: 820 coal, 490 gas, 12 nuclear, 24 hydro g/kWh."""
    assert value("hours.mix.emissions", _mix(coal=1)) * KWH == pytest.approx(0.820)
    mixed = value("hours.mix.emissions", _mix(gas=0.5, nuclear=0.3, hydro=0.2))
    assert mixed * KWH == pytest.approx(0.5 * 0.49 + 0.3 * 0.012 + 0.2 * 0.024)
    # Shares that leave something out are taken as those of what is known.
    assert value("hours.mix.emissions", _mix(coal=0.4, wind=0.4)) * KWH == pytest.approx(
        (0.82 + 0.011) / 2
    )


def _day(**changes: float) -> dict[str, float]:
    return {
        "hours.day.price": 0.1 / KWH, "hours.day.price_swing": 0.4, "hours.day.rest_emissions": 0.5 / KWH,
        "hours.day.sun_share": 0.6, "hours.day.flexible": 0.3, "hours.day.clean_first": 0.0, **changes,
    }  # fmt: skip


def test_work_that_follows_prices_saves_half_the_product_of_swings() -> None:
    """Mean of (1 - f cos)(1 + x cos) = 1 - f x / 2."""
    assert value("hours.day.price_saved", _day()) == pytest.approx(0.3 * 0.4 / 2, rel=1e-6)
    assert value("hours.day.price_saved", _day(**{"hours.day.flexible": 0.0})) == pytest.approx(
        0, abs=1e-9
    )


def test_work_that_follows_the_sun_is_cleaner() -> None:
    """Half a cosine: mean over the day of the share is s / pi, and of its product with the load s / 4 more by f."""
    follow = _day(**{"hours.day.clean_first": 1.0})
    even = value("hours.day.even", follow) * KWH
    assert even == pytest.approx(0.5 - 0.6 / math.pi * (0.5 - 0.048), rel=0.03)
    emitted = value("hours.day.emitted", follow) * KWH
    assert even - emitted == pytest.approx(0.3 * 0.6 / 4 * (0.5 - 0.048), rel=1e-6)


def test_hours_reach_cost_and_emissions_of_a_token() -> None:
    chosen = {
        "econ.electricity.energy_price": "hours.price_by_hour",
        "carbon.grid.intensity": "hours.intensity_by_hour",
    }
    given = {
        "hours.day.price": "0.08 USD/kWh", "hours.day.price_swing": "0.4", "hours.day.rest_emissions": "0.5 kg/kWh",
        "hours.day.sun_share": "0.6",
    }  # fmt: skip
    for target, first in (("econ.cost.per_token", "0"), ("carbon.per_token", "1")):
        still, moved = (
            read_question(
                TRAINING,
                {**given, "hours.day.flexible": share, "hours.day.clean_first": first},
                chosen,
            )
            .resolve(target, intervals=False)
            .require_value()
            for share in ("0", "0.3")
        )
        assert abs(moved / still - 1) > 1e-3, target


def test_stored_energy_by_hand() -> None:
    given = {
        "hours.tariff.base": 0.05 / KWH, "hours.tariff.peak": 0.2 / KWH, "hours.battery.price": 300 / KWH,
        "hours.battery.cycles": 6000.0, "hours.battery.round_trip": 0.85,
    }  # fmt: skip
    assert value("hours.battery.stored_price", given) * KWH == pytest.approx(0.05 / 0.85 + 0.05)
    assert value("hours.battery.worth", given) * KWH == pytest.approx(0.2 - 0.05 / 0.85 - 0.05)


def _market(**changes: float) -> dict[str, float]:
    return {
        "market.known.price": 30000.0, "market.known.demand": 8000 / DAY, "market.elasticity": 1.5,
        "manufacturing.gpu.rate": 4000 / DAY, "manufacturing.gpu.cost": 3320.0, **changes,
    }  # fmt: skip


@pytest.mark.parametrize("elasticity", [0.5, 1.5, 4.0])
def test_price_that_clears_the_market(elasticity: float) -> None:
    """q_0 (p / p_0)^-e = s."""
    price = value("market.clearing.price", _market(**{"market.elasticity": elasticity}))
    assert price == pytest.approx(30000 * 2 ** (1 / elasticity), rel=1e-9)


def test_a_single_seller_asks_by_the_inverse_elasticity() -> None:
    """Lerner: (p - c) / p = 1 / e."""
    price = value("market.monopoly.price", _market())
    assert (price - 3320) / price == pytest.approx(1 / 1.5)


def test_rents_fall_by_half() -> None:
    given = {"market.age": 3 * YEAR, "market.rent.halving": 1.5 * YEAR, "market.rent.new": 4 / 3600}
    assert value("market.rent.now", given) * 3600 == pytest.approx(1.0, rel=1e-7)
    mean = value("market.rent.mean", {**given, "econ.machines.lifetime": 3 * YEAR}) * 3600
    assert mean == pytest.approx(4 * 1.5 / (3 * math.log(2)) * 0.75, rel=1e-9)


def test_worth_of_a_machine_by_its_years() -> None:
    given = {
        "market.income": 12000 / YEAR, "econ.interest": 0.08, "econ.machines.lifetime": 5 * YEAR,
        "econ.gpu.price": 30000.0, "econ.machines.residual_share": 0.1,
    }  # fmt: skip
    expected = sum(12000 / 1.08**n for n in range(1, 6)) + 3000 / 1.08**5 - 30000
    assert value("market.worth.present", given) == pytest.approx(expected, rel=1e-9)
    rate = brentq(lambda i: 12000 * (1 - (1 + i) ** -5) / i - 30000, 1e-3, 2)
    assert value("market.earned.rate", given) == pytest.approx(rate, rel=1e-8)


def test_residual_worth_by_year() -> None:
    given = {"market.worth.yearly_loss": 0.3, "econ.machines.lifetime": 4 * YEAR}
    chosen = {"econ.machines.residual_share": "market.residual_by_year"}
    assert value("econ.machines.residual_share", given, chosen) == pytest.approx(0.7**4)


def test_a_market_price_reaches_the_cost_of_a_token() -> None:
    chosen = {"econ.gpu.price": "market.price_of_market"}
    costs = [
        read_question(
            TRAINING,
            {
                "market.known.price": "30000 USD/GPU",
                "market.known.demand": f"{demand} GPU/day",
                "market.elasticity": "1.5",
                "manufacturing.gpu.rate": "4000 GPU/day",
            },
            chosen,
        )
        .resolve("econ.cost.per_token", intervals=False)
        .require_value()
        for demand in (5000, 5500)
    ]
    assert costs[1] > costs[0] * 1.001


def test_cheaper_tokens_may_cost_more_in_all() -> None:
    """Half the cost at an elasticity of 2: four times the tokens, twice the spending."""
    given = {
        "econ.cost.per_output_token": 1e-6, "market.tokens.known_cost": 2e-6, "market.tokens.elasticity": 2.0,
    }  # fmt: skip
    assert value("market.tokens.rebound", given) == pytest.approx(2)


def test_reserved_hours_pay_above_their_share() -> None:
    given = {"market.reserve.discount": 0.4, "market.reserve.demand_rent": 5 / 3600}
    assert value("market.reserve.share", given) == pytest.approx(0.6)
    chosen = {"econ.rent.price": "market.rent_of_reserved"}
    assert value("econ.rent.price", given, chosen) * 3600 == pytest.approx(3)
