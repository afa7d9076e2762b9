"""Power and clock of one GPU under its workload.

Clock, power and temperature close a loop: a faster clock needs a higher voltage and draws more,
more power heats the die, a hotter die leaks more, and the power controller lowers the clock until
board power meets its limit. A lower clock also takes longer over the same work, so that less of it
falls on a second. The design page gpu-power.md derives the relations.
"""

from __future__ import annotations

from assay.model import POSITIVE, Expression, by_definition, cited, exp, maximum, minimum, number, total, where
from assay.stack import hbm, works
from assay.stack.gpu import reference
from assay.stack.gpu.rates import clock, memory_bandwidth, peak_flops, scope
from assay.stack.gpu.reference import DYNAMIC, SHARE, STATIC, THERMAL, VOLTAGE

_SAME_BOARD = by_definition("unless stated or derived, the board is that of the benchmarks")
_UTILIZATION = cited(works.POWER_PROVISIONING, "power as a straight line in utilization")
_COMPONENTS = cited(VOLTAGE.work, "power as a sum over the utilization of components")
_ACTIVE = cited(works.DCGM, "profiling metrics")
_NVML = cited(works.NVML, "power management limit")

power_limit = scope.declare(
    "power.limit, P_lim [W/GPU]: board power limit", bounds=POSITIVE, reference=_NVML, boundary="primitive"
)
power_rated = scope.declare(
    "power.rated, P_rated [W/GPU]: board power limit under which kernels were measured",
    bounds=POSITIVE,
    reference=_NVML,
    boundary="primitive",
)
power_idle = scope.declare("power.idle, P_0 [W/GPU]: idle board power", reference=_NVML, boundary="primitive")
top_clock = scope.declare(
    "top_clock, f_top [Hz as GHz]: highest clock that the slowest paths of the chip meet",
    equals=reference.reference_top_clock,
    bounds=POSITIVE,
    reference=_SAME_BOARD,
)
scope.inequality(
    "clock_meets_paths",
    clock <= maximum(top_clock, reference.reference_top_clock),
    "the boost clock is one that the slowest paths meet, at this voltage or that of the benchmarks",
    reference=_NVML,
)
# A board that is stated to boost less is run as far above its boost clock as that of the benchmarks, one that is
# stated to boost more only as fast as its paths are.
REFERENCE_CEILING = reference.reference_top_clock / reference.reference_clock
clock_ceiling = scope.declare(
    "clock_ceiling, eta_max: highest clock over the boost clock behind the peak rate",
    equals=minimum(REFERENCE_CEILING, top_clock / clock),
    bounds=POSITIVE,
    reference=_NVML,
)
idle_activity = scope.declare(
    "idle_activity, a_0: activity of a GPU between kernels: its clock tree",
    bounds=SHARE,
    reference=_COMPONENTS,
    boundary="primitive",
)
issue_activity = scope.declare(
    "issue_activity, a_1: activity that any kernel adds: issue, registers, caches",
    bounds=SHARE,
    reference=_COMPONENTS,
    boundary="primitive",
)
dense_use = scope.declare(
    "dense_use, u_d: tensor-core utilization of the dense GEMMs whose activity is 1",
    bounds=("positive", 1),
    reference=_COMPONENTS,
    boundary="primitive",
)
# What the workload does while its kernels run, at the clock of the kernels' benchmarks: a training
# step by default, a serving engine where one is included. A scenario may also give activity,
# memory duty and duty themselves.
work_tensor_use = scope.declare(
    "work.tensor_use, u_w: tensor-core utilization of the workload at benchmark clocks", bounds=SHARE, reference=_ACTIVE
)
work_memory_use = scope.declare(
    "work.memory_use, m_w: memory-bandwidth utilization of the workload at benchmark clocks",
    bounds=SHARE,
    reference=_ACTIVE,
)
work_clock_share = scope.declare(
    "work.clock_share, c_w: share of the workload's time that is in proportion to the clock period, at "
    "benchmark clocks",
    bounds=SHARE,
    reference=by_definition("clock-bound time over busy time"),
)
duty = scope.declare(
    "duty, u: share of time in which kernels run", bounds=SHARE, reference=by_definition("busy time over time")
)
activity = scope.declare(
    "activity, a: switching activity over that of dense GEMMs of random operands", reference=DYNAMIC
)
memory_duty = scope.declare(
    "memory.duty, u_m: memory-bandwidth utilization while kernels run",
    bounds=SHARE,
    reference=by_definition("rate over peak rate"),
)
cycle_energy = scope.declare(
    "cycle_energy, E_c [J/GPU]: energy switched in a clock cycle at the boost clock's voltage, activity 1",
    equals=reference.reference_cycle_energy,
    reference=_SAME_BOARD,
)
cycle_capacitance = scope.declare(
    "cycle_capacitance, C_c [F/GPU as uF/GPU]: energy switched in a clock cycle over the square of the supply voltage, "
    "activity 1",
    bounds=POSITIVE,
    reference=DYNAMIC,
    boundary="primitive",
)
process_speed = scope.declare(
    "process_speed, s_p: speed of the gates of this process over that of the board of the benchmarks, at the same "
    "voltage; unless derived, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_SAME_BOARD,
)
delivery_ratio = scope.declare(
    "power.delivery_ratio, k_D: power of the board by power of its dies, over that of the board of the benchmarks, "
    "whose losses are in the energies that were fitted; unless derived, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_SAME_BOARD,
)
voltage_slope = scope.declare(
    "voltage_slope, s_V: relative change of voltage by relative change of clock, at boost",
    equals=reference.reference_voltage_slope,
    bounds=SHARE,
    reference=_SAME_BOARD,
)
voltage_floor = scope.declare(
    "voltage_floor, v_0: least voltage over that of the boost clock",
    equals=reference.reference_voltage_floor,
    bounds=SHARE,
    reference=_SAME_BOARD,
)
leakage_reference = scope.declare(
    "power.leakage_reference, P_L0 [W/GPU]: leakage at the boost clock's voltage and 300 K",
    equals=reference.reference_leakage,
    reference=_SAME_BOARD,
)
leakage_scale = scope.declare(
    "leakage_scale, T_L [K]: temperature rise that multiplies leakage by e",
    equals=reference.reference_leakage_scale,
    bounds=POSITIVE,
    reference=_SAME_BOARD,
    nature="difference",
)
thermal_resistance = scope.declare(
    "thermal_resistance, R_th [K*GPU/W]: thermal resistance from die to coolant",
    equals=reference.reference_thermal_resistance,
    reference=_SAME_BOARD,
)
coolant_temperature = scope.declare(
    "coolant_temperature, T_c [K]: temperature of the coolant (air or liquid) at the GPU",
    bounds=POSITIVE,
    reference=THERMAL,
    boundary="scenario",
)
temperature_limit = scope.declare(
    "temperature_limit, T_max [K]: die temperature at which the clock is lowered",
    bounds=POSITIVE,
    reference=_NVML,
    boundary="primitive",
)


# At a limit the board draws that limit, which gives its temperature and so its leakage: the clock
# that meets the limit is the only unknown. Both sides below are monotonic in it.
def _leakage_at(limit: Expression, voltage: Expression) -> Expression:
    """Leakage of a board that draws its limit."""
    warmth = coolant_temperature + thermal_resistance * limit - number("300 K")
    return delivery_ratio * leakage_reference * voltage * exp(warmth / leakage_scale)


_issued = idle_activity + issue_activity
_tensor = (1 - _issued) * work_tensor_use / dense_use
throttle_reference = scope.declare(
    "throttle_reference, eta_0: clock of the workload where its kernels were measured, under the rated limit, "
    "over boost",
    bounds=(0, 2),
    reference=_NVML,
)
_voltage_0 = maximum(
    reference.reference_voltage_floor, 1 - reference.reference_voltage_slope * (1 - throttle_reference)
)
reference_temperature = scope.declare(
    "reference.temperature, T_0 [K]: temperature of the die of the benchmarks under the rated limit",
    equals=reference.reference_coolant + reference.reference_thermal_resistance * power_rated,
    bounds=POSITIVE,
    reference=THERMAL,
)
_warmth_0 = reference_temperature - number("300 K")
_memory_0 = work_memory_use * memory_bandwidth * hbm.access_energy
_leakage_0 = reference.reference_leakage * _voltage_0 * exp(_warmth_0 / reference.reference_leakage_scale)
_free_0 = power_rated - power_idle - _memory_0 - _leakage_0
_cycle_power_0 = reference.reference_cycle_energy * reference.reference_clock * _voltage_0**2
# Tensor cores switch by FLOPs, the rest by cycles. A clock has no fewer cycles than its FLOPs need.
scope.equation(
    throttle_reference,
    minimum(REFERENCE_CEILING, maximum((_free_0 / _cycle_power_0 - _tensor) / _issued, work_tensor_use)),
    reference=_NVML,
    meaning="the clock at which the workload meets the rated limit on the board of the benchmarks",
)
scope.simultaneous("benchmark_clock", [throttle_reference], starts={throttle_reference.name: "0.9"})
# Kernels that were measured on another board, or energies that are assumed, may say that a board cannot
# run its own benchmarks. Its clock is then that of its FLOPs, and it draws less than the energies say.
_switched_0 = _memory_0 + _cycle_power_0 * (_tensor + _issued * work_tensor_use)
power_benchmarks = scope.declare(
    "power.benchmarks, P_b0 [W/GPU]: power of the workload on the board of the benchmarks by the stated energies, in "
    "the fewest cycles that its FLOPs need",
    equals=power_idle + _leakage_0 + _switched_0,
    reference=_COMPONENTS,
)
energy_share = scope.declare(
    "power.energy_share, k_E: share of the stated energies of memory and cycles that lets the board run its own "
    "benchmarks under the rated limit: 1 where they do",
    bounds=("positive", 1),
    reference=_NVML,
)
scope.approximation(
    energy_share,
    where(power_benchmarks > power_rated, (power_rated - power_idle - _leakage_0) / _switched_0, 1),
    name="power.energy_share.fit",
    valid=power_benchmarks <= power_rated,
    reference=_NVML,
    meaning="by the stated energies the board could run its own benchmarks",
)

power_memory = scope.declare(
    "power.memory, P_m [W/GPU]: power of memory traffic",
    equals=energy_share * memory_duty * memory_bandwidth * hbm.access_energy,
    reference=hbm.ENERGY,
)
power_ceiling = scope.declare(
    "power.ceiling, P_max [W/GPU]: power at which the clock is lowered: board or die limit",
    equals=maximum(
        minimum(power_limit, (temperature_limit - coolant_temperature) / thermal_resistance), number("0 W/GPU")
    ),
    reference=_NVML,
)
scope.inequality(
    "coolant_cools",
    coolant_temperature < temperature_limit,
    "the coolant is colder than the die may get",
    reference=THERMAL,
)
hottest = scope.declare(
    "hottest, T_hot [K]: temperature of a die that draws the power at which its clock is lowered",
    equals=coolant_temperature + thermal_resistance * power_ceiling,
    bounds=POSITIVE,
    reference=THERMAL,
)
throttle = scope.declare(
    "throttle, eta_P: clock under the power limit over the boost clock", bounds=(0, 2), reference=_NVML
)
# Faster gates reach a clock at less voltage: clocks count from where these gates take the voltage of boost. What
# another process gains is left out: its energy of a switch is stated at the same speed, so at that lower voltage.
_boost = reference.reference_clock * top_clock / (reference.reference_top_clock * process_speed)
voltage = scope.declare(
    "voltage, v: voltage over that at which the board of the benchmarks boosts; it rises with the clock in hertz",
    equals=maximum(voltage_floor, 1 - voltage_slope * (1 - throttle * clock / _boost)),
    reference=VOLTAGE,
)
temperature = scope.declare("temperature, T [K]: temperature of the die", bounds=POSITIVE, reference=THERMAL)
power_leakage = scope.declare(
    "power.leakage, P_L [W/GPU]: static power of the die: its leakage",
    equals=delivery_ratio * leakage_reference * voltage * exp((temperature - number("300 K")) / leakage_scale),
    reference=STATIC,
)
power_dynamic = scope.declare(
    "power.dynamic, P_d [W/GPU]: dynamic (switching) power",
    equals=delivery_ratio * energy_share * activity * cycle_energy * clock * throttle * voltage**2,
    reference=DYNAMIC,
)
power_busy = scope.declare(
    "power.busy, P_b [W/GPU]: board power while kernels run",
    equals=total(power_idle, power_memory, power_leakage, power_dynamic),
    reference=VOLTAGE,
)
# The work of a second of benchmark clocks takes 1 + c (eta_0 / eta - 1) seconds at this clock, over boost of the
# board of the benchmarks.
_pace = throttle * clock / reference.reference_clock


def _period_at(pace: Expression) -> Expression:
    return maximum(pace * (1 - work_clock_share) + work_clock_share * throttle_reference, 0.01)


def activity_at(pace: Expression) -> Expression:
    """Clock tree, issue, and tensor cores by their FLOPs in a cycle, at a clock over boost of the benchmarks."""
    return _issued + _tensor / _period_at(pace)


def memory_duty_at(pace: Expression) -> Expression:
    """The bytes of the work over the time that it takes, at a clock over boost of the benchmarks."""
    return minimum(work_memory_use * pace / _period_at(pace), 1)


scope.equation(
    activity,
    activity_at(_pace),
    meaning="clock tree, issue, and tensor cores by their FLOPs in a cycle",
    reference=_COMPONENTS,
)
scope.equation(
    memory_duty,
    memory_duty_at(_pace),
    meaning="the bytes of the work over the time that it takes at this clock",
    reference=by_definition("rate over peak rate"),
)
scope.equation(temperature, coolant_temperature + thermal_resistance * power_busy, reference=THERMAL)
_free = power_ceiling - power_idle - power_memory - _leakage_at(power_ceiling, voltage)
scope.equation(
    throttle,
    minimum(
        clock_ceiling,
        maximum(
            (
                _free / (delivery_ratio * energy_share * cycle_energy * clock * voltage**2)
                - (activity - _issued) * throttle
            )
            / _issued,
            0,
        ),
    ),
    reference=_NVML,
    meaning="the power controller lowers the clock until board power is at its limit",
)
scope.simultaneous(
    "clock_power", [throttle, voltage, activity, memory_duty, power_memory], starts={throttle.name: "0.9"}
)
scope.simultaneous("power_temperature", [temperature, power_leakage, power_busy], starts={temperature.name: "330 K"})
power_limited_peak_flops = scope.declare(
    "power_limited_peak_flops, P_sus [FLOP/(s*GPU) as TFLOP/(s*GPU)]: peak rate at the power-limited clock",
    equals=throttle * peak_flops,
    reference=by_definition("peak rate at the throttled clock"),
)
_top_voltage = 1 + voltage_slope * (clock_ceiling * clock / _boost - 1)
power_waiting = scope.declare(
    "power.waiting, P_w [W/GPU]: board power between the kernels of a process, which keeps the clock at its highest",
    equals=minimum(
        power_ceiling,
        power_idle
        + delivery_ratio
        * leakage_reference
        * _top_voltage
        * exp((coolant_temperature - number("300 K")) / leakage_scale)
        + delivery_ratio * idle_activity * cycle_energy * clock * clock_ceiling * _top_voltage**2,
    ),
    reference=_COMPONENTS,
)
power = scope.declare(
    "power, P_GPU [W/GPU]: power drawn by one GPU under the workload, on average",
    equals=power_waiting + duty * (power_busy - power_waiting),
    reference=_UTILIZATION,
)
scope.inequality(
    "power_cap",
    power_busy <= power_limit * (1 + 1e-9),
    "the power limit exceeds the power that does not depend on the clock",
    reference=_NVML,
)
