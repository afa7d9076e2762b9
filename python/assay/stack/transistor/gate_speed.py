"""Speed and energy: how fast gates switch at a voltage, and what a process node changes.

A gate switches by charging the next one: in a time of capacitance by voltage over current, at an energy of
capacitance by voltage squared. How a process node differs from that of the benchmarked board enters here, and
reaches the energy of a GPU's cycle, the slope of its voltage and the temperature dependence of its leakage.
"""

from __future__ import annotations

from assay.model import POSITIVE, Expression, by_definition, cited, exp, maximum, minimum, number
from assay.stack import physics, works
from assay.stack.gpu import power as gpu_power, reference as gpu_reference
from assay.stack.transistor.channel import (
    drain_current,
    gate_capacitance,
    ideality,
    leakage_efold,
    scope,
    supply,
    temperature,
    thermal_voltage,
    threshold,
    threshold_at,
    width,
)

_SUBTHRESHOLD = cited(works.CMOS_VLSI, "sec. 2.4.4, leakage")
_TEMPERATURE = cited(works.CMOS_VLSI, "sec. 2.4.5, temperature dependence")
_ALPHA = cited(
    "Sakurai and Newton 1990, Alpha-power law MOSFET model and its applications to CMOS inverter delay and other "
    "formulas, IEEE Journal of Solid-State Circuits 25(2)",
    "saturation current and gate delay",
)
_ENERGY = cited(works.CMOS_VLSI, "sec. 5.2, dynamic power")
_DROOP = cited(works.CMOS_VLSI, "sec. 7.2 and 13.3, variation and noise of the supply")

alpha = scope.declare(
    "alpha, a: velocity-saturation index: exponent of overdrive in the saturation current; 2 for long channels, 1 "
    "where velocity saturates",
    bounds=(1, 2),
    reference=_ALPHA,
    boundary="primitive",
)
threshold_share = scope.declare(
    "threshold_share, tau: threshold voltage over the supply voltage at the boost clock",
    bounds=(0, 0.999),
    reference=_ALPHA,
    boundary="primitive",
)
voltage_ratio = scope.declare(
    "voltage_ratio, v_s: supply voltage over that at which the board was benchmarked; unless given, 1",
    equals=1,
    bounds=POSITIVE,
    reference=by_definition("the same supply voltage"),
)
scope.approximation(
    voltage_ratio,
    supply / gpu_reference.reference_supply,
    name="ratio_of_supplies",
    valid=supply > number("0 V"),
    meaning="the stated supply voltages",
    reference=by_definition("ratio of voltages"),
)
speed = scope.declare(
    "speed, f_v: speed of gates over that of the benchmarked board: current over charge", reference=_ALPHA, target=True
)
scope.equation(
    speed,
    ((voltage_ratio - threshold_share) / (1 - threshold_share)) ** alpha / voltage_ratio,
    name="speed_by_voltage",
    meaning="alpha-power law at another supply voltage",
    reference=_ALPHA,
)
mobility_exponent = scope.declare(
    "mobility_exponent, k_mu: exponent by which mobility falls with temperature; unless given, 1.5", equals=1.5,
    reference=_TEMPERATURE,
)  # fmt: skip
guard = scope.declare(
    "guard, V_gb [V as mV]: part of the supply voltage that timing cannot count on, beyond that of the benchmarked "
    "board: droop and aging; unless given, none",
    equals=number("0 V"),
    reference=_DROOP,
)


def speed_at(volts: Expression, cutoff: Expression, warmth: Expression, ratio: Expression) -> Expression:
    """Alpha-power law at a supply voltage, threshold, temperature and ratio of supply voltages.

    Below the threshold the law has no current; what heat carries is not modeled, so the clock is a bound there.
    """
    drive = maximum(volts - cutoff, physics.boltzmann * warmth / physics.elementary_charge)
    return (
        (drive / (gpu_reference.reference_supply * (1 - threshold_share))) ** alpha
        / ratio
        * (gpu_power.reference_temperature / warmth) ** mobility_exponent
    )


scope.approximation(
    speed,
    speed_at(supply - guard, threshold, temperature, voltage_ratio - guard / gpu_reference.reference_supply),
    name="speed_by_threshold",
    valid=temperature > number("250 K"),
    meaning="alpha-power law at another voltage, threshold and temperature",
    reference=_ALPHA,
)
scope.inequality(
    "conducts",
    supply - guard >= threshold + thermal_voltage,
    "the supply voltage lies above the threshold by more than carriers have from heat",
    reference=_ALPHA,
)
on_current = scope.declare(
    "on_current, I_on [A/m as uA/um]: drain current by width of a transistor that is on, on the benchmarked board",
    bounds=POSITIVE,
    reference=_ALPHA,
    boundary="primitive",
)
scope.approximation(
    drain_current,
    on_current * width * speed * voltage_ratio,
    name="drain_current.alpha_power",
    valid=voltage_ratio > 0,
    meaning="alpha-power law: speed by the charge of a gate",
    reference=_ALPHA,
)
scope.inequality(
    "above_threshold", voltage_ratio > threshold_share, "the supply voltage lies above the threshold", reference=_ALPHA
)


def slope_at(ratio: Expression) -> Expression:
    """Slope of voltage by clock at a ratio of supply voltages: that of the benchmarks, as the alpha-power law bends."""
    law = alpha / (1 - threshold_share) - 1
    bent = alpha * ratio / maximum(ratio - threshold_share, 0.01) - 1
    # A voltage that rises faster than the clock would be lowered below what any clock needs.
    return minimum(gpu_reference.reference_voltage_slope * law / bent, 1)


def floor_at(volts: Expression) -> Expression:
    """Least voltage over a supply voltage: cells need the same volts, whatever the supply."""
    return minimum(gpu_reference.reference_voltage_floor * gpu_reference.reference_supply / volts, 1)


voltage_slope = scope.declare(
    "voltage_slope, s_a: relative change of voltage by relative change of clock, by the alpha-power law",
    # Of f = const (v - tau)^alpha / v, the inverse logarithmic derivative by voltage.
    equals=1 / (alpha * voltage_ratio / (voltage_ratio - threshold_share) - 1),
    bounds=(0, 1),
    reference=_ALPHA,
    target=True,
)
node_energy = scope.declare(
    "node.energy, e_n: energy of a switch at the same speed, over that of TSMC's N5",
    bounds=POSITIVE,
    reference=_ENERGY,
    boundary="primitive",
)
benchmarked_energy = scope.declare(
    "node.benchmarked_energy, e_b: energy of a switch in the process of the benchmarked board, at the same speed, over "
    "that of TSMC's N5",
    bounds=POSITIVE,
    reference=_ENERGY,
    boundary="primitive",
)
node_speed = scope.declare(
    "node.speed, f_n: speed of a chip in this process at the same power, over TSMC's N5, wires included, beyond what "
    "the stated pitches give; taken as that at the same voltage",
    bounds=POSITIVE,
    reference=_ALPHA,
    boundary="primitive",
)
benchmarked_speed = scope.declare(
    "node.benchmarked_speed, f_b: that speed of the process of the benchmarked board",
    bounds=POSITIVE,
    reference=_ALPHA,
    boundary="primitive",
)
scope.approximation(
    gpu_power.process_speed,
    node_speed / benchmarked_speed,
    name="speed_of_process",
    valid=node_speed > 0,
    meaning="as much faster as its foundry states",
    reference=_ALPHA,
)
energy_ratio = scope.declare(
    "energy_ratio, e: energy of a switch over that in the process and at the voltage of the benchmarked board",
    equals=node_energy / benchmarked_energy * voltage_ratio**2,
    bounds=POSITIVE,
    reference=_ENERGY,
    target=True,
)
switch_energy = scope.declare(
    "switch_energy, E_sw [J]: energy drawn from the supply to charge a gate",
    equals=gate_capacitance * supply**2,
    reference=_ENERGY,
    target=True,
)

# What a GPU becomes, where these relations are chosen; entries of the catalog's `processes` choose the first.
scope.approximation(
    gpu_power.cycle_energy,
    gpu_reference.reference_cycle_energy * energy_ratio,
    name="cycle_energy",
    valid=energy_ratio > 0,
    meaning="every node of the chip switches as a gate of its process does",
    reference=_ENERGY,
)
scope.approximation(
    gpu_power.cycle_capacitance,
    gpu_reference.reference_cycle_energy * (node_energy / benchmarked_energy) / gpu_reference.reference_supply**2,
    name="cycle_capacitance",
    valid=node_energy > 0,
    meaning="that of the board of the benchmarks, as a gate of its process switches",
    reference=_ENERGY,
)
scope.approximation(
    gpu_power.voltage_slope,
    voltage_slope,
    name="slope_of_chip",
    valid=voltage_ratio > threshold_share,
    meaning="the chip is as fast as its gates",
    reference=_ALPHA,
)
scope.approximation(
    gpu_power.voltage_slope,
    slope_at(voltage_ratio),
    name="slope_at_supply",
    valid=voltage_ratio > threshold_share,
    meaning="the slope of the benchmarked board, bent as gates are at this supply voltage",
    reference=_ALPHA,
)
scope.approximation(
    gpu_power.voltage_floor,
    floor_at(supply),
    name="floor_at_supply",
    valid=supply > number("0 V"),
    meaning="the least voltage of the benchmarked board, in volts",
    reference=_ALPHA,
)
scope.approximation(
    gpu_power.leakage_scale,
    leakage_efold,
    name="leakage_of_chip",
    valid=temperature > number("250 K"),
    meaning="leakage is that of transistors below their threshold",
    reference=_SUBTHRESHOLD,
)


def leakage_at(drain: Expression) -> Expression:
    """Subthreshold leakage over that of the benchmarked board, at its temperature and a drain voltage.

    How leakage grows with heat is fitted on that board (`gpu.leakage_scale`), whatever the threshold.
    """
    warmth = gpu_power.reference_temperature
    lowered = threshold_share * gpu_reference.reference_supply - threshold_at(warmth, drain)
    return exp(lowered * physics.elementary_charge / (ideality * physics.boltzmann * warmth))


leakage_ratio = scope.declare(
    "leakage_ratio, r_L: leakage over that of the threshold of the benchmarked board, at its temperature: tenfold by "
    "each subthreshold swing that the threshold is lower",
    equals=leakage_at(supply),
    bounds=POSITIVE,
    reference=_SUBTHRESHOLD,
    target=True,
)
scope.approximation(
    gpu_power.leakage_reference,
    gpu_reference.reference_leakage * leakage_ratio,
    name="leakage_by_threshold",
    valid=leakage_ratio > 0,
    meaning="that of the board of the benchmarks, as carriers cross the barrier of this threshold",
    reference=_SUBTHRESHOLD,
)
boost_clock = scope.declare(
    "boost_clock, f_b [Hz as GHz]: boost clock of the benchmarked board at this supply voltage",
    equals=gpu_reference.reference_clock * speed,
    reference=_ALPHA,
    target=True,
)
