"""Losses of the UPS, and the heat of machines and supplies by cooling path."""

from __future__ import annotations

from assay.model import Scope, cited
from assay.stack import works
from assay.stack.cluster import nodes, power as cluster_power

scope = Scope("thermal", "Cooling, losses, and power usage effectiveness")

_BALANCE = cited(works.HEAT_AND_MASS_TRANSFER, "ch. 1, energy balance of steady-flow systems")
_LIQUID = cited(works.ASHRAE_LIQUID_COOLING, "facility water and technology cooling loops")
_UPS = cited(
    "Avelar, Making Large UPS Systems More Efficient, Schneider Electric white paper 108",
    "no-load, proportional and square-law losses",
)


# UPS losses: a no-load term by capacity, linear and quadratic terms by load.
ups_redundancy = scope.declare(
    "ups.redundancy, r_UPS: capacity of the UPS over its design load",
    bounds=(1, None),
    reference=_UPS,
    boundary="scenario",
)
ups_capacity = scope.declare(
    "ups.capacity, S_UPS [W]: capacity of the UPS", equals=ups_redundancy * cluster_power.design_power, reference=_UPS
)
ups_load = scope.declare(
    "ups.load, x_UPS: load of the UPS over its capacity", equals=cluster_power.it_power / ups_capacity, reference=_UPS
)
ups_idle_share = scope.declare(
    "ups.idle_share, a_0 [1 as %]: no-load loss of the UPS over its capacity", reference=_UPS, boundary="primitive"
)
ups_linear_share = scope.declare(
    "ups.linear_share, a_1 [1 as %]: linear loss coefficient of the UPS", reference=_UPS, boundary="primitive"
)
ups_square_share = scope.declare(
    "ups.square_share, a_2 [1 as %]: quadratic loss coefficient of the UPS", reference=_UPS, boundary="primitive"
)
ups_loss = scope.declare(
    "dc.ups_loss, P_UPS [W]: power lost in the UPS",
    equals=ups_capacity * (ups_idle_share + ups_linear_share * ups_load + ups_square_share * ups_load**2),
    reference=_UPS,
)

# Heat is removed by liquid at the chips or by the air of the room.
liquid_heat = scope.declare(
    "heat.liquid, Q_liq [W]: heat of machines removed by liquid",
    equals=cluster_power.it_power * nodes.liquid_share,
    reference=_LIQUID,
)
air_heat = scope.declare(
    "heat.air, Q_air [W]: heat of machines and UPS removed by air",
    equals=cluster_power.it_power * (1 - nodes.liquid_share) + ups_loss,
    reference=_BALANCE,
)
