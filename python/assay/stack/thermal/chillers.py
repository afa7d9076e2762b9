"""Chiller load of the coolant and air loops beyond free cooling."""

from __future__ import annotations

from assay.model import POSITIVE, Expression, Variable, cited, maximum, minimum, number, where
from assay.stack import cluster, gpu
from assay.stack.thermal.supply import (
    air_heat,
    liquid_heat,
    scope,
)
from assay.stack.thermal.weather import over_the_year, sink_rise

_PLANT = cited(
    "Beitelmal and Patel 2006, Model-Based Approach for Optimizing a Data Center Centralized "
    "Cooling System",
    "energy equations of chiller and tower",
)
_CARNOT = cited(
    "Gordon and Ng 2001, Cool Thermodynamics", "coefficient of performance and its Carnot limit"
)
_ECONOMISER = cited(
    "Diaz et al. 2020, Effect of climate conditions on the thermodynamic performance of a data "
    "center cooling system under water-side economization",
    "water-side economiser",
)
_LIQUID = cited(
    "ASHRAE TC 9.9, Liquid Cooling Guidelines for Datacom Equipment Centers, 2nd edition",
    "facility water and technology cooling loops",
)
_AIR = cited(
    "ASHRAE TC 9.9, Thermal Guidelines for Data Processing Environments, 5th edition 2021",
    "Table 2.1, recommended range",
)

coolant_rise = scope.variable(
    "coolant.rise", "dT_liq", "K", "temperature rise of the coolant in the machines", bounds=POSITIVE,
    reference=_LIQUID, boundary="scenario", nature="difference",
)  # fmt: skip
coolant_approach = scope.variable(
    "coolant.approach", "dT_CDU", "K", "approach temperature of coolant over facility water",
    reference=_LIQUID, boundary="scenario", nature="difference",
)  # fmt: skip
room_temperature = scope.variable(
    "room.temperature", "T_room", "K", "room air temperature where liquid cools the GPUs", display="degC",
    bounds=POSITIVE, reference=_AIR, boundary="scenario",
)  # fmt: skip
air_temperature = scope.variable(
    "air.temperature", "T_air", "K", "inlet air temperature of the machines", display="degC",
    equals=where(cluster.liquid_share > 0, room_temperature, gpu.coolant_temperature),
    bounds=POSITIVE, reference=_AIR,
)  # fmt: skip
air_rise = scope.variable(
    "air.rise", "dT_air", "K", "temperature rise of the air in the machines", bounds=POSITIVE,
    reference=_AIR, boundary="scenario", nature="difference",
)  # fmt: skip
air_approach = scope.variable(
    "air.approach", "dT_coil", "K", "approach temperature of air over facility water, at the coil",
    reference=_PLANT, boundary="scenario", nature="difference",
)  # fmt: skip
chilled_rise = scope.variable(
    "chilled.rise", "dT_ch", "K", "temperature rise of facility water in the coils", bounds=POSITIVE,
    reference=_PLANT, boundary="scenario", nature="difference",
)  # fmt: skip
scope.inequality(
    "air.recommended",
    (air_temperature >= number("291.15 K")) & (air_temperature <= number("300.15 K")),
    "inlet air is between 18 and 27 degrees Celsius", reference=_AIR,
)  # fmt: skip
chiller_efficiency = scope.variable(
    "chiller.carnot_share", "eta_C", "1", "coefficient of performance of chillers over Carnot's",
    bounds=("positive", 1), reference=_CARNOT, boundary="primitive",
)  # fmt: skip
chiller_approach = scope.variable(
    "chiller.approach", "dT_hx", "K", "approach temperature of refrigerant over water, each side",
    reference=_PLANT, boundary="primitive", nature="difference",
)  # fmt: skip
least_lift = scope.variable(
    "chiller.least_lift", "dT_min", "K", "smallest lift that the chillers' compressors run at",
    bounds=POSITIVE, reference=_PLANT, boundary="primitive", nature="difference",
)  # fmt: skip


def _chilled(loop: str, mark: str, heat: Variable, water: Variable, rise: Variable) -> Variable:
    """Declare the chiller power of one loop after free cooling."""

    def free_at(sink: Expression) -> Expression:
        return minimum(1, maximum(0, (water + rise - sink) / rise))

    def work_at(sink: Expression) -> Expression:
        lift = maximum(least_lift, sink + sink_rise - water + 2 * chiller_approach)
        cop = chiller_efficiency * (water - chiller_approach) / lift
        return (1 - free_at(sink)) / cop

    scope.variable(
        f"{loop}.free_share", f"s_{mark}", "1",
        f"free-cooling share of the {loop} loop's heat, mean over the year",
        equals=over_the_year(lambda hour: free_at(hour.sink)), bounds=(0, 1),
        reference=_ECONOMISER, library=True,
    )  # fmt: skip
    work = scope.variable(
        f"{loop}.chiller_share", f"w_{mark}", "1",
        f"work of the {loop} loop's chiller over its heat, mean over the year",
        equals=over_the_year(lambda hour: work_at(hour.sink)), reference=_CARNOT,
    )  # fmt: skip
    return scope.variable(
        f"{loop}.chiller_power", f"P_{mark}", "W", f"power of the {loop} loop's chiller",
        equals=heat * work, reference=_PLANT,
    )  # fmt: skip


coolant_water = scope.variable(
    "coolant.water_temperature", "T_fw", "K", "facility water temperature at the heat exchanger",
    display="degC", equals=gpu.coolant_temperature - coolant_approach, reference=_LIQUID,
)  # fmt: skip
air_water = scope.variable(
    "air.water_temperature", "T_chw", "K", "facility water temperature at the coils", display="degC",
    equals=air_temperature - air_approach, reference=_PLANT,
)  # fmt: skip
coolant_chiller_power = _chilled("coolant", "liq", liquid_heat, coolant_water, coolant_rise)
air_chiller_power = _chilled("air", "air", air_heat, air_water, chilled_rise)
