"""Chiller load of the coolant and air loops beyond free cooling."""

from __future__ import annotations

from assay.model import POSITIVE, Expression, Variable, cited, maximum, minimum, number, where
from assay.stack import works
from assay.stack.cluster import nodes
from assay.stack.gpu import power as gpu_power
from assay.stack.thermal.supply import air_heat, liquid_heat, scope
from assay.stack.thermal.weather import over_the_year, sink_rise

_PLANT = cited(
    "Beitelmal and Patel 2006, Model-Based Approach for Optimizing a Data Center Centralized Cooling System",
    "energy equations of chiller and tower",
)
_CARNOT = cited("Gordon and Ng 2001, Cool Thermodynamics", "coefficient of performance and its Carnot limit")
_ECONOMISER = cited(
    "Diaz et al. 2020, Effect of climate conditions on the thermodynamic performance of a data "
    "center cooling system under water-side economization",
    "water-side economiser",
)
_LIQUID = cited(works.ASHRAE_LIQUID_COOLING, "facility water and technology cooling loops")
_AIR = cited(
    "ASHRAE TC 9.9, Thermal Guidelines for Data Processing Environments, 5th edition 2021",
    "Table 2.1, recommended range",
)

coolant_rise = scope.declare(
    "coolant.rise, dT_liq [K]: temperature rise of the coolant in the machines",
    bounds=POSITIVE,
    reference=_LIQUID,
    boundary="scenario",
    nature="difference",
)
coolant_approach = scope.declare(
    "coolant.approach, dT_CDU [K]: approach temperature of coolant over facility water",
    reference=_LIQUID,
    boundary="scenario",
    nature="difference",
)
room_temperature = scope.declare(
    "room.temperature, T_room [K as degC]: room air temperature where liquid cools the GPUs",
    bounds=POSITIVE,
    reference=_AIR,
    boundary="scenario",
)
air_temperature = scope.declare(
    "air.temperature, T_air [K as degC]: inlet air temperature of the machines",
    equals=where(nodes.liquid_share > 0, room_temperature, gpu_power.coolant_temperature),
    bounds=POSITIVE,
    reference=_AIR,
)
air_rise = scope.declare(
    "air.rise, dT_air [K]: temperature rise of the air in the machines",
    bounds=POSITIVE,
    reference=_AIR,
    boundary="scenario",
    nature="difference",
)
air_approach = scope.declare(
    "air.approach, dT_coil [K]: approach temperature of air over facility water, at the coil",
    reference=_PLANT,
    boundary="scenario",
    nature="difference",
)
chilled_rise = scope.declare(
    "chilled.rise, dT_ch [K]: temperature rise of facility water in the coils",
    bounds=POSITIVE,
    reference=_PLANT,
    boundary="scenario",
    nature="difference",
)
scope.inequality(
    "air.recommended",
    (air_temperature >= number("291.15 K")) & (air_temperature <= number("300.15 K")),
    "inlet air is between 18 and 27 degrees Celsius",
    reference=_AIR,
)
chiller_efficiency = scope.declare(
    "chiller.carnot_share, eta_C: coefficient of performance of chillers over Carnot's",
    bounds=("positive", 1),
    reference=_CARNOT,
    boundary="primitive",
)
chiller_approach = scope.declare(
    "chiller.approach, dT_hx [K]: approach temperature of refrigerant over water, each side",
    reference=_PLANT,
    boundary="primitive",
    nature="difference",
)
least_lift = scope.declare(
    "chiller.least_lift, dT_min [K]: smallest lift that the chillers' compressors run at",
    bounds=POSITIVE,
    reference=_PLANT,
    boundary="primitive",
    nature="difference",
)


def _chilled(loop: str, mark: str, heat: Variable, water: Variable, rise: Variable) -> Variable:
    """Declare the chiller power of one loop after free cooling."""

    def free_at(sink: Expression) -> Expression:
        return minimum(1, maximum(0, (water + rise - sink) / rise))

    def work_at(sink: Expression) -> Expression:
        lift = maximum(least_lift, sink + sink_rise - water + 2 * chiller_approach)
        cop = chiller_efficiency * (water - chiller_approach) / lift
        return (1 - free_at(sink)) / cop

    scope.declare(
        f"{loop}.free_share, s_{mark}: free-cooling share of the {loop} loop's heat, mean over the year",
        equals=over_the_year(lambda hour: free_at(hour.sink)),
        bounds=(0, 1),
        reference=_ECONOMISER,
        library=True,
    )
    work = scope.declare(
        f"{loop}.chiller_share, w_{mark}: work of the {loop} loop's chiller over its heat, mean over the year",
        equals=over_the_year(lambda hour: work_at(hour.sink)),
        reference=_CARNOT,
    )
    return scope.declare(
        f"{loop}.chiller_power, P_{mark} [W]: power of the {loop} loop's chiller", equals=heat * work, reference=_PLANT
    )


coolant_water = scope.declare(
    "coolant.water_temperature, T_fw [K as degC]: facility water temperature at the heat exchanger",
    equals=gpu_power.coolant_temperature - coolant_approach,
    reference=_LIQUID,
)
air_water = scope.declare(
    "air.water_temperature, T_chw [K as degC]: facility water temperature at the coils",
    equals=air_temperature - air_approach,
    reference=_PLANT,
)
coolant_chiller_power = _chilled("coolant", "liq", liquid_heat, coolant_water, coolant_rise)
air_chiller_power = _chilled("air", "air", air_heat, air_water, chilled_rise)
