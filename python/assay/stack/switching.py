"""Switching: from the current of a transistor to the delay of a gate, and what a cycle's energy is made of.

A gate's delay is its resistance by the capacitance that it drives; that of an inverter that drives four of its kind is
the unit of timing. Energy goes to the capacitance that is charged, to current while both transistors conduct, to
leakage and to the clock. Noise and the time of carriers in the channel bound how small and how fast it may be.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Scope, Symbol, Variable, by_definition, cited, number
from assay.stack import geometry, metal, timing, transistor, wires, works
from assay.stack.gpu import power as gpu_power, rates as gpu_rates, reference as gpu_reference
from assay.stack.manufacturing import packages, wafers

scope = Scope("switching", "Delay, energy and noise of gates")

_RC = cited(works.CMOS_VLSI, "sec. 4.3, RC delay model")
_FANOUT = cited(works.CMOS_VLSI, "sec. 4.4, linear delay model: FO4 inverter")
_POWER = cited(works.CMOS_VLSI, "sec. 5.2, dynamic power: activity, capacitance and frequency")
_SHORT = cited(
    "Veendrick 1984, Short-Circuit Dissipation of Static CMOS Circuitry and Its Impact on the Design of Buffer "
    "Circuits, IEEE Journal of Solid-State Circuits 19(4)",
    "mean current while both transistors conduct",
)
_CLOCK = cited(works.CMOS_VLSI, "sec. 13.4, clocks: power of clock distribution")
_LANDAUER = cited(
    "Landauer 1961, Irreversibility and heat generation in the computing process, IBM Journal of Research and "
    "Development 5(3)",
    "heat of erasing a bit",
)
_FLICKER = cited("Razavi 2017, Design of Analog CMOS Integrated Circuits, 2nd edition", "sec. 7.2.2, flicker noise")
_CARRIERS = cited("Sze and Ng 2007, Physics of Semiconductor Devices, 3rd edition", "ch. 1, continuity equation")
_TRANSIT = cited("Sze and Ng 2007, Physics of Semiconductor Devices, 3rd edition", "ch. 6, transit time of the channel")


def _datum(heading: str, bounds: tuple[float | str | None, float | str | None] = POSITIVE) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=_RC, boundary="primitive")


# Delay.
resistance = scope.declare(
    "gate.resistance, R_on [ohm]: resistance of a gate that switches: half the supply at half the current, and from "
    "full supply, on average",
    equals=0.75 * transistor.supply / transistor.drain_current,
    bounds=POSITIVE,
    reference=_RC,
)
overlap = scope.declare(
    "gate.overlap, k_ov: capacitance of overlaps and contacts over that of the channel; unless given, 1",
    equals=1,
    reference=_RC,
)
input_capacitance = scope.declare(
    "gate.input, C_in [F as fF]: input capacitance of an inverter, both of its transistors",
    equals=2 * transistor.gate_capacitance * (1 + overlap),
    reference=_RC,
)
fan_out = scope.declare(
    "gate.fan_out, h_g: inputs that a gate drives; unless given, 3", equals=3, bounds=POSITIVE, reference=_RC
)
load = scope.declare(
    "gate.load, C_L [F as fF]: capacitance that a gate drives: inputs and a mean wire",
    equals=fan_out * input_capacitance + metal.mean_capacitance,
    bounds=POSITIVE,
    reference=_RC,
    target=True,
)
time_constant = scope.declare(
    "gate.time_constant, tau_g [s as ps]: resistance by capacitance of a gate and its load",
    equals=resistance * load,
    reference=_RC,
)
gate_delay = scope.declare(
    "gate.delay, t_p [s as ps]: time in which a gate's output reaches half",
    equals=math.log(2) * time_constant,
    reference=_RC,
    target=True,
)
parasitic = scope.declare(
    "gate.parasitic, p_g: output capacitance of an inverter over that of its input; unless given, 1", equals=1,
    reference=_FANOUT,
)  # fmt: skip
fanout_delay = scope.declare(
    "gate.fanout_delay, t_4 [s as ps]: delay of an inverter that drives four of its kind",
    equals=math.log(2) * resistance * input_capacitance * (4 + parasitic),
    bounds=POSITIVE,
    reference=_FANOUT,
    target=True,
)
scope.equation(
    timing.fanout_delay, fanout_delay, name="fanout_delay", meaning="of these transistors", reference=_FANOUT
)
wire_delay = scope.declare(
    "gate.wire_delay, t_wire [s as ps]: delay that the resistance of a mean wire adds to a gate",
    equals=wires.resistance * metal.mean_length * (metal.mean_capacitance / 2 + fan_out * input_capacitance),
    reference=cited(works.CMOS_VLSI, "sec. 4.3.5 and 6.3, Elmore delay of gate and wire"),
)
elmore = scope.declare(
    "gate.elmore, t_e [s as ps]: delay of a gate through a mean wire, resistance of the wire included",
    equals=resistance * load + wire_delay,
    reference=cited(works.CMOS_VLSI, "sec. 4.3.5 and 6.3, Elmore delay of gate and wire"),
    target=True,
)
scope.approximation(
    timing.gate_delay,
    elmore / gpu_power.process_speed,
    name="delay_through_wires",
    valid=elmore > number("0 s"),
    meaning="a gate that drives its inputs through a mean wire",
    reference=cited(works.CMOS_VLSI, "sec. 4.3.5 and 6.3, Elmore delay of gate and wire"),
)
# Energy.
activity = _datum("activity, a_g [1 as %]: share of cycles in which a gate switches in dense GEMMs", (0, 1))
gate_energy = scope.declare(
    "gate.energy, E_g [J as fJ]: energy drawn to charge a gate's load",
    equals=load * transistor.supply**2,
    reference=_POWER,
    target=True,
)
gates = scope.declare(
    "gates, N_sw: gates of a die, of four transistors each", equals=wafers.transistors / 4, reference=_POWER
)
dynamic = scope.declare(
    "power.dynamic, P_d [W]: power that charges the gates of a die in dense GEMMs, at the boost clock",
    equals=activity * gates * gate_energy * gpu_rates.clock,
    reference=_POWER,
    target=True,
)
conducting = _datum("short.time, t_sc [s as ps]: time for which both transistors of a gate conduct in a switch")
peak_current = scope.declare(
    "short.current, I_sc [A as uA]: greatest current meanwhile; unless given, a tenth of the drain current",
    equals=transistor.drain_current / 10,
    reference=_SHORT,
)
short = scope.declare(
    "power.short, P_sc [W]: power of current through both transistors",
    equals=activity * gates * peak_current / 2 * transistor.supply * conducting * gpu_rates.clock,
    reference=_SHORT,
    target=True,
)
stacking = scope.declare(
    "leakage.stacking, k_st: leakage of a gate over that of its transistors off one by one; unless given, 0.5",
    equals=0.5,
    reference=cited(works.CMOS_VLSI, "sec. 5.3, static power: stack effect"),
)
static = scope.declare(
    "power.static, P_s [W]: leakage of a die's gates: half of their transistors are off",
    equals=gates * 2 * stacking * transistor.leakage_current * transistor.supply,
    reference=cited(works.CMOS_VLSI, "sec. 5.3, static power"),
    target=True,
)
registers = _datum("clock.registers, n_ff: flip-flops of a die")
register_transistors = _datum("clock.register_transistors, T_r: transistors of a die by flip-flop")
scope.equation(
    registers,
    wafers.transistors / register_transistors,
    name="clock.registers_of_die",
    meaning="a larger die has more of them",
    reference=_CLOCK,
)
clock_capacitance = _datum(
    "clock.capacitance, C_ck [F as fF]: capacitance of the clock by flip-flop, its tree included"
)
clock_power = scope.declare(
    "power.clock, P_ck [W]: power of the clock, which switches in every cycle",
    equals=registers * clock_capacitance * transistor.supply**2 * gpu_rates.clock,
    reference=_CLOCK,
    target=True,
)
whole = scope.declare(
    "power, P_sw [W]: power of a die's gates and clock in dense GEMMs, at the boost clock",
    equals=dynamic + short + static + clock_power,
    bounds=POSITIVE,
    reference=_POWER,
    target=True,
)
clock_share = scope.declare(
    "power.clock_share, s_ck [1 as %]: share of that power which the clock takes",
    equals=clock_power / whole,
    bounds=(0, 1),
    reference=by_definition("clock over all"),
    target=True,
)
scope.approximation(
    gpu_power.cycle_energy,
    packages.dies * (dynamic + short + clock_power) / gpu_rates.clock,
    name="cycle_energy",
    valid=activity > 0,
    meaning="gates that switch, and the clock",
    reference=_POWER,
)
# Current while both transistors conduct is that of the board of the benchmarks: a per cent of the whole.
scope.approximation(
    gpu_power.cycle_capacitance,
    packages.dies
    * (
        activity
        * gates
        * (load + transistor.on_current * transistor.width * conducting / (20 * gpu_reference.reference_supply))
        + registers * clock_capacitance
    ),
    name="cycle_capacitance",
    valid=activity > 0,
    meaning="gates that switch, and the clock",
    reference=_POWER,
)
scope.approximation(
    gpu_power.leakage_reference,
    packages.dies * static,
    name="leakage_of_gates",
    valid=transistor.temperature > number("250 K"),
    meaning="gates that do not switch, at this temperature",
    reference=cited(works.CMOS_VLSI, "sec. 5.3, static power"),
)
erased = scope.declare(
    "power.erased, P_L [W]: least power of as many erased bits",
    equals=activity * gates * timing.erasure * gpu_rates.clock,
    reference=_LANDAUER,
    target=True,
)
scope.inequality("power.above_erased", whole >= erased, "a die draws more than erasing takes", reference=_LANDAUER)
# Noise and carriers.
flicker_constant = _datum("flicker.constant, K_f [V^2*F]: flicker noise of a transistor by its gate")
frequency = _datum("flicker.frequency, f_n [Hz]: frequency at which noise is asked for")
flicker = scope.declare(
    "flicker.density, S_v [V^2/Hz]: flicker noise of a gate's voltage by frequency",
    equals=flicker_constant / (transistor.gate_capacitance * frequency),
    reference=_FLICKER,
    target=True,
)
transit = scope.declare(
    "carriers.transit, t_t [s as ps]: time of a carrier through the channel at the supply voltage",
    equals=transistor.length**2 / (transistor.mobility * transistor.supply),
    reference=_TRANSIT,
    target=True,
)
generation = _datum("carriers.generation, G_c [1/(m^3*s)]: carriers that light or heat sets free, by volume and time")
lifetime = _datum("carriers.lifetime, t_rec [s as ns]: time in which excess carriers recombine")
elapsed = scope.declare("carriers.elapsed, t_el [s as ns]: time since", reference=_CARRIERS, boundary="scenario")
excess = scope.declare("carriers.excess, n_x [1/m^3]: excess carriers by volume", reference=_CARRIERS, target=True)
scope.differential(
    excess,
    generation - excess / lifetime,
    time=Symbol("t"),
    time_like=elapsed,
    initial=0 * generation * lifetime,
    start=number("0 s"),
    end=elapsed,
    name="carriers.continuity",
    meaning="what is set free and does not recombine adds up",
    reference=_CARRIERS,
)
collected = scope.declare(
    "carriers.charge, Q_x [C as fC]: charge of the excess carriers of a channel, of fins as high as their pitch",
    equals=excess * transistor.width * transistor.length * geometry.fin_pitch * number("1.602176634e-19 C"),
    reference=_CARRIERS,
    target=True,
)
