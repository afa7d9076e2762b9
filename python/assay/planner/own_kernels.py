"""Constants of the kernels of Assay's own engine on a device, for the equations of a step.

On a GPU they are shares of the data sheet's rates, fitted on `bench/results` by
`assay.validate.fitting.own_kernels`. On a CPU a calibration measured the linear layers of the format
themselves: the equations get the rate of that many tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from assay.errors import InputError
from assay.planner.formats import canonical, stored_bytes
from assay.planner.own_engine import FUSED_ROWS, combines
from assay.planner.plan import Plan
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec

_SHARES: Final = (
    "kernels.gemm.read_share",
    "kernels.decode.rise_share",
    "kernels.experts.read_share",
)
_SPREADS: Final = tuple(
    f"kernels.{kind}.spread" for kind in ("gemm", "decode", "prefill", "passes")
)
_LEAST_SPREAD: Final = 0.05
"""Of the logarithm of a time: other shapes than those that were measured differ by that much."""
_TAILS: Final = 2.563
"""Standard deviations between the 10 and the 90 % quantile."""
_CPU_TILE_ROWS: Final = 1.0
"""The least tile that the equation of experts knows: a CPU has none."""
_NEVER_BOUND: Final = 1e6
"""A share of the memory's bandwidth that bounds nothing: the measured layer contains its reads."""


def own_constants(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, plan: Plan
) -> tuple[dict[str, float], list[str]]:
    """Values in place of those of the hardware and of the engine, and what was assumed."""
    from assay.catalog import engines

    own = engines.kernels("assay")
    # The router's kernel on a GPU has phases that end with a barrier, each as long as a small kernel.
    phases = own["router"]["passes"] - 1 if plan.load.on_gpu else 0
    values = {
        "serving.layer_kernels": plan.layer_kernels,
        "serving.expert_kernels": plan.expert_kernels + phases,
    }
    if not plan.load.on_gpu:
        return {**values, **own["cpu"], **_cpu_values(model, hardware, batch, plan)}, []
    chosen = {
        **own["decode"],
        **_linear(canonical(batch.weight_dtype), plan.load.tokens, own),
        **_grouped(model, batch, plan, own),
    }
    ratio = _restated(hardware)
    for name in _SHARES:
        if name in chosen:
            chosen[name] = min(chosen[name] * ratio, 1.0)
    notes = []
    if model.architecture["experts"]:
        notes.append(
            "prefill of experts by the engine of Assay was not measured: its grouped GEMMs are taken "
            "to be those of the tables"
        )
    if hardware.accelerator != "h200_sxm":
        notes.append("kernels of the engine were measured on an H200: its shares of the data sheet")
    return {**values, **chosen}, notes


def _linear(format: str, rows: float, own: Mapping[str, Any]) -> dict[str, float]:
    """Constants of linear layers of a format on this many tokens.

    A layer that does more than read its weights is one that reads them at a lower rate: in bytes of
    the data sheet's bandwidth, a packed weight costs those of its unpacking for each further token.
    Beyond the GEMV's tokens it is dequantized in a kernel of its own, before a 16-bit GEMM.
    """
    if format in ("bf16", "f16", "f32"):
        if rows > FUSED_ROWS:
            return {}
        share = own["gemv"]["kernels.gemm.read_share"] * (1 - own["row_cost"]["share"] * (rows - 1))
        return {**own["untiled"], **own["gemv"], "kernels.gemm.read_share": share}
    packed = own["packed"].get(format, own["packed"]["q4_1"])
    stored = stored_bytes(format)
    if rows > FUSED_ROWS:
        unpacking = own["dequantize"]
        # The GEMM reads 16 bits where its equation counts what is stored.
        more = (2 - stored) * unpacking["byte_time"]
        return {"serving.step.unpacking_time": unpacking["weight_time"] + more}
    costs = stored / packed["share"] + packed["row_bytes"] * (rows - 1)
    return {
        **own["untiled"],
        "kernels.gemm.launch_time": packed["launch_time"],
        "kernels.gemm.read_share": stored / costs,
    }


def _grouped(
    model: ModelSpec, batch: BatchConfig, plan: Plan, own: Mapping[str, Any]
) -> dict[str, float]:
    """Constants of the grouped GEMMs of decode steps: GEMVs of few assignments, tiles of more.

    Steps with prefill keep those of the accelerator's tables.
    """
    shapes = model.architecture
    if not shapes["experts"]:
        return {}
    format = canonical(batch.weight_dtype)
    if format not in ("bf16", "f16"):
        raise InputError(
            f"{model.name}: expected experts in bf16 or f16, got {format}",
            "experts of other formats are not predicted for the engine of Assay yet",
        )
    if batch.prefill_tokens:
        return {}
    kind = "experts_gemv" if combines(plan.load, shapes["experts_per_token"]) else "experts"
    grouped: dict[str, float] = own[kind]
    return grouped


def _restated(hardware: HardwareSpec) -> float:
    """What turns shares of the data sheet's bandwidth into those of a measured one."""
    if hardware.source == "catalog" or not hardware.accelerator:
        return 1.0
    from assay.catalog import accelerators, constants

    entry = accelerators.find(hardware.accelerator)
    fitted = constants.given(str(entry.facts["calibration"]))["kernels.gemm.read_share"]
    return hardware.given["kernels.gemm.read_share"] / fitted


def _cpu_values(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, plan: Plan
) -> dict[str, float]:
    """Rates of linear layers of this format on this many tokens, as they were measured."""
    from assay.planner.calibrate.lookup import affine, linear_seconds, select

    if not hardware.ceilings:
        raise InputError(
            f"{hardware.name}: expected measured linear layers, got none",
            "assay calibrate --device cpu",
        )
    format, shapes = canonical(batch.weight_dtype), model.architecture
    threads = max(
        int(ceiling.parameters.get("threads", 1)) for ceiling in hardware.ceilings.values()
    )
    gemv = affine(select(hardware.ceilings, "linear", dtype=format, rows=1, threads=threads))
    overhead = gemv.overhead if gemv is not None else 0.0

    def rate_of(rows: float, width: float) -> float:
        """FLOPs per second of a layer of gates and ups on this many tokens."""
        inputs, outputs = int(shapes["hidden"]), int(2 * width)
        time = linear_seconds(hardware.ceilings, format, max(round(rows), 1), outputs, inputs)
        return 2.0 * rows * inputs * outputs / max(time - overhead, 1e-12)

    rate = rate_of(max(round(plan.load.tokens), 1), shapes["ffn"] or shapes["expert_ffn"])
    peak = max(hardware.given["gpu.peak_flops"], rate)
    cpu_values = {
        **dict.fromkeys(_SPREADS, _spread(hardware)),
        "gpu.peak_flops": peak,
        "kernels.gemm.launch_time": overhead,
        "kernels.gemm.read_share": _NEVER_BOUND,
        "kernels.gemm.sustained_share": rate / peak,
        # It is stated over the peak of the calibration.
        "kernels.prefill.sustained_share": hardware.given["kernels.prefill.sustained_share"]
        * hardware.given["gpu.peak_flops"]
        / peak,
    }
    if not shapes["experts"]:
        return cpu_values
    # An expert's rows are a linear layer of their own; the equation adds half a tile to each.
    assignments = plan.load.tokens * shapes["experts_per_token"]
    share = shapes["experts_per_token"] / shapes["experts"]
    touched = shapes["experts"] * (1.0 - (1.0 - share) ** plan.load.tokens)
    expert_rate = rate_of(assignments / touched, shapes["expert_ffn"])
    padded = assignments + touched * _CPU_TILE_ROWS / 2
    return cpu_values | {
        "kernels.experts.launch_time": overhead * touched,
        "kernels.experts.read_share": _NEVER_BOUND,
        "kernels.experts.tile_rows": _CPU_TILE_ROWS,
        "kernels.experts.sustained_share": expert_rate / peak * padded / assignments,
    }


def _spread(hardware: HardwareSpec) -> float:
    """Log spread of measured ceilings: the median over them."""
    widths = sorted(math.log(ceiling.hi / ceiling.lo) for ceiling in hardware.ceilings.values())
    return max(widths[len(widths) // 2] / _TAILS, _LEAST_SPREAD)
