"""The channel: from the gate stack to voltages, the threshold and currents.

A gate over a thin oxide attracts charge into a channel. Above the threshold voltage the channel conducts, first
like a resistor (triode), then at a current that the drain no longer raises (saturation); below it carriers still
cross the barrier by their heat, which is the leakage of a transistor that is off.
"""

from __future__ import annotations

import math

from assay.model import ANY_SIGN, POSITIVE, Expression, Scope, cited, exp, number, sqrt
from assay.stack import physics, works
from assay.stack.gpu import power as gpu_power

scope = Scope("transistor", "A transistor and its process node")

_SUBTHRESHOLD = cited(works.CMOS_VLSI, "sec. 2.4.4, leakage")
_BODY = cited(works.CMOS_VLSI, "sec. 2.4.3, threshold voltage effects")
_LONG_CHANNEL = cited(works.CMOS_VLSI, "sec. 2.2, long-channel I-V characteristics")
_CAPACITANCE = cited(works.CMOS_VLSI, "sec. 2.3.1, simple MOS capacitance models")
_TEMPERATURE = cited(works.CMOS_VLSI, "sec. 2.4.5, temperature dependence")
_TUNNELING = cited(works.CMOS_VLSI, "sec. 2.4.4.2, gate leakage")
_BREAKDOWN = cited(
    "Sze and Ng 2007, Physics of Semiconductor Devices, 3rd edition",
    "ch. 4, breakdown field of thermal silicon dioxide",
)
_STACK = cited(works.CMOS_VLSI, "sec. 5.3, static power: stack effect")

# The gate stack.
permittivity = scope.declare(
    "oxide.permittivity, eps_r: relative permittivity of the gate dielectric; 3.9 is silicon dioxide",
    bounds=POSITIVE,
    reference=_CAPACITANCE,
    boundary="primitive",
)
thickness = scope.declare(
    "oxide.thickness, t_ox [m as nm]: electrical thickness of the gate dielectric, as one of that permittivity",
    bounds=POSITIVE,
    reference=_CAPACITANCE,
    boundary="primitive",
)
oxide_capacitance = scope.declare(
    "oxide.capacitance, C_ox [F/m^2]: gate capacitance by area",
    equals=permittivity * physics.vacuum_permittivity / thickness,
    reference=_CAPACITANCE,
)
equivalent_thickness = scope.declare(
    "oxide.equivalent_thickness, EOT [m as nm]: thickness of silicon dioxide with the same capacitance",
    equals=thickness * 3.9 / permittivity,
    reference=_CAPACITANCE,
    target=True,
)
width = scope.declare(
    "width, W [m as nm]: width of the channel, along the fins or sheets of a gate", bounds=POSITIVE,
    reference=_CAPACITANCE, boundary="primitive",
)  # fmt: skip
length = scope.declare(
    "length, L [m as nm]: length of the channel", bounds=POSITIVE, reference=_CAPACITANCE, boundary="primitive"
)
gate_capacitance = scope.declare(
    "gate_capacitance, C_g [F]: capacitance of a gate",
    equals=oxide_capacitance * width * length,
    reference=_CAPACITANCE,
)
# Voltages.
supply = scope.declare(
    "supply, V_dd [V]: supply voltage", bounds=POSITIVE, reference=_LONG_CHANNEL, boundary="primitive"
)
oxide_field = scope.declare(
    "oxide.field, E_ox [V/m]: electric field across the gate dielectric at the supply voltage",
    equals=supply / thickness,
    reference=_CAPACITANCE,
    target=True,
)
oxide_strength = scope.declare(
    "oxide.strength, E_bd [V/m]: field at which the gate dielectric breaks down; unless given, 1 GV/m, of silicon "
    "dioxide",
    equals=number("1e9 V/m"),
    bounds=POSITIVE,
    reference=_BREAKDOWN,
)
scope.inequality(
    "oxide.holds",
    oxide_field <= oxide_strength,
    "the supply voltage does not break the gate dielectric down",
    reference=_BREAKDOWN,
)
gate_voltage = scope.declare(
    "gate_voltage, V_gs [V]: voltage from gate to source; unless given, the supply voltage",
    equals=supply,
    bounds=ANY_SIGN,
    reference=_LONG_CHANNEL,
)
drain_voltage = scope.declare(
    "drain_voltage, V_ds [V]: voltage from drain to source; unless given, the supply voltage",
    equals=supply,
    reference=_LONG_CHANNEL,
)
temperature = scope.declare(
    "temperature, T [K]: temperature of the channel; unless given, that of a die at its power limit, where timing has "
    "to hold",
    bounds=POSITIVE,
    equals=gpu_power.hottest,
    reference=_TEMPERATURE,
)
thermal_voltage = scope.declare(
    "thermal_voltage, v_T [V]: thermal voltage",
    equals=physics.boltzmann * temperature / physics.elementary_charge,
    bounds=POSITIVE,
    reference=_SUBTHRESHOLD,
)
ideality = scope.declare(
    "ideality, n: change of gate voltage over that of the channel's barrier; 1 with perfect control",
    bounds=(1, None),
    reference=_SUBTHRESHOLD,
    boundary="primitive",
)
swing_floor = scope.declare(
    "swing_floor, SS_0 [V as mV]: least change of gate voltage that changes the current tenfold: heat alone",
    equals=math.log(10) * thermal_voltage,
    reference=_SUBTHRESHOLD,
)
swing = scope.declare(
    "swing, SS [V as mV]: subthreshold swing: change of gate voltage that changes the current tenfold",
    equals=ideality * swing_floor,
    reference=_SUBTHRESHOLD,
    target=True,
)
# The threshold, and what moves it.
threshold_reference = scope.declare(
    "threshold_reference, V_t0 [V]: threshold voltage at 300 K, no body bias and no drain voltage",
    reference=_BODY,
    boundary="primitive",
)
threshold_drift = scope.declare(
    "threshold_drift, k_vt [V/K as mV/K]: fall of the threshold voltage by temperature",
    reference=_TEMPERATURE,
    boundary="primitive",
)
body_effect = scope.declare(
    "body_effect, gamma [V^0.5]: body-effect coefficient; unless given, 0, as of fins and sheets",
    equals=number("0 V^0.5"),
    reference=_BODY,
)
surface_potential = scope.declare(
    "surface_potential, phi_s [V]: surface potential at threshold; unless given, 0.88 V",
    equals=number("0.88 V"),
    bounds=POSITIVE,
    reference=_BODY,
)
body_bias = scope.declare(
    "body_bias, V_sb [V]: voltage from source to body; unless given, 0 V", equals=number("0 V"), reference=_BODY
)
drain_lowering = scope.declare(
    "drain_lowering, eta: drain-induced barrier lowering: fall of the threshold by drain voltage",
    bounds=(0, 1),
    reference=_BODY,
    boundary="primitive",
)


def threshold_at(warmth: Expression, drain: Expression) -> Expression:
    """Threshold voltage at a temperature and drain voltage."""
    return (
        threshold_reference
        - threshold_drift * (warmth - number("300 K"))
        + body_effect * (sqrt(surface_potential + body_bias) - sqrt(surface_potential))
        - drain_lowering * drain
    )


threshold = scope.declare(
    "threshold, V_t [V]: threshold voltage at this temperature, body bias and drain voltage",
    equals=threshold_at(temperature, drain_voltage),
    bounds=ANY_SIGN,
    reference=_BODY,
)
# Currents.
mobility = scope.declare(
    "mobility, mu [m^2/(V*s)]: mobility of the channel's carriers", reference=_LONG_CHANNEL, boundary="primitive"
)
channel_modulation = scope.declare(
    "channel_modulation, lambda [1/V]: channel-length modulation: relative rise of the saturation current by drain "
    "voltage; unless given, none",
    equals=number("0 1/V"),
    reference=cited(works.CMOS_VLSI, "sec. 2.4.2, channel length modulation"),
)
gain = scope.declare(
    "gain, beta [A/V^2]: transconductance parameter",
    equals=mobility * oxide_capacitance * width / length,
    reference=_LONG_CHANNEL,
)
overdrive = scope.declare(
    "overdrive, V_ov [V]: gate voltage above the threshold",
    equals=gate_voltage - threshold,
    bounds=ANY_SIGN,
    reference=_LONG_CHANNEL,
)
off_scale = scope.declare(
    "off_scale, I_0 [A]: subthreshold current at the threshold",
    # exp(1.8) is empirical, as the source says.
    equals=mobility * oxide_capacitance * width / length * thermal_voltage**2 * math.exp(1.8),
    reference=_SUBTHRESHOLD,
)


def _subthreshold(above: Expression) -> Expression:
    """Current at a gate voltage above (here: below) the threshold."""
    return off_scale * exp(above / (ideality * thermal_voltage)) * (1 - exp(-drain_voltage / thermal_voltage))


drain_current = scope.declare(
    "drain_current, I_d [A]: current from drain to source", reference=_LONG_CHANNEL, target=True
)
scope.piecewise(
    drain_current,
    [
        (overdrive <= 0, _subthreshold(overdrive)),
        (drain_voltage < overdrive, gain * (overdrive - drain_voltage / 2) * drain_voltage),
    ],
    otherwise=gain / 2 * overdrive**2 * (1 + channel_modulation * drain_voltage),
    name="drain_current.regions",
    meaning="subthreshold, triode and saturation region",
    reference=_LONG_CHANNEL,
)
off_current = scope.declare(
    "off_current, I_off [A]: subthreshold leakage: drain current at no gate voltage",
    equals=_subthreshold(-threshold),
    reference=_SUBTHRESHOLD,
    target=True,
)
tunneling_scale = scope.declare(
    "tunneling_scale, J_0 [A/m^2]: gate leakage by area, without a dielectric", reference=_TUNNELING,
    boundary="needs-source",
)  # fmt: skip
tunneling_decay = scope.declare(
    "tunneling_decay, b_t [1/m]: decay of gate leakage with the thickness of the dielectric",
    reference=_TUNNELING,
    boundary="needs-source",
)
gate_current = scope.declare(
    "gate_current, I_g [A]: tunneling through the gate dielectric",
    equals=tunneling_scale * exp(-tunneling_decay * thickness) * width * length,
    reference=_TUNNELING,
)
leakage_current = scope.declare(
    "leakage_current, I_leak [A]: current of a transistor that is off",
    equals=off_current + gate_current,
    reference=_STACK,
    target=True,
)
leakage_efold = scope.declare(
    "leakage_efold, T_e [K]: temperature rise that multiplies subthreshold leakage by e",
    # Of I = const T^2 exp(-V_t(T) / n v_T), the logarithmic derivative by temperature.
    equals=1
    / (2 / temperature + (threshold + threshold_drift * temperature) / (ideality * thermal_voltage * temperature)),
    nature="difference",
    bounds=POSITIVE,
    reference=_SUBTHRESHOLD,
    target=True,
)
