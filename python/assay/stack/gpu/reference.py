"""The board of the benchmarks: the GPU on which kernels were timed, as data.

Kernel constants are fitted to times on a real board, and so hold its clock under load. To say how much
faster or slower another board runs the same kernels (a cooler one, one of another process, one whose
leakage grew), both clocks must be known: that of the benchmarks from what is declared here alone, and
that of the scenario from the scenario's own physics. At the values of the catalog both boards are one,
their ratio is 1, and every prediction is the fitted one.
"""

from __future__ import annotations

from assay.model import POSITIVE, cited
from assay.stack import works
from assay.stack.gpu.rates import scope

SHARE = (0, 1)
DYNAMIC = cited(works.CMOS_VLSI, "ch. 5, dynamic power")
STATIC = cited(works.CMOS_VLSI, "ch. 5, static power")
VOLTAGE = cited(
    "Guerreiro et al. 2018, GPGPU Power Modeling for Multi-domain Voltage-Frequency Scaling, HPCA",
    "sec. III, power by voltage and frequency",
)
THERMAL = cited("Skadron et al. 2003, Temperature-aware microarchitecture, ISCA", "sec. 3, thermal resistances")
_BOOST = cited(works.H100, "Table 3")

reference_clock = scope.declare(
    "reference.clock, f_0 [Hz as GHz]: boost clock of the board of the benchmarks",
    bounds=POSITIVE,
    reference=_BOOST,
    boundary="primitive",
)
reference_top_clock = scope.declare(
    "reference.top_clock, f_top0 [Hz as GHz]: highest clock of the board of the benchmarks",
    bounds=POSITIVE,
    reference=cited(works.NVML, "maximum clocks"),
    boundary="primitive",
)
reference_supply = scope.declare(
    "reference.supply, V_0 [V]: voltage at the transistors of the board of the benchmarks at its boost clock",
    bounds=POSITIVE,
    reference=VOLTAGE,
    boundary="primitive",
)
reference_regulated = scope.declare(
    "reference.regulated, V_r0 [V]: voltage of the regulators of the board of the benchmarks, whose losses are part of "
    "the power that was measured",
    bounds=POSITIVE,
    reference=VOLTAGE,
    boundary="primitive",
)
reference_cycle_energy = scope.declare(
    "reference.cycle_energy, E_c0 [J/GPU]: energy that the board of the benchmarks switches in a clock cycle at "
    "its boost clock's voltage, activity 1",
    reference=DYNAMIC,
    boundary="primitive",
)
reference_voltage_slope = scope.declare(
    "reference.voltage_slope, s_V0: relative change of voltage by relative change of clock, at boost, on the board "
    "of the benchmarks",
    bounds=SHARE,
    reference=VOLTAGE,
    boundary="primitive",
)
reference_voltage_floor = scope.declare(
    "reference.voltage_floor, v_00: least voltage over that of the boost clock, on the board of the benchmarks",
    bounds=SHARE,
    reference=VOLTAGE,
    boundary="primitive",
)
reference_leakage = scope.declare(
    "reference.leakage_reference, P_L00 [W/GPU]: leakage of the board of the benchmarks at its boost clock's "
    "voltage and 300 K",
    reference=STATIC,
    boundary="primitive",
)
reference_leakage_scale = scope.declare(
    "reference.leakage_scale, T_L0 [K]: temperature rise that multiplies the leakage of the board of the "
    "benchmarks by e",
    bounds=POSITIVE,
    reference=STATIC,
    boundary="primitive",
    nature="difference",
)
reference_coolant = scope.declare(
    "reference.coolant_temperature, T_c0 [K]: temperature of the coolant of the benchmarks",
    bounds=POSITIVE,
    reference=THERMAL,
    boundary="primitive",
)
reference_thermal_resistance = scope.declare(
    "reference.thermal_resistance, R_th0 [K*GPU/W]: thermal resistance from die to coolant of the board of the "
    "benchmarks",
    reference=THERMAL,
    boundary="primitive",
)
