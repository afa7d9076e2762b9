"""Every field of a telemetry sample: name, type, unit, meaning, and its name in other tools.

A sample is one row: one device at one moment. Its columns are `IDENTITY`, the fields below (those
that the device does not have are null), `processes` and `series`. Units are SI base units; shares
run from 0 to 1. `docs/reference/telemetry.md` is written from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["gauge", "counter", "limit"]
"""A gauge is a state, a counter only grows, a limit is read rarely and repeated in every row."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column of the table of samples."""

    name: str
    type: type
    """float, int or str."""
    unit: str
    kind: Kind
    meaning: str
    dcgm: str | None = None
    """The name of the field in DCGM's exporter."""
    dcgm_scale: float = 1.0
    """Multiply by this to get DCGM's unit."""
    otel: str | None = None
    """The metric of OpenTelemetry's semantic conventions."""
    otel_attributes: tuple[tuple[str, str], ...] = ()


IDENTITY: Final = {
    "realtime_ns": (int, "nanoseconds since the epoch, read just before the fields"),
    "monotonic_ns": (int, "the monotonic clock at the same moment"),
    "tick": (int, "number of the sampling interval, the same over all sources"),
    "run": (str, "name of the recording"),
    "workload": (str, "what was running, as the caller named it"),
    "fingerprint": (str, "fingerprint of the machine"),
    "phase": (str, "phase of the workload, as the caller set it"),
    "source": (str, "nvidia, amd, host, engine or endpoint"),
    "device": (str, "UUID of a GPU, name of a host, URL of an endpoint"),
    "index": (int, "number of the device within its source"),
    "name": (str, "product name of the device, or kind of server"),
}
"""Columns that say when, where and of what a sample is: type and meaning."""

_MIB: Final = 2.0**-20


def _table(*fields: Field) -> dict[str, Field]:
    return {field.name: field for field in fields}


FIELDS: Final = _table(
    Field(
        "gpu_utilization", float, "1", "gauge", "share of time a kernel was running",
        "DCGM_FI_DEV_GPU_UTIL", 100.0, "hw.gpu.utilization", (("hw.gpu.task", "general"),),
    ),
    Field(
        "gpu_memory_busy", float, "1", "gauge", "share of time device memory was read or written",
        "DCGM_FI_DEV_MEM_COPY_UTIL", 100.0,
    ),
    Field(
        "gpu_memory_used_bytes", int, "By", "gauge", "device memory in use",
        "DCGM_FI_DEV_FB_USED", _MIB, "hw.gpu.memory.usage",
    ),
    Field(
        "gpu_memory_total_bytes", int, "By", "limit", "device memory",
        "DCGM_FI_DEV_FB_TOTAL", _MIB, "hw.gpu.memory.limit",
    ),
    Field(
        "gpu_power_watts", float, "W", "gauge", "board power, instantaneous where the driver has it",
        "DCGM_FI_DEV_POWER_USAGE", 1.0, "hw.power",
    ),
    Field(
        "gpu_power_average_watts", float, "W", "gauge", "board power averaged over a second",
    ),
    Field(
        "gpu_power_limit_watts", float, "W", "limit", "enforced power limit",
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    ),
    Field(
        "gpu_energy_joules", float, "J", "counter", "energy since the driver was loaded",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1e3, "hw.energy",
    ),
    Field(
        "gpu_sm_clock_hz", float, "Hz", "gauge", "clock of the SMs or compute units",
        "DCGM_FI_DEV_SM_CLOCK", 1e-6,
    ),
    Field("gpu_sm_clock_max_hz", float, "Hz", "limit", "highest clock of the SMs"),
    Field(
        "gpu_memory_clock_hz", float, "Hz", "gauge", "clock of device memory",
        "DCGM_FI_DEV_MEM_CLOCK", 1e-6,
    ),
    Field("gpu_memory_clock_max_hz", float, "Hz", "limit", "highest clock of device memory"),
    Field(
        "gpu_temperature_celsius", float, "Cel", "gauge", "temperature of the chip",
        "DCGM_FI_DEV_GPU_TEMP", 1.0, "hw.temperature",
    ),
    Field(
        "gpu_memory_temperature_celsius", float, "Cel", "gauge", "temperature of device memory",
        "DCGM_FI_DEV_MEMORY_TEMP",
    ),
    Field(
        "gpu_slowdown_temperature_celsius", float, "Cel", "limit",
        "temperature at which hardware slows the clocks", "DCGM_FI_DEV_SLOWDOWN_TEMP",
    ),
    Field(
        "gpu_throttle", int, "1", "gauge",
        "bitmask over vendors of what holds the clocks down; see the table of bits",
    ),
    Field(
        "gpu_throttle_vendor", int, "1", "gauge", "the vendor's own bitmask",
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
    ),
    Field(
        "gpu_ecc_corrected", int, "1", "counter", "corrected memory errors since the driver loaded",
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 1.0, "hw.errors", (("error.type", "corrected"),),
    ),
    Field(
        "gpu_ecc_uncorrected", int, "1", "counter",
        "uncorrected memory errors since the driver loaded",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1.0, "hw.errors", (("error.type", "uncorrected"),),
    ),
    Field(
        "gpu_xid_last", int, "1", "gauge",
        "the last XID error of the driver since the recording began; 0 for none",
        "DCGM_FI_DEV_XID_ERRORS",
    ),
    Field(
        "gpu_pcie_receive_bytes_per_second", float, "By/s", "gauge", "PCIe traffic to the GPU",
        "DCGM_FI_PROF_PCIE_RX_BYTES",
    ),
    Field(
        "gpu_pcie_transmit_bytes_per_second", float, "By/s", "gauge", "PCIe traffic from the GPU",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
    ),
    Field(
        "gpu_pcie_receive_bytes", int, "By", "counter",
        "bytes over PCIe to the GPU; the driver's counter may wrap around",
        None, 1.0, "hw.gpu.io", (("network.io.direction", "receive"),),
    ),
    Field(
        "gpu_pcie_transmit_bytes", int, "By", "counter",
        "bytes over PCIe from the GPU; the driver's counter may wrap around",
        None, 1.0, "hw.gpu.io", (("network.io.direction", "transmit"),),
    ),
    Field(
        "gpu_pcie_replays", int, "1", "counter", "PCIe packets sent again",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    ),
    Field("gpu_pcie_generation", int, "1", "limit", "PCIe generation of the link now"),
    Field("gpu_pcie_width", int, "1", "limit", "PCIe lanes of the link now"),
    Field(
        "gpu_nvlink_receive_bytes_per_second", float, "By/s", "gauge",
        "NVLink traffic to the GPU, over all links", "DCGM_FI_PROF_NVLINK_RX_BYTES",
    ),
    Field(
        "gpu_nvlink_transmit_bytes_per_second", float, "By/s", "gauge",
        "NVLink traffic from the GPU, over all links", "DCGM_FI_PROF_NVLINK_TX_BYTES",
    ),
    Field(
        "gpu_graphics_active", float, "1", "gauge", "GPM: share of time the compute engine was busy",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    ),
    Field(
        "gpu_sm_active", float, "1", "gauge", "GPM: share of SMs with a warp, over time",
        "DCGM_FI_PROF_SM_ACTIVE",
    ),
    Field(
        "gpu_sm_occupancy", float, "1", "gauge", "GPM: resident warps over the most possible",
        "DCGM_FI_PROF_SM_OCCUPANCY",
    ),
    Field(
        "gpu_tensor_active", float, "1", "gauge", "GPM: share of time tensor cores were busy",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    ),
    Field(
        "gpu_dram_active", float, "1", "gauge",
        "GPM: bandwidth of device memory in use over its peak", "DCGM_FI_PROF_DRAM_ACTIVE",
    ),
    Field(
        "gpu_dram_bytes_per_second", float, "By/s", "gauge",
        "traffic of device memory: gpu_dram_active times gpu_dram_peak_bytes_per_second",
    ),
    Field(
        "gpu_dram_peak_bytes_per_second", float, "By/s", "limit",
        "peak bandwidth of device memory: highest memory clock, two transfers a cycle, bus width",
    ),
    Field("gpu_processes", int, "1", "gauge", "processes on the device"),
    Field(
        "host_cpu_utilization", float, "1", "gauge", "share of all cores that was busy",
        None, 1.0, "system.cpu.utilization",
    ),
    Field("host_cpu_busiest", float, "1", "gauge", "share of time the busiest core was busy"),
    Field("host_cpu_iowait", float, "1", "gauge", "share of core time that waited for storage"),
    Field("host_cpu_steal", float, "1", "gauge", "share of core time the hypervisor took away"),
    Field("host_cpu_count", int, "1", "limit", "logical cores"),
    Field("host_cpu_usable", int, "1", "limit", "logical cores that this process may use"),
    Field("host_cpu_clock_hz", float, "Hz", "gauge", "clock of the cores, on average"),
    Field("host_cpu_clock_max_hz", float, "Hz", "limit", "highest clock of the cores"),
    Field("host_cpu_temperature_celsius", float, "Cel", "gauge", "hottest sensor of the CPU"),
    Field("host_load_1m", float, "1", "gauge", "runnable threads, averaged over a minute"),
    Field(
        "host_memory_used_bytes", int, "By", "gauge", "memory in use, caches not counted",
        None, 1.0, "system.memory.usage", (("system.memory.state", "used"),),
    ),
    Field("host_memory_available_bytes", int, "By", "gauge", "memory to be had without swapping"),
    Field("host_memory_total_bytes", int, "By", "limit", "memory"),
    Field("host_swap_used_bytes", int, "By", "gauge", "swap in use"),
    Field("host_network_receive_bytes", int, "By", "counter", "bytes received, without loopback"),
    Field("host_network_transmit_bytes", int, "By", "counter", "bytes sent, without loopback"),
    Field("host_disk_read_bytes", int, "By", "counter", "bytes read from storage"),
    Field("host_disk_write_bytes", int, "By", "counter", "bytes written to storage"),
    Field("host_package_energy_joules", float, "J", "counter", "RAPL: energy of the CPU packages"),
    Field("host_dram_energy_joules", float, "J", "counter", "RAPL: energy of memory"),
    Field(
        "host_pressure_cpu", float, "1", "gauge",
        "PSI: share of ten seconds in which a runnable thread waited for a core",
    ),
    Field(
        "host_pressure_memory", float, "1", "gauge",
        "PSI: share of ten seconds in which a thread waited for memory",
    ),
    Field(
        "host_pressure_io", float, "1", "gauge",
        "PSI: share of ten seconds in which a thread waited for storage",
    ),
    Field("cgroup_cpu_limit", float, "1", "limit", "cores that the cgroup's quota allows"),
    Field("cgroup_memory_limit_bytes", int, "By", "limit", "memory that the cgroup may use"),
    Field("cgroup_memory_used_bytes", int, "By", "gauge", "memory that the cgroup uses"),
    Field("cgroup_cpu_seconds", float, "s", "counter", "CPU time of the cgroup"),
    Field("cgroup_throttled_seconds", float, "s", "counter", "time that the quota held threads"),
    Field("cgroup_throttled_periods", int, "1", "counter", "periods in which the quota ran out"),
    Field("engine_requests_running", float, "1", "gauge", "requests in the running batch"),
    Field("engine_requests_waiting", float, "1", "gauge", "requests in the waiting queue"),
    Field("engine_kv_cache_usage", float, "1", "gauge", "share of the KV cache in use"),
    Field("engine_preemptions", float, "1", "counter", "requests preempted to free KV blocks"),
    Field("engine_prefix_cache_queries", float, "1", "counter", "prompt tokens looked up"),
    Field("engine_prefix_cache_hits", float, "1", "counter", "prompt tokens found"),
    Field("engine_prompt_tokens", float, "1", "counter", "prompt tokens"),
    Field("engine_generation_tokens", float, "1", "counter", "generated tokens"),
    Field("engine_requests_finished", float, "1", "counter", "finished requests"),
    Field("engine_ttft_seconds_sum", float, "s", "counter", "sum of the times to first token"),
    Field("engine_ttft_seconds_count", float, "1", "counter", "times to first token"),
    Field("engine_itl_seconds_sum", float, "s", "counter", "sum of the inter-token latencies"),
    Field("engine_itl_seconds_count", float, "1", "counter", "inter-token latencies"),
    Field("engine_e2e_seconds_sum", float, "s", "counter", "sum of the request latencies"),
    Field("engine_e2e_seconds_count", float, "1", "counter", "request latencies"),
    Field("engine_queue_seconds_sum", float, "s", "counter", "sum of the times in the queue"),
    Field("engine_queue_seconds_count", float, "1", "counter", "times in the queue"),
    Field("endpoint_up", int, "1", "gauge", "1 where the endpoint answered, else 0"),
    Field("endpoint_scrape_seconds", float, "s", "gauge", "time the endpoint took to answer"),
)  # fmt: skip

PROCESS: Final = {"pid": int, "name": str, "memory_bytes": int, "utilization": float}
"""A process on a GPU: members of the column `processes`; None where the driver does not say."""
