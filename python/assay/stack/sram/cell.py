"""The cell of a static memory: six transistors, and the margins that their differences eat.

Two inverters hold each other; two more transistors connect them to the bitlines. A read must not lift the stored zero
to the voltage at which the other inverter flips, so the pull-down is stronger than the access transistor; a write must
pull the stored one below it, so the pull-up is weaker. No two transistors are alike: the threshold varies with the
inverse root of a gate's area, and among the millions of cells of a cache some lie six standard deviations out.
"""

from __future__ import annotations

import math

from assay.model import ANY_SIGN, POSITIVE, Scope, Variable, cited, erf, log, sqrt
from assay.stack import geometry, physics, transistor

scope = Scope("sram", "Static memory: cell, array, repair and yield")

_RABAEY = "Rabaey, Chandrakasan and Nikolic 2003, Digital Integrated Circuits, 2nd edition"
_READ = cited(_RABAEY, "sec. 12.2.3, static random-access memory: read operation, voltage rise by cell ratio")
_WRITE = cited(_RABAEY, "sec. 12.2.3, static random-access memory: write operation, voltage by pull-up ratio")
_TRIP = cited(_RABAEY, "sec. 5.3.1, switching threshold of an inverter")
_PELGROM = cited(
    "Pelgrom, Duinmaijer and Welbers 1989, Matching Properties of MOS Transistors, IEEE Journal of Solid-State "
    "Circuits 24(5)",
    "standard deviation by the inverse root of gate area",
)
_TAIL = cited(
    "Bhavnagarwala, Tang and Meindl 2001, The Impact of Intrinsic Device Fluctuations on CMOS SRAM Cell Stability, "
    "IEEE Journal of Solid-State Circuits 36(4)",
    "cells that fail where the margin is below zero",
)
_LEAST = cited(
    "Meindl and Davis 2000, The Fundamental Limit on Binary Switching Energy for Terascale Integration (TSI), IEEE "
    "Journal of Solid-State Circuits 35(10)",
    "least supply voltage of an inverter with gain",
)
_LAYOUT = cited(
    "Wu et al. 2016, A 7nm CMOS platform technology featuring 4th generation FinFET transistors with a 0.027um2 high "
    "density 6-T SRAM cell, IEDM",
    "high-density cell: two gate pitches by eight fin pitches",
)
_UPSETS = cited(
    "Hazucha and Svensson 2000, Impact of CMOS Technology Scaling on the Atmospheric Neutron Soft Error Rate, IEEE "
    "Transactions on Nuclear Science 47(6)",
    "error rate by sensitive area and critical charge",
)


def _datum(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_READ, boundary="primitive")


supply = scope.declare(
    "supply, V_s [V]: supply voltage of the array; unless given, that of the logic",
    equals=transistor.supply,
    bounds=POSITIVE,
    reference=_READ,
)
threshold = scope.declare(
    "threshold, V_ts [V]: threshold voltage of a cell's transistors of either kind",
    bounds=POSITIVE,
    reference=_READ,
    boundary="primitive",
)
saturation = _datum("saturation, V_sat [V]: drain voltage at which carriers reach their greatest speed")
pull_down = _datum("cell.pull_down, n_pd: fins of a pull-down transistor")
access = _datum("cell.access, n_pg: fins of an access transistor")
pull_up = _datum("cell.pull_up, n_pu: fins of a pull-up transistor")
hole_share = _datum("cell.hole_share, k_p: current of a pull-up fin over that of a pull-down fin")
cell_ratio = scope.declare(
    "cell.ratio, CR: strength of the pull-down over that of the access transistor",
    equals=pull_down / access,
    bounds=POSITIVE,
    reference=_READ,
)
pull_up_ratio = scope.declare(
    "cell.pull_up_ratio, PR: strength of the pull-up over that of the access transistor",
    equals=pull_up * hole_share / access,
    bounds=POSITIVE,
    reference=_WRITE,
)
overdrive = scope.declare(
    "overdrive, V_os [V]: supply voltage above the threshold",
    equals=supply - threshold,
    bounds=POSITIVE,
    reference=_READ,
)
disturbance = scope.declare(
    "read.disturbance, dV_r [V as mV]: voltage to which a read lifts the stored zero",
    equals=(saturation + cell_ratio * overdrive - sqrt(saturation**2 * (1 + cell_ratio) + cell_ratio**2 * overdrive**2))
    / cell_ratio,
    reference=_READ,
    target=True,
)
_strength = sqrt(pull_up * hole_share / pull_down)
trip = scope.declare(
    "trip, V_M [V]: voltage at which an inverter of the cell flips",
    equals=(threshold + _strength * overdrive) / (1 + _strength),
    reference=_TRIP,
    target=True,
)
read_margin = scope.declare(
    "read.margin, M_r [V as mV]: voltage between what a read lifts the zero to and what flips the cell",
    equals=trip - disturbance,
    bounds=ANY_SIGN,
    reference=_READ,
    target=True,
)
written = scope.declare(
    "write.level, V_q [V as mV]: voltage to which a write pulls the stored one, by the pull-up that holds it",
    equals=overdrive - sqrt(overdrive**2 - 2 * pull_up_ratio * (overdrive * saturation - saturation**2 / 2)),
    reference=_WRITE,
    target=True,
)
write_margin = scope.declare(
    "write.margin, M_w [V as mV]: voltage between what flips the cell and what a write pulls the stored one to",
    equals=trip - written,
    bounds=ANY_SIGN,
    reference=_WRITE,
    target=True,
)
least_supply = scope.declare(
    "hold.least_supply, V_min [V as mV]: least supply voltage at which an inverter still has gain",
    equals=2 * transistor.thermal_voltage * log(1 + transistor.ideality),
    reference=_LEAST,
    target=True,
)
scope.inequality("hold.holds", supply > least_supply, "the supply lets a cell hold its bit", reference=_LEAST)
# Differences.
matching = scope.declare(
    "matching, A_vt [V*m as mV*um]: standard deviation of the threshold by the root of gate area",
    reference=_PELGROM,
    boundary="primitive",
)
gate_width = scope.declare(
    "cell.width, W_f [m as nm]: width of a fin's channel: both sides and the top", bounds=POSITIVE,
    reference=_PELGROM, boundary="primitive",
)  # fmt: skip
spread = scope.declare(
    "threshold.spread, s_vt [V as mV]: standard deviation of the threshold of a transistor of one fin",
    equals=matching / sqrt(gate_width * transistor.length),
    bounds=POSITIVE,
    reference=_PELGROM,
    target=True,
)
margin_spread = scope.declare(
    "margin.spread, s_M [V as mV]: standard deviation of a margin: those of access, pull-down and trip add up",
    equals=spread * sqrt(1 / access + 1 / pull_down + 1 / pull_up) / 2,
    bounds=POSITIVE,
    reference=_TAIL,
)
margin = scope.declare("margin, M_c [V as mV]: read margin of one cell", bounds=ANY_SIGN, reference=_TAIL, target=True)
scope.stochastic(
    margin, "normal", read_margin, margin_spread, name="margin.distribution", meaning="drawn anew for each cell",
    reference=_TAIL,
)  # fmt: skip
read_failure = scope.declare(
    "read.failure, p_r: probability that a cell flips when it is read",
    equals=(1 - erf(read_margin / margin_spread / math.sqrt(2))) / 2,
    bounds=(0, 1),
    reference=_TAIL,
    target=True,
)
write_failure = scope.declare(
    "write.failure, p_w: probability that a cell cannot be written",
    equals=(1 - erf(write_margin / margin_spread / math.sqrt(2))) / 2,
    bounds=(0, 1),
    reference=_TAIL,
    target=True,
)
failure = scope.declare(
    "cell.failure, p_c: probability that a cell fails either way",
    equals=read_failure + write_failure,
    reference=_TAIL,
    target=True,
)
# Area, leakage and charge.
area = scope.declare(
    "cell.area, a_c [m^2 as um^2]: area of the densest cell: two gate pitches by eight fin pitches",
    equals=16 * geometry.gate_pitch * geometry.fin_pitch,
    bounds=POSITIVE,
    reference=_LAYOUT,
    target=True,
)
leakage = scope.declare(
    "cell.leakage, P_c [W as pW]: leakage of a cell: one access, one pull-down and one pull-up transistor are off",
    equals=supply
    * transistor.leakage_current
    * (access + pull_down + pull_up * hole_share)
    * gate_width
    / transistor.width,
    reference=cited(_RABAEY, "sec. 12.5, power dissipation in memories: data retention"),
    target=True,
)
node_capacitance = scope.declare(
    "cell.node_capacitance, C_n [F as fF]: capacitance of a cell's inner node", bounds=POSITIVE, reference=_UPSETS,
    boundary="primitive",
)  # fmt: skip
critical_charge = scope.declare(
    "upset.critical_charge, Q_c [C as fC]: charge that flips a cell",
    equals=node_capacitance * supply,
    reference=_UPSETS,
    target=True,
)
critical_electrons = scope.declare(
    "upset.electrons, n_e: electrons of that charge",
    equals=critical_charge / physics.elementary_charge,
    reference=_UPSETS,
    target=True,
)
collection = scope.declare(
    "upset.collection, Q_s [C as fC]: charge that a strike leaves, on average", bounds=POSITIVE, reference=_UPSETS,
    boundary="primitive",
)  # fmt: skip
