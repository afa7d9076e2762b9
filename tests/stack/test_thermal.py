"""Cooling, losses, effectiveness and water against published examples and balances."""

from __future__ import annotations

import numpy as np
import pytest

from assay import stack
from assay.scenario import built_in
from assay.scenario.includes import include

from .sites import SITE

Given = dict[str, float | str]


def value(target: str, given: Given, variants: dict[str, str] | None = None) -> float:
    return stack.registry().resolve(target, given, variants=variants or {}).require_value()


def test_wet_bulb_that_stull_prints() -> None:
    """Stull 2011, sec. 2: 20 degrees and 50 % give 13.7 degrees."""
    given: Given = {"thermal.weather.dry_bulb": "20 degC", "thermal.weather.humidity": 0.5}
    assert value("thermal.weather.wet_bulb", given) - 273.15 == pytest.approx(13.7, abs=0.05)


def test_wet_bulb_outside_fit_range_is_marked_invalid() -> None:
    given: Given = {"thermal.weather.dry_bulb": "60 degC", "thermal.weather.humidity": 0.5}
    (verdict,) = stack.registry().resolve("thermal.weather.wet_bulb", given).validity
    assert verdict.status == "false"


def test_wet_bulb_of_saturated_air_equals_dry_bulb() -> None:
    given: Given = {"thermal.weather.dry_bulb": "25 degC", "thermal.weather.humidity": 0.99}
    assert value("thermal.weather.wet_bulb", given) - 273.15 == pytest.approx(25, abs=0.3)


def steady(sink: float) -> Given:
    """Weather without swings that a dry cooler without approach turns into water of this warmth."""
    return {
        "thermal.weather.dry_bulb": sink,
        "thermal.weather.humidity": 0.5,
        "thermal.weather.seasonal_swing": 0,
        "thermal.weather.daily_swing": 0,
        "thermal.weather.dew_swing": 0,
        "thermal.sink.evaporative": 0,
        "thermal.sink.approach": 0,
    }


def test_chiller_cop_between_two_temperatures() -> None:
    """A Carnot cycle between 280 K and 310 K moves 280/30 times its work.

    Water of 302 K leaves the condenser at 308 K, and two kelvin are lost at either end.
    """
    given: Given = {
        **SITE,
        **steady(302),
        "thermal.air.water_temperature": "282 K",
        "thermal.chiller.carnot_share": 1,
    }
    assert value("thermal.air.free_share", given) == 0
    assert value("thermal.air.chiller_share", given) == pytest.approx(30 / 280)
    expected = value("thermal.heat.air", given) * 30 / 280
    assert value("thermal.air.chiller_power", given) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sink", "share"), [(279.0, 1.0), (285.0, 0.5), (288.0, 0.0), (300.0, 0.0)]
)
def test_free_cooling_share_follows_water_temperature(sink: float, share: float) -> None:
    """Chilled water of 282 K returns at 288 K; heat removed by the tower needs no chiller."""
    given: Given = {
        **steady(sink),
        "thermal.air.water_temperature": 282,
        "thermal.chilled.rise": "6 K",
    }
    assert value("thermal.air.free_share", given) == pytest.approx(share)


@pytest.mark.parametrize("swings", [(10.0, 0.0), (0.0, 6.0), (10.0, 6.0)])
def test_free_cooling_over_the_hours_of_a_year(swings: tuple[float, float]) -> None:
    """Eighteen states against 365 x 24 hours of two sinusoids."""
    seasonal, daily = swings
    given: Given = {
        **steady(283.0),
        "thermal.weather.seasonal_swing": seasonal,
        "thermal.weather.daily_swing": daily,
        "thermal.air.water_temperature": 282,
        "thermal.chilled.rise": "6 K",
    }
    hours = np.arange(8760)
    sink = 283 + seasonal * np.cos(2 * np.pi * hours / 8760) + daily * np.cos(np.pi * hours / 12)
    expected = np.clip((288 - sink) / 6, 0, 1).mean()
    # Two swings are resolved better than one alone: their sums have more distinct values.
    assert value("thermal.air.free_share", given) == pytest.approx(expected, abs=0.04)


def test_dew_point_that_alduchov_and_eskridge_give() -> None:
    """Air of 20 degrees and 50 % has a dew point of 9.26 degrees."""
    given: Given = {"thermal.weather.dry_bulb": "20 degC", "thermal.weather.humidity": 0.5}
    assert value("thermal.weather.dew_point", given) - 273.15 == pytest.approx(9.26, abs=0.02)


def test_latent_share_of_a_tower_by_enthalpy() -> None:
    """Air of 35 degrees and 40 % leaves saturated at 32: by psychrometric tables 0.0142 to 0.0306.

    2.442 MJ/kg x 0.0164 = 40.0 kJ/kg of vapor, less 3.0 kJ/kg that the air itself gives up.
    """
    given: Given = {
        **steady(308.15),
        "thermal.weather.humidity": 0.4,
        "thermal.sink.evaporative": 1,
        "thermal.sink.approach": 305.15 - 3 - value_of_wet_bulb(308.15, 0.4),
        "thermal.sink.rise": "6 K",
    }
    assert value("thermal.sink.latent_share", given) == pytest.approx(40.0 / 37.0, rel=0.02)


def value_of_wet_bulb(dry_bulb: float, humidity: float) -> float:
    given: Given = {"thermal.weather.dry_bulb": dry_bulb, "thermal.weather.humidity": humidity}
    return value("thermal.weather.wet_bulb", given)


def test_sites_differ_by_their_climate() -> None:
    """A desert runs chillers and evaporates the most; the north hardly needs either."""
    preset = built_in.preset("llama3_8b_8_h100_training")

    def at(site: str, **changes: float) -> tuple[float, float, float]:
        moved = preset.with_includes([include(f"sites/{site}", preset.registry)])
        own = {f"thermal.sink.{name}": changed for name, changed in changes.items()}
        names = ("thermal.dc.pue", "thermal.dc.wue", "thermal.air.free_share")
        pue, wue, free = (value(name, {**moved.inputs.values, **own}) for name in names)
        return pue, wue * 3.6e9, free

    desert, temperate, north = map(
        at, ("hot_dry_evaporative", "temperate_evaporative", "nordic_dry")
    )
    assert desert[0] - temperate[0] > 0.01
    assert temperate[1] < 0.9 * desert[1]
    assert desert[2] < temperate[2] < north[2]
    # Dry coolers save water, not power: with towers the north has the lowest PUE.
    assert north[1] == 0
    towers = at("nordic_dry", evaporative=1.0, approach=5.0, fan_share=0.01)
    assert towers[0] < temperate[0] - 0.005
    assert 0 < towers[1] < temperate[1]


def test_flow_of_coolant() -> None:
    """A kilowatt at 10 K needs 0.024 liters of water a second."""
    given: Given = {"thermal.heat.liquid": "1 kW", "thermal.coolant.rise": "10 K"}
    assert value("thermal.coolant.flow", given) == pytest.approx(1000 / (4180 * 10) / 997)
    assert value("thermal.coolant.flow", given) * 1000 == pytest.approx(0.024, rel=0.001)


@pytest.mark.parametrize("load", [0.2, 0.5, 1.0])
def test_power_supply_losses_by_load(load: float) -> None:
    """No-load loss stays, the rest grows with the load and with its square."""
    given: Given = {
        **SITE,
        "cluster.design_power": "1 MW",
        "cluster.it_power": load * 2e6,
        "thermal.cooling.power": 0,
    }
    ups = 2e6 * (0.008 + 0.012 * load + 0.015 * load**2)
    assert value("thermal.dc.ups_loss", given) == pytest.approx(ups)
    share = (load * 2e6 + ups) / 1.5e6
    transformer = 1.5e6 * (0.001 + 0.006 * share**2)
    assert value("thermal.dc.transformer_loss", given) == pytest.approx(transformer)


def test_heat_rejected_equals_indoor_power() -> None:
    inside = (
        value("thermal.dc.power", SITE)
        - value("thermal.dc.transformer_loss", SITE)
        - value("thermal.pump.sink_power", SITE)
        - value("thermal.sink.fan_power", SITE)
    )
    assert value("thermal.heat.rejected", SITE) == pytest.approx(inside, rel=1e-12)


def test_effectiveness_of_a_worked_example() -> None:
    """600 W of cooling and twice 100 W of losses over 4400 W of machines."""
    given: Given = {
        "cluster.it_power": "4400 W",
        "thermal.cooling.power": "600 W",
        "thermal.dc.ups_loss": "100 W",
        "thermal.dc.transformer_loss": "100 W",
    }
    assert value("thermal.dc.pue", given) == pytest.approx(5200 / 4400)


def test_given_pue_overrides_the_cooling_model() -> None:
    given: Given = {"cluster.it_power": "10 MW", "thermal.dc.stated_pue": 1.1}
    variants = {"thermal.dc.overhead_power": "dc.overhead_stated"}
    assert value("thermal.dc.power", given, variants) == pytest.approx(11e6)
    assert value("thermal.dc.pue", given, variants) == pytest.approx(1.1)


def test_pue_of_liquid_cooled_site_is_below_1_15() -> None:
    """Liquid cooling at 40 degrees in a temperate climate needs no chiller; PUE is below 1.15."""
    assert value("thermal.coolant.chiller_power", SITE) == 0
    assert 1.04 < value("thermal.dc.pue", SITE) < 1.15


def test_warmer_coolant_saves_cooling() -> None:
    hot: Given = {**SITE, "thermal.weather.dry_bulb": "32 degC"}
    cold_water = value("thermal.dc.pue", {**hot, "gpu.coolant_temperature": "20 degC"})
    warm_water = value("thermal.dc.pue", {**hot, "gpu.coolant_temperature": "45 degC"})
    assert warm_water < cold_water - 0.05


def test_warmer_coolant_warms_the_die() -> None:
    """The other side of the same choice: the GPU's loop takes the same temperature."""
    reached = stack.registry().graph.descendants("gpu.coolant_temperature")
    assert {"gpu.temperature", "gpu.throttle", "thermal.cooling.power"} <= reached


def test_water_of_a_tower() -> None:
    """One kWh evaporates 1.474 kg at 2.442 MJ/kg; five cycles let out a quarter of it."""
    given: Given = {
        **SITE,
        "thermal.heat.rejected": "1 kW",
        "cluster.it_power": "1 kW",
        "thermal.sink.latent_share": 1,
        "thermal.sink.drift_share": 0,
    }
    liters_per_kwh = 3.6e6 / 2.442e6 / 0.997
    assert value("thermal.water.evaporation", given) * 3.6e6 == pytest.approx(liters_per_kwh)
    assert value("thermal.dc.wue", given) * 3.6e9 == pytest.approx(1.25 * liters_per_kwh)


def test_dry_coolers_use_no_water() -> None:
    dry: Given = {**SITE, "thermal.sink.evaporative": 0}
    assert value("thermal.dc.wue", dry) == 0
    assert value("thermal.sink.temperature", dry) > value("thermal.sink.temperature", SITE)


def test_site_power_above_grid_connection_violates_constraint() -> None:
    given: Given = {**SITE, "thermal.dc.feed_power": "0.5 MW"}
    violated = stack.registry().resolve("thermal.dc.pue", given).violated
    assert [verdict.name for verdict in violated] == ["thermal.dc.within_feed"]
