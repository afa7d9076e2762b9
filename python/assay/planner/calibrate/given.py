"""What the graph of equations takes from measured ceilings: rates, sizes and kernel constants.

Floors are computed on the measured ceilings. Constants of kernels depend on the kind of device:

- A GPU of the catalog keeps the rates that its kernels were fitted to. The fits state them as
  shares of the data sheet's memory bandwidth; here they become shares of the measured one.
- A GPU that the catalog does not have borrows the shares of another, which a note says.
- A CPU has no tiles, no clusters and no tensor-core power limit: what the equations charge for
  them is zero, and rates are those of the linear layers that were measured.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.catalog import accelerators, constants
from assay.errors import InputError, UnknownNameError
from assay.planner.calibrate import lookup
from assay.planner.calibrate.lookup import select
from assay.planner.specs import Ceiling

if TYPE_CHECKING:
    from assay.runtime.cuda import Gpu
    from assay.runtime.hardware import Device

MEMORY_SHARES: Final = (
    "kernels.gemm.read_share",
    "kernels.gemm.cast_share",
    "kernels.prefill.stream_share",
    "kernels.prefill.cache_share",
    "kernels.decode.rise_share",
    "kernels.decode.query_share",
    "kernels.passes.share",
    "kernels.passes.cached_share",
    "kernels.experts.read_share",
    "kernels.experts.activation_share",
)
"""Constants that are shares of the data sheet's memory bandwidth."""

_UNTILED: Final = 1e6
"""A tile rate so far above the peak that tiles cost nothing."""

_CPU_CONSTANTS: Final[Mapping[str, float]] = {
    "kernels.device.clock_ratio": 1.0,
    "kernels.gemm.tile_share": _UNTILED,
    "kernels.gemm.sustained_share": 1.0,
    "kernels.gemm.eight_bit_share": 1.0,
    "kernels.gemm.eight_bit_step": 1.0,
    "kernels.gemm.cast_time": 0.0,
    "kernels.gemm.cast_share": _UNTILED,
    "kernels.gemm.cast_row_time": 0.0,
    "kernels.gemm.step_work": 0.0,
    "kernels.gemm.ingest_intensity": 0.0,
    "kernels.gemm.cache_intensity": 0.0,
    "kernels.gemm.overlap_exponent": 3.0,
    "kernels.gemm.block_time": 0.0,
    "kernels.gemm.split_time": 0.0,
    "kernels.gemm.write_exposure": 1.0,
    "kernels.gemm.tail_cost": 0.0,
    "kernels.gemm.throttle_depth": 0.0,
    "kernels.gemm.reach_share": 1.0,
    "kernels.gemm.ramp": 0.0,
    "kernels.decode.tile_time": 0.0,
    "kernels.decode.single_time": 0.0,
    "kernels.decode.key_time": 0.0,
    "kernels.decode.rise_share": 1.0,
    "kernels.decode.ramp": 0.0,
    "kernels.decode.reach_share": 1.0,
    "kernels.decode.split_time": 0.0,
    "kernels.decode.sequence_time": 0.0,
    "kernels.decode.query_share": 1.0,
    "kernels.decode.regroup_time": 0.0,
    "kernels.decode.tile_rows": 1.0,
    "kernels.decode.most_group": 1e6,
    "kernels.decode.splits_single": 0.0,
    "kernels.prefill.token_time": 0.0,
    "kernels.prefill.tile_time": 0.0,
    "kernels.prefill.tile_share": _UNTILED,
    "kernels.prefill.score_time": 0.0,
    "kernels.prefill.stream_share": 1.0,
    "kernels.prefill.cache_share": 1.0,
    "kernels.prefill.sustained_share": 1.0,
    "kernels.prefill.imbalance": 0.0,
    "kernels.prefill.tile_rows": 1.0,
    "kernels.prefill.grouped": 0.0,
    "kernels.experts.tile_rows": 1.0,
    "kernels.experts.sustained_share": 1.0,
    "kernels.experts.eight_bit_share": 1.0,
    "kernels.experts.eight_bit_time": 0.0,
    "kernels.experts.activation_share": 1.0,
    "kernels.passes.share": 1.0,
    "kernels.passes.reach_share": 1.0,
    "serving.model_error.transfer": 1.0,
    "serving.model_error.experts": 1.0,
    "serving.model_error.narrow": 1.0,
    "serving.model_error.unstated": 1.0,
    "serving.model_error.unstated_inputs": 0.0,
}
"""Constants of kernels without tiles, on a chip whose clock does not follow its power."""

_LINKS: Final = (
    "collectives.start",
    "collectives.ramp",
    "collectives.eager_latency_ratio",
    "collectives.eager_share",
    "collectives.fast_start_ratio",
    "collectives.fast_copy",
    "collectives.fast_share",
    "collectives.bulk_start_ratio",
    "collectives.bulk_latency",
    "collectives.own_copy",
    "collectives.switch_share",
    "collectives.switch_start_ratio",
    "collectives.direct_start",
    "collectives.direct_share",
    "interconnect.node_ranks",
    "interconnect.link.latency",
    "interconnect.link.share",
    "interconnect.nic.latency",
    "interconnect.nic.share",
    "interconnect.nic.count",
    "interconnect.nic.line_rate",
    "interconnect.oversubscription",
    "gpu.link.count",
    "gpu.link.lanes",
    "gpu.link.lane_rate",
)
"""Constants of links between devices. A CPU is one device: whatever they are, it sends nothing."""


_ONE_DEVICE: Final = "a CPU is one device: predictions over several of them mean nothing"


@dataclass(frozen=True, slots=True)
class GivenValues:
    """Values by variable in base units, and what was assumed."""

    given: Mapping[str, float]
    accelerator: str
    notes: tuple[str, ...]


def given_values(device: Device, ceilings: Mapping[str, Ceiling]) -> GivenValues:
    """Values of the graph for a device of this machine."""
    if device.capabilities.is_gpu:
        from assay.runtime.cuda import probe

        return gpu_values(probe().gpus[device.ordinal], ceilings)
    from assay.runtime.fingerprint import cache_bytes

    return cpu_values(cache_bytes(device), ceilings)


def memory_read(ceilings: Mapping[str, Ceiling]) -> Ceiling:
    """Reading from memory: the largest working set, on the most threads."""
    reads = list(select(ceilings, "read"))
    if not reads:
        raise InputError("no read bandwidth was measured", "assay doctor checks the device")
    return max(
        reads, key=lambda read: (read.parameters.get("threads", 1), read.parameters["bytes"])
    )


def gpu_values(facts: Gpu, ceilings: Mapping[str, Ceiling]) -> GivenValues:
    """Values of a GPU with these properties."""
    given = {
        "gpu.multiprocessors": float(facts.multiprocessors),
        "gpu.memory.capacity": float(facts.memory_bytes),
        "gpu.cache.capacity": float(facts.l2_bytes),
        "gpu.memory.bandwidth": memory_read(ceilings).value,
    }
    try:
        entry = accelerators.find(facts.name)
    except UnknownNameError:
        given |= _measured_peak(ceilings, ("bf16", "f16"), (), ())
        # Narrow weights are dequantized; only FP8 operands are multiplied as they are.
        given |= {"gpu.rate_8bit": 1.0, "gpu.rate_4bit": 1.0}
        for fp8 in select(ceilings, "matmul", dtype="fp8"):
            given["gpu.rate_8bit"] = max(fp8.value / given.get("gpu.peak_flops", fp8.value), 1.0)
        return GivenValues(
            given, "", (f"{facts.name} is not in the catalog: its kernels are assumed alike",)
        )
    return GivenValues(
        {**entry.given, **given, **_shares(entry.name, given["gpu.memory.bandwidth"], entry.given)},
        entry.name,
        (),
    )


def _shares(system: str, measured: float, stated: Mapping[str, float]) -> dict[str, float]:
    """Shares of the data sheet's bandwidth as shares of the measured one.

    No kernel reads memory faster than what was measured; shares above 1 are of caches.
    """
    stack_bits = ("hbm.stacks", "hbm.channels_per_stack", "hbm.pins_per_channel", "hbm.pin_rate")
    if "gpu.memory.bandwidth" in stated:
        sheet = stated["gpu.memory.bandwidth"]
    elif all(name in stated for name in stack_bits):
        sheet = 1.0
        for name in stack_bits:
            sheet *= stated[name]
    else:
        raise InputError(f"the catalog's {system} has no memory bandwidth")
    fitted = constants.find(constants.source_system(system)).values
    known = {name: fitted[name] for name in MEMORY_SHARES if name in fitted}
    ratio = sheet / measured
    return {
        name: share * ratio if share > 1.0 else min(share * ratio, 1.0)
        for name, share in known.items()
    }


def cpu_values(cache: int | None, ceilings: Mapping[str, Ceiling]) -> GivenValues:
    """Values of this machine's CPU, whose last-level cache has so many bytes."""
    read = memory_read(ceilings)
    threads = int(read.parameters.get("threads", 1))
    given = {
        **_CPU_CONSTANTS,
        **dict.fromkeys(_LINKS, 1.0),
        # Formats that were not measured are dequantized.
        "gpu.rate_8bit": 1.0,
        "gpu.rate_4bit": 1.0,
        **_measured_peak(ceilings, ("bf16", "f32"), ("q8_0",), ("q4_1", "q4_k"), threads=threads),
        "gpu.multiprocessors": float(threads),
        "gpu.memory.capacity": float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "gpu.memory.bandwidth": read.value,
    }
    if cache is not None:
        given["gpu.cache.capacity"] = float(cache)
    cached = [other for other in select(ceilings, "read", threads=threads) if other is not read]
    if cached:
        largest = max(cached, key=lambda ceiling: int(ceiling.parameters["bytes"]))
        given["kernels.passes.cached_share"] = largest.value / read.value
    given |= _operations(ceilings, threads, read.value)
    return GivenValues(given, "", (_ONE_DEVICE,))


def _measured_peak(
    ceilings: Mapping[str, Ceiling],
    wide: tuple[str, ...],
    eight: tuple[str, ...],
    four: tuple[str, ...],
    **parameters: int,
) -> dict[str, float]:
    """Rates of the largest linear layers: in 16 bits, and 8 and 4 bits over it."""

    def best(dtypes: tuple[str, ...]) -> float | None:
        rates = [
            ceiling.value
            for dtype in dtypes
            for ceiling in select(ceilings, "linear", dtype=dtype, **parameters)
            if ceiling.unit == "FLOP/s"
        ]
        return max(rates, default=None)

    peak = best(wide)
    if peak is None:
        return {}
    rates = {"gpu.rate_8bit": best(eight), "gpu.rate_4bit": best(four)}
    return {"gpu.peak_flops": peak} | {
        name: rate / peak for name, rate in rates.items() if rate is not None
    }


def _operations(ceilings: Mapping[str, Ceiling], threads: int, read: float) -> dict[str, float]:
    """Rates of GEMVs and of attention, and what an operation costs besides."""
    values: dict[str, float] = {}
    layer = lookup.affine(select(ceilings, "linear", dtype="q8_0", rows=1, threads=threads))
    if layer is not None:
        for kernel in ("gemm", "experts"):
            values[f"kernels.{kernel}.read_share"] = min(layer.rate / read, 1.0)
            values[f"kernels.{kernel}.launch_time"] = layer.overhead
    attention = lookup.affine(select(ceilings, "decode attention", dtype="bf16", threads=threads))
    if attention is not None:
        values["kernels.decode.rise_share"] = min(attention.rate / read, 1.0)
        values["kernels.decode.launch_time"] = attention.overhead
        values["kernels.prefill.launch_time"] = attention.overhead
    peak = _measured_peak(ceilings, ("bf16", "f32"), (), (), threads=threads)
    for prompt in select(ceilings, "prefill attention", dtype="bf16", threads=threads):
        if peak:
            values["kernels.prefill.sustained_share"] = prompt.value / peak["gpu.peak_flops"]
    for node in select(ceilings, "graph node"):
        values["kernels.passes.launch_time"] = node.value
    return values
