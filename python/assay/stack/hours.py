"""The hours of a day: when electricity is cheap or clean, and what moving work to those hours saves.

Prices and emissions of a grid swing over the day, with demand and with the sun. A site that runs evenly pays the mean;
one that can put off a share of its work pays less, in proportion to both swings. Emissions of a grid are the mix of
what generates at that hour.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Scope, Variable, by_definition, cited, maximum, number, total
from assay.stack import carbon, works
from assay.stack.cluster import power as cluster_power
from assay.stack.econ import rates as econ_rates, tariff
from assay.stack.thermal import site

scope = Scope("hours", "Electricity by the hour: price, mix and moved work")

_SHIFT = cited(
    "Radovanovic et al. 2023, Carbon-Aware Computing for Datacenters, IEEE Transactions on Power Systems 38(2)",
    "flexible load by hourly carbon intensity",
)
_TARIFF = cited(works.ENERGY_PLUS, "Tariff computation, time of use")
_IPCC = cited(
    "Schloemer et al. 2014, Technology-specific Cost and Performance Parameters, IPCC AR5 WG3 Annex III",
    "Table A.III.2, lifecycle emissions, median",
)
_SUN = cited(
    "Duffie and Beckman 2013, Solar Engineering of Thermal Processes, 4th edition", "ch. 1, zenith angle by hour"
)
_BATTERY = cited("NREL 2023, Annual Technology Baseline: Utility-Scale Battery Storage", "cost, efficiency and cycles")
_CARBON_PRICE = cited("World Bank 2023, State and Trends of Carbon Pricing", "carbon price by ton of emissions")
_REUSE = cited("ISO/IEC 30134-6:2021, Energy Reuse Factor", "definition of ERF")

STATES = 8
"""Hours of the day at which quantities are taken, evenly spaced: exact for products of two sinusoids."""


def _share(heading: str) -> Variable:
    return scope.declare(heading, bounds=(0, 1), reference=_SHIFT, boundary="scenario")


# Generation.
_MEDIANS = {
    "coal": 820, "gas": 490, "hydro": 24, "nuclear": 12, "wind": 11, "solar": 48,
}  # fmt: skip
"""Grams of carbon dioxide equivalents by kWh over the life of a plant."""
_parts = []
for source, grams in _MEDIANS.items():
    emissions = scope.declare(
        f"{source}.emissions, I_{source} [kg/J as kg/kWh]: lifecycle emissions of electricity from {source}; unless "
        f"given, {grams} g/kWh",
        equals=number(f"{grams * 1e-3 / 3.6e6!r} kg/J"),
        reference=_IPCC,
    )
    part = _share(f"{source}.share, s_{source} [1 as %]: share of a grid's electricity from {source}")
    _parts.append((part, emissions))
covered = scope.declare(
    "mix.covered, s_all [1 as %]: shares of all sources together",
    equals=total(*(part for part, _ in _parts)),
    bounds=(0, 1.000001),
    reference=by_definition("sum of shares"),
)
mix = scope.declare(
    "mix.emissions, I_mix [kg/J as kg/kWh]: emissions of the mix",
    equals=total(*(part * emissions for part, emissions in _parts)) / covered,
    reference=_IPCC,
    target=True,
)
scope.equation(carbon.grid_intensity, mix, name="intensity_of_mix", meaning="sources by their shares", reference=_IPCC)
fossil = scope.declare(
    "mix.fossil, s_f [1 as %]: share of the mix from coal and gas",
    equals=(_parts[0][0] + _parts[1][0]) / covered,
    bounds=(0, 1),
    reference=by_definition("coal and gas over all"),
    target=True,
)
# The day.
mean_price = scope.declare(
    "day.price, c_d [USD/J as USD/kWh]: energy charge, mean over the day", reference=_TARIFF, boundary="scenario"
)
price_swing = _share("day.price_swing, x_c [1 as %]: how far the dearest hour lies above the mean, over the mean")
rest_emissions = scope.declare(
    "day.rest_emissions, I_0 [kg/J as kg/kWh]: emissions of the grid without sun", reference=_SHIFT, boundary="scenario"
)
sun_share = _share("day.sun_share, s_s [1 as %]: share of the grid's electricity from the sun at noon")
flexible = _share("day.flexible, f_w [1 as %]: share of the load that is moved from the dearest hour to the cheapest")
clean_first = scope.flag(
    "day.clean_first, b_c: 1 where work follows the sun, 0 where it follows prices", reference=_SHIFT,
    boundary="scenario",
)  # fmt: skip
_prices, _intensities, _loads = [], [], []
for state in range(STATES):
    angle = 2 * math.pi * (state + 0.5) / STATES
    # The dearest hour is 18, that of most sun 12.
    dear, sun = math.cos(angle - 2 * math.pi * 18 / 24), math.cos(angle - math.pi)
    hour = f"hour_{(state + 0.5) * 24 / STATES:g}".replace(".", "_")
    _prices.append(
        scope.declare(
            f"{hour}.price, c_h [USD/J as USD/kWh]: energy charge at this hour",
            equals=mean_price * (1 + price_swing * round(dear, 9)),
            reference=_TARIFF,
        )
    )
    _intensities.append(
        scope.declare(
            f"{hour}.intensity, I_h [kg/J as kg/kWh]: emissions of the grid at this hour",
            equals=rest_emissions + sun_share * maximum(round(sun, 9), 0) * (_parts[5][1] - rest_emissions),
            reference=_SUN,
        )
    )
    _loads.append(
        scope.declare(
            f"{hour}.load, l_h: load at this hour over the mean",
            equals=1 + flexible * (clean_first * round(sun, 9) - (1 - clean_first) * round(dear, 9)),
            reference=_SHIFT,
        )
    )
paid = scope.declare(
    "day.paid, c_p [USD/J as USD/kWh]: energy charge by the hours of the load",
    equals=total(*(load * price for load, price in zip(_loads, _prices, strict=True))) / STATES,
    reference=_TARIFF,
    target=True,
)
emitted = scope.declare(
    "day.emitted, I_p [kg/J as kg/kWh]: emissions of the grid by the hours of the load",
    equals=total(*(load * intensity for load, intensity in zip(_loads, _intensities, strict=True))) / STATES,
    reference=_SHIFT,
    target=True,
)
even = scope.declare(
    "day.even, I_e [kg/J as kg/kWh]: emissions of the grid, mean over the day",
    equals=total(*_intensities) / STATES,
    bounds=POSITIVE,
    reference=_SHIFT,
)
price_saved = scope.declare(
    "day.price_saved, s_c [1 as %]: energy charge that moved work saves, over the mean",
    equals=1 - paid / mean_price,
    bounds=(None, 1),
    reference=by_definition("saving over mean"),
    target=True,
)
emissions_saved = scope.declare(
    "day.emissions_saved, s_I [1 as %]: emissions that moved work saves, over the mean",
    equals=1 - emitted / even,
    bounds=(None, 1),
    reference=by_definition("saving over the mean of the day"),
    target=True,
)
scope.equation(
    tariff.electricity_energy_price, paid, name="price_by_hour", meaning="prices at the hours of the load",
    reference=_TARIFF,
)  # fmt: skip
scope.equation(
    carbon.grid_intensity, emitted, name="intensity_by_hour", meaning="emissions at the hours of the load",
    reference=_SHIFT,
)  # fmt: skip
# Two prices.
peak_price = scope.declare(
    "tariff.peak, c_pk [USD/J as USD/kWh]: energy charge at peak hours", reference=_TARIFF, boundary="scenario"
)
base_price = scope.declare(
    "tariff.base, c_of [USD/J as USD/kWh]: energy charge at all other hours", reference=_TARIFF, boundary="scenario"
)
peak_share = _share("tariff.peak_share, s_pk [1 as %]: share of the energy that is used at peak hours")
scope.equation(
    tariff.electricity_energy_price,
    peak_share * peak_price + (1 - peak_share) * base_price,
    name="price_of_two",
    meaning="peak hours and all others",
    reference=_TARIFF,
)
# Emissions that are paid for.
emission_price = scope.declare(
    "emissions.price, c_CO2 [USD/kg as USD/t]: price of emissions", reference=_CARBON_PRICE, boundary="scenario"
)
emission_charge = scope.declare(
    "emissions.charge, c_EI [USD/J as USD/kWh]: price of the grid's emissions by energy",
    equals=emission_price * carbon.grid_intensity,
    reference=_CARBON_PRICE,
    target=True,
)
untaxed = scope.declare(
    "emissions.untaxed, c_E0 [USD/J as USD/kWh]: energy charge without the price of emissions",
    reference=_CARBON_PRICE,
    boundary="scenario",
)
scope.equation(
    tariff.electricity_energy_price,
    untaxed + emission_charge,
    name="price_with_emissions",
    meaning="energy and the emissions of the grid",
    reference=_CARBON_PRICE,
)
# Storage.
battery_price = scope.declare(
    "battery.price, c_b [USD/J as USD/kWh]: price of a battery by capacity", reference=_BATTERY, boundary="primitive"
)
battery_cycles = scope.declare(
    "battery.cycles, n_b: full cycles of a battery's life", bounds=POSITIVE, reference=_BATTERY, boundary="primitive"
)
round_trip = scope.declare(
    "battery.round_trip, eta_b [1 as %]: energy out of a battery over energy in", bounds=("positive", 1),
    reference=_BATTERY, boundary="primitive",
)  # fmt: skip
stored_price = scope.declare(
    "battery.stored_price, c_s [USD/J as USD/kWh]: what energy costs that was stored at the base price",
    equals=base_price / round_trip + battery_price / battery_cycles,
    reference=_BATTERY,
    target=True,
)
worth = scope.declare(
    "battery.worth, d_b [USD/J as USD/kWh]: what storing saves by energy at peak hours",
    equals=peak_price - stored_price,
    bounds=(None, None),
    reference=by_definition("peak price less that of stored energy"),
    target=True,
)
# Heat.
reused = _share("heat.reused, s_r [1 as %]: share of the site's heat that others use")
reuse_factor = scope.declare(
    "heat.reuse_factor, ERF: reused energy over that of the site",
    equals=reused * cluster_power.it_power / site.site_power,
    bounds=(0, 1),
    reference=_REUSE,
    target=True,
)
effectiveness = scope.declare(
    "heat.effectiveness, ERE: energy of the site less what is reused, over that of the machines",
    equals=site.pue * (1 - reuse_factor),
    reference=_REUSE,
    target=True,
)
heat_price = scope.declare("heat.price, c_h [USD/J as USD/kWh]: price of heat", reference=_REUSE, boundary="scenario")
heat_income = scope.declare(
    "heat.income, r_h [USD/s as USD/h]: income of reused heat",
    equals=reused * cluster_power.it_power * heat_price,
    reference=_REUSE,
    target=True,
)
heat_offset = scope.declare(
    "heat.offset, s_ho [1 as %]: income of heat over the cost of the site's electricity",
    equals=heat_income / (site.site_power * tariff.electricity_price),
    reference=by_definition("income over cost"),
    target=True,
)
own_cost = scope.declare(
    "emissions.cost, r_CO2 [USD/s as USD/h]: price of the site's emissions, by time",
    equals=site.site_power * carbon.intensity * emission_price,
    reference=_CARBON_PRICE,
    target=True,
)
emission_share = scope.declare(
    "emissions.share, s_CO2 [1 as %]: price of emissions over the cost of owning and running the site",
    equals=own_cost / econ_rates.ownership_rate,
    reference=by_definition("emissions over the rest"),
    target=True,
)
