"""What making a GPU emits: energy, gases and materials of the fabs, by area of silicon.

A fab's emissions follow area and process, not transistors or gigabytes: every square centimeter passes the
same steps. Wafers that are lost, dies that fail and the cut border of a wafer are emitted too, so a good die
carries its share of the whole wafer. Stacked memory is counted by the silicon in it, as each die of a stack
has the area of the stack. Board, heat sink and transport are not counted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from assay.model import POSITIVE, Expression, Variable, cited
from assay.stack import hbm
from assay.stack.manufacturing.packages import ONE_GPU, dies, interposers, package_yield
from assay.stack.manufacturing.wafers import diameter, good_dies, scope

ACT = "Gupta et al. 2022, ACT: Designing Sustainable Computer Systems With An Architectural Carbon Modeling Tool"
_AREA = cited(ACT, "carbon per area (CPA) of a fab")
_TABLE = cited(ACT, "energy, gas and materials per area by node (EPA, GPA, MPA)")
_PACKAGE = cited(ACT, "packaging footprint of a chip")
_WAFER = cited(ACT, "embodied carbon of application processors and memory: area by CPA")

_ABATEMENT_LOW, _ABATEMENT_HIGH = 0.95, 0.99
"""The shares of gases abated for which the table states emissions."""

intensity = scope.declare(
    "footprint.fab_intensity, I_fab [kg/J as kg/kWh]: carbon intensity of the electricity of the logic fab",
    reference=_AREA,
    boundary="scenario",
)
memory_intensity = scope.declare(
    "footprint.memory_intensity, I_mem [kg/J as kg/kWh]: carbon intensity of the electricity of the memory fab",
    reference=_AREA,
    boundary="scenario",
)
abatement = scope.declare(
    "footprint.abatement, a_g [1 as %]: share of the process gases that fabs abate",
    bounds=(_ABATEMENT_LOW, _ABATEMENT_HIGH),
    reference=_TABLE,
    boundary="scenario",
)
_progress = (abatement - _ABATEMENT_LOW) / (_ABATEMENT_HIGH - _ABATEMENT_LOW)


class PerArea(NamedTuple):
    """Electricity, gases, materials and all emissions by area of one kind of wafer."""

    energy: Variable
    gas: Variable
    materials: Variable
    emissions: Variable


def _per_area(process: str, mark: str, what: str, grid: Expression) -> PerArea:
    """Declare what a square centimeter of one kind of wafer emits."""
    energy = scope.declare(
        f"footprint.{process}.energy, EPA_{mark} [J/m^2 as kWh/cm^2]: electricity by area of {what}",
        reference=_TABLE,
        boundary="primitive",
    )
    low = scope.declare(
        f"footprint.{process}.gas_low, GPA_{mark}95 [kg/m^2 as kg/cm^2]: emissions of process gases by area of "
        f"{what}, 95 % abated",
        reference=_TABLE,
        boundary="primitive",
    )
    high = scope.declare(
        f"footprint.{process}.gas_high, GPA_{mark}99 [kg/m^2 as kg/cm^2]: emissions of process gases by area of "
        f"{what}, 99 % abated",
        reference=_TABLE,
        boundary="primitive",
    )
    materials = scope.declare(
        f"footprint.{process}.materials, MPA_{mark} [kg/m^2 as kg/cm^2]: emissions of raw materials by area of {what}",
        reference=_TABLE,
        boundary="primitive",
    )
    gas = scope.declare(
        f"footprint.{process}.gas, GPA_{mark} [kg/m^2 as kg/cm^2]: emissions of process gases by area of {what}",
        equals=low + _progress * (high - low),
        reference=_TABLE,
    )
    emissions = scope.declare(
        f"footprint.{process}.per_area, CPA_{mark} [kg/m^2 as kg/cm^2]: emissions by area of {what}",
        equals=grid * energy + gas + materials,
        reference=_AREA,
    )
    return PerArea(energy, gas, materials, emissions)


logic = _per_area("logic", "l", "logic wafers", intensity)
memory_per_area = _per_area("memory", "m", "memory wafers", memory_intensity).emissions
interposer_per_area = _per_area("interposer", "i", "interposer wafers", intensity).emissions

_wafer_area = math.pi * diameter**2 / 4
wafer = scope.declare(
    "footprint.wafer, m_w [kg]: emissions of a logic wafer",
    equals=logic.emissions * _wafer_area,
    reference=_WAFER,
    target=True,
)
die = scope.declare(
    "footprint.die, m_d [kg]: emissions of a good compute die, with its share of what a wafer loses",
    equals=wafer / good_dies,
    reference=_WAFER,
    target=True,
)
memory_yield = scope.declare(
    "footprint.memory_yield, Y_m [1 as %]: share of memory silicon that becomes part of a sold stack",
    bounds=("positive", 1),
    reference=_AREA,
    boundary="primitive",
)
memory_silicon = scope.declare(
    "footprint.memory_silicon, A_m [m^2/GPU as cm^2/GPU]: silicon of a GPU's memory: the dies of all stacks, and the "
    "base die of each",
    equals=hbm.stacks * (hbm.dies_per_stack + 1) * hbm.stack_area,
    reference=_WAFER,
)
memory = scope.declare(
    "footprint.memory, m_m [kg/GPU]: emissions of the silicon of a GPU's memory",
    equals=memory_silicon * memory_per_area / memory_yield,
    reference=_WAFER,
    target=True,
)
silicon_share = scope.declare(
    "interposer.silicon_share, s_Si [1 as %]: share of an interposer that is silicon: bridges only where the rest is "
    "organic; unless given, all of it",
    equals=1,
    bounds=(0, 1),
    reference=cited("TSMC 3DFabric, CoWoS", "CoWoS-S, CoWoS-R and CoWoS-L"),
)
interposer = scope.declare(
    "footprint.interposer, m_i [kg/GPU]: emissions of an interposer, with its share of the wafer's border",
    equals=silicon_share * interposer_per_area * _wafer_area / interposers / ONE_GPU,
    reference=_WAFER,
)
package = scope.declare(
    "footprint.package, m_p [kg]: emissions of packaging one chip",
    bounds=POSITIVE,
    reference=_PACKAGE,
    boundary="primitive",
)
gpu = scope.declare(
    "footprint.gpu, m_g [kg/GPU]: emissions of a GPU's dies, memory and package",
    equals=(dies * die + memory + interposer + (dies + hbm.stacks) * package) / package_yield,
    reference=_WAFER,
    target=True,
)
