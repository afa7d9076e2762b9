"""One GPU: peak FLOP/s, memory, interconnect, power and clock.

Clock, power and temperature close a loop: a faster clock needs a higher voltage and draws more,
more power heats the die, a hotter die leaks more, and the power controller lowers the clock until
board power meets its limit. The design page gpu-power.md derives the relations.
"""

from __future__ import annotations

from assay.model import (
    POSITIVE,
    Scope,
    Variable,
    by_definition,
    cited,
    exp,
    maximum,
    minimum,
    number,
    total,
)
from assay.stack import hbm

scope = Scope("gpu", "One GPU")

_SHARE = (0, 1)
_H100 = cited("NVIDIA H100 Tensor Core GPU Architecture, whitepaper 2022", "Table 3")
_INT8 = cited(
    "Xiao et al. 2023, SmoothQuant: Accurate and Efficient Post-Training Quantization for Large "
    "Language Models",
    "W8A8 on INT8 tensor cores",
)
_NVLINK = cited("NVIDIA H100 Tensor Core GPU Architecture, whitepaper 2022", "NVLink")
_CMOS = "Weste and Harris, CMOS VLSI Design, 4th edition 2011"
_DYNAMIC = cited(_CMOS, "ch. 5, dynamic power")
_STATIC = cited(_CMOS, "ch. 5, static power")
_VOLTAGE = cited(
    "Guerreiro et al. 2018, GPGPU Power Modeling for Multi-domain Voltage-Frequency Scaling, HPCA"
)
_THERMAL = cited("Skadron et al. 2003, Temperature-aware microarchitecture, ISCA")
_UTILIZATION = cited(
    "Fan, Weber and Barroso 2007, Power Provisioning for a Warehouse-sized Computer",
    "power as a straight line in utilization",
)
_NVML = cited("NVIDIA Management Library (NVML) API Reference Guide", "power management limit")

multiprocessors = scope.variable(
    "multiprocessors", "n_SM", "1/GPU", "streaming multiprocessors", reference=_H100,
    boundary="primitive",
)  # fmt: skip
flops_per_cycle = scope.variable(
    "flops_per_cycle", "F_SM", "FLOP",
    "dense 16-bit tensor-core FLOPs per SM and cycle",
    reference=_H100, boundary="primitive",
)  # fmt: skip
clock = scope.variable(
    "clock", "f", "Hz", "boost clock of the SMs", display="GHz", bounds=POSITIVE,
    reference=_H100, boundary="primitive",
)  # fmt: skip
peak_flops = scope.variable(
    "peak_flops", "P_peak", "FLOP/(s*GPU)", "peak rate of dense 16-bit GEMMs at the boost clock",
    display="TFLOP/(s*GPU)", equals=multiprocessors * flops_per_cycle * clock, reference=_H100,
    target=True,
)  # fmt: skip


def _rate(name: str, symbol: str, what: str) -> Variable:
    return scope.variable(
        name, symbol, "1", f"peak rate of {what} GEMMs over 16-bit ones; 0 without such units",
        bounds=(0, None), reference=_H100, boundary="primitive",
    )  # fmt: skip


rate_fp8 = _rate("rate_fp8", "m_F8", "FP8")
rate_int8 = _rate("rate_int8", "m_I8", "INT8")
rate_fp4 = _rate("rate_fp4", "m_F4", "FP4")
rate_int4 = _rate("rate_int4", "m_I4", "INT4")
rate_8bit = scope.variable(
    "rate_8bit", "m_8", "1", "peak rate of 8-bit GEMMs over 16-bit ones", bounds=(0, None),
    equals=rate_fp8, reference=by_definition("8-bit operands are FP8"),
)  # fmt: skip
rate_4bit = scope.variable(
    "rate_4bit", "m_4", "1", "peak rate of 4-bit GEMMs over 16-bit ones", bounds=(0, None),
    equals=rate_fp4, reference=by_definition("4-bit operands are FP4"),
)  # fmt: skip
scope.approximation(
    rate_8bit, rate_int8, name="integer_8bit", meaning="8-bit operands are INT8", reference=_INT8
)
scope.approximation(
    rate_4bit, rate_int4, name="integer_4bit", meaning="4-bit operands are INT4", reference=_INT8
)

memory_bandwidth = scope.variable(
    "memory.bandwidth", "B", "byte/(s*GPU)", "peak rate of the memory", display="TB/(s*GPU)",
    equals=hbm.stacks * hbm.stack_bandwidth, reference=_H100,
)  # fmt: skip
memory_capacity = scope.variable(
    "memory.capacity", "C", "byte/GPU", "capacity of the memory", display="GB/GPU",
    equals=hbm.stacks * hbm.stack_capacity, reference=_H100,
)  # fmt: skip
cache_capacity = scope.variable(
    "cache.capacity", "C_L2", "byte/GPU", "capacity of the L2 cache",
    display="MB/GPU", reference=_H100, boundary="primitive",
)  # fmt: skip

link_count = scope.variable(
    "link.count", "n_l", "1/GPU", "links to other GPUs", reference=_NVLINK, boundary="primitive"
)
link_lanes = scope.variable(
    "link.lanes", "n_lane", "1", "lanes of a link in one direction", reference=_NVLINK,
    boundary="primitive",
)  # fmt: skip
link_lane_rate = scope.variable(
    "link.lane_rate", "r_lane", "bit/s", "rate of a lane", display="Gbit/s", reference=_NVLINK,
    boundary="primitive",
)  # fmt: skip
link_bandwidth = scope.variable(
    "link.bandwidth", "B_l", "byte/(s*GPU)", "rate of all links to other GPUs in one direction",
    display="GB/(s*GPU)", equals=link_count * link_lanes * link_lane_rate / hbm.BITS_PER_BYTE, reference=_NVLINK,
)  # fmt: skip

power_limit = scope.variable(
    "power.limit", "P_lim", "W/GPU", "board power limit", bounds=POSITIVE,
    reference=_NVML, boundary="primitive",
)  # fmt: skip
power_idle = scope.variable(
    "power.idle", "P_0", "W/GPU", "idle board power", reference=_NVML,
    boundary="primitive",
)  # fmt: skip
activity = scope.variable(
    "activity", "a", "1", "switching activity over that of dense GEMMs of random operands",
    reference=_DYNAMIC, boundary="scenario",
)  # fmt: skip
memory_duty = scope.variable(
    "memory.duty", "u_m", "1", "memory-bandwidth utilization of the workload",
    bounds=_SHARE, reference=by_definition("rate over peak rate"), boundary="scenario",
)  # fmt: skip
duty = scope.variable(
    "duty", "u", "1", "share of time in which kernels run", bounds=_SHARE,
    reference=by_definition("busy time over time"), boundary="scenario",
)  # fmt: skip
cycle_energy = scope.variable(
    "cycle_energy", "E_c", "J/GPU",
    "energy switched in a clock cycle at the boost clock's voltage, activity 1",
    reference=_DYNAMIC, boundary="primitive",
)  # fmt: skip
voltage_slope = scope.variable(
    "voltage_slope", "s_V", "1", "relative change of voltage by relative change of clock, at boost",
    bounds=_SHARE, reference=_VOLTAGE, boundary="primitive",
)  # fmt: skip
voltage_floor = scope.variable(
    "voltage_floor", "v_0", "1", "least voltage over that of the boost clock", bounds=_SHARE,
    reference=_VOLTAGE, boundary="primitive",
)  # fmt: skip
leakage_reference = scope.variable(
    "power.leakage_reference", "P_L0", "W/GPU", "leakage at the boost clock's voltage and 300 K",
    reference=_STATIC, boundary="primitive",
)  # fmt: skip
leakage_scale = scope.variable(
    "leakage_scale", "T_L", "K", "temperature rise that multiplies leakage by e", bounds=POSITIVE,
    reference=_STATIC, boundary="primitive",
)  # fmt: skip
thermal_resistance = scope.variable(
    "thermal_resistance", "R_th", "K*GPU/W", "thermal resistance from die to coolant",
    reference=_THERMAL, boundary="primitive",
)  # fmt: skip
coolant_temperature = scope.variable(
    "coolant_temperature", "T_c", "K", "temperature of the coolant (air or liquid) at the GPU",
    bounds=POSITIVE, reference=_THERMAL, boundary="scenario",
)  # fmt: skip
temperature_limit = scope.variable(
    "temperature_limit", "T_max", "K", "die temperature at which the clock is lowered",
    bounds=POSITIVE, reference=_NVML, boundary="primitive",
)  # fmt: skip

power_memory = scope.variable(
    "power.memory", "P_m", "W/GPU", "power of memory traffic",
    equals=memory_duty * memory_bandwidth * hbm.access_energy,
    reference=hbm.ENERGY,
)  # fmt: skip
power_ceiling = scope.variable(
    "power.ceiling", "P_max", "W/GPU", "power at which the clock is lowered: board or die limit",
    equals=minimum(power_limit, (temperature_limit - coolant_temperature) / thermal_resistance),
    reference=_NVML,
)  # fmt: skip
throttle = scope.variable(
    "throttle", "eta_P", "1", "clock under the power limit over the boost clock", bounds=_SHARE,
    reference=_NVML,
)  # fmt: skip
voltage = scope.variable(
    "voltage", "v", "1", "voltage over that of the boost clock",
    equals=maximum(voltage_floor, 1 - voltage_slope * (1 - throttle)), reference=_VOLTAGE,
)  # fmt: skip
temperature = scope.variable(
    "temperature", "T", "K", "temperature of the die", bounds=POSITIVE, reference=_THERMAL
)
power_leakage = scope.variable(
    "power.leakage", "P_L", "W/GPU", "static power: idle and leakage",
    equals=leakage_reference * voltage * exp((temperature - number("300 K")) / leakage_scale),
    reference=_STATIC,
)  # fmt: skip
power_dynamic = scope.variable(
    "power.dynamic", "P_d", "W/GPU", "dynamic (switching) power",
    equals=activity * cycle_energy * clock * throttle * voltage**2, reference=_DYNAMIC,
)  # fmt: skip
power_busy = scope.variable(
    "power.busy", "P_b", "W/GPU", "board power while kernels run",
    equals=total(power_idle, power_memory, power_leakage, power_dynamic), reference=_VOLTAGE,
)  # fmt: skip
scope.equation(
    temperature, coolant_temperature + thermal_resistance * power_busy, reference=_THERMAL
)
# Power available for switching under the ceiling, over switching power at the boost clock.
scope.equation(
    throttle,
    minimum(
        1,
        maximum(power_ceiling - power_idle - power_memory - power_leakage, number("0 W/GPU"))
        / (activity * cycle_energy * clock * voltage**2),
    ),
    reference=_NVML,
    meaning="the power controller lowers the clock until board power is at its limit",
)
scope.simultaneous(
    "clock_power_temperature",
    [throttle, voltage, temperature, power_leakage, power_dynamic, power_busy],
    starts={throttle.name: "0.9", temperature.name: "330 K"},
)
throttle_reference = scope.variable(
    "throttle_reference", "eta_0", "1", "throttle under which kernel constants were measured",
    bounds=_SHARE, reference=by_definition("throttle of the measuring machine"),
    boundary="primitive",
)  # fmt: skip
power_limited_peak_flops = scope.variable(
    "power_limited_peak_flops", "P_sus", "FLOP/(s*GPU)",
    "peak rate at the power-limited clock", display="TFLOP/(s*GPU)",
    equals=throttle * peak_flops, reference=by_definition("peak rate at the throttled clock"),
)  # fmt: skip
power = scope.variable(
    "power", "P_GPU", "W/GPU", "power drawn by one GPU under the workload, on average",
    equals=power_idle + duty * (power_busy - power_idle),
    reference=_UTILIZATION,
)  # fmt: skip
scope.inequality(
    "power_cap",
    power_busy <= power_limit * (1 + 1e-9),
    "the power limit exceeds the power that does not depend on the clock",
    reference=_NVML,
)
