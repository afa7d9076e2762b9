"""GEMMs of dense matrices, beside the peak of fused multiply-adds and the rivals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay._native import kernel_levels
from assay.bench.harness import ceilings, checks, counting, inputs
from assay.bench.harness.case import Absent, Case, PreparedCase, Settings, Size, Subject, Suite
from assay.bench.harness.clocks import Call, DeviceClock
from assay.bench.harness.text import shape_text
from assay.bench.rivals.numpy import numpy_rival
from assay.bench.rivals.pytorch import pytorch_rival
from assay.bench.suites import gpu_gemm
from assay.errors import InputError
from assay.runtime.dtypes import BY_NAME
from assay.runtime.hardware import Device

DTYPES: Final = ("f32", "bf16")
GPU_DTYPES: Final = ("bf16", "f16", "f32", "tf32", "fp8")
SIZES: Final[tuple[Size, ...]] = (
    (512,), (1024,), (2048,), (256, 2048, 8192), (32, 4096, 4096), (256, 1024, 4096), (32, 1024, 4096),
)  # fmt: skip
QUICK_SIZES: Final[tuple[Size, ...]] = ((128,), (256,), (32, 256, 512))
GPU_SIZES: Final[tuple[Size, ...]] = ((4096,), (8192,))
_ON_TENSOR_CORES: Final = {"fp8": gpu_gemm.fp8, "tf32": gpu_gemm.tf32}
"""Types that only GPUs multiply."""
CHECKED_ROWS: Final = 24
"""Rows of a large GEMM that are checked in double precision."""


def cases(settings: Settings) -> list[Case]:
    """Every size in every type."""
    on_gpu = settings.device.capabilities.is_gpu
    usual = GPU_SIZES if on_gpu else SIZES
    sizes = settings.sizes or (QUICK_SIZES if settings.quick else usual)
    listed = [
        case(settings.device, dtype, size * 3 if len(size) == 1 else size)
        for dtype in settings.dtypes or (GPU_DTYPES if on_gpu else DTYPES)
        for size in sizes
    ]
    if on_gpu and not (settings.sizes or settings.dtypes or settings.quick):
        listed += [gpu_gemm.batched(settings.device), gpu_gemm.fused(settings.device)]
    return listed


def case(device: Device, dtype: str, size: Size) -> Case:
    """A GEMM of m by k and k by n matrices."""
    if dtype in _ON_TENSOR_CORES:
        if not device.capabilities.is_gpu:
            raise InputError(f"{device.name} has no {dtype} GEMM", "choose other --dtypes")
        return _ON_TENSOR_CORES[dtype](device, size)
    return Case(
        f"matmul {dtype} {shape_text(size)}",
        "TFLOP/s" if device.capabilities.is_gpu else "GFLOP/s",
        lambda: _prepare(device, dtype, size),
        {"operation": "matmul", "dtype": dtype, "m": size[0], "k": size[1], "n": size[2]},
    )


def _prepare(device: Device, dtype: str, size: Size) -> PreparedCase:
    m, k, n = size
    left, right = inputs.standard_normal((m, k), 1), inputs.standard_normal((k, n), 2)
    a, b = inputs.upload(device, left, dtype), inputs.upload(device, right, dtype)

    # A CPU stores sums of 16-bit inputs in FP32; a GPU rounds them, as its rivals do.
    out_dtype = dtype if device.capabilities.is_gpu else "f32"
    out = xp.empty((m, n), dtype=BY_NAME[inputs.DTYPES[out_dtype]], device=device)

    def multiply(_: int) -> None:
        ops.batched_matmul(a, b, out=out)

    counted = counting.count(device, multiply)
    # The reference multiplies the rounded inputs, so that only the error of the GEMM counts.
    rows = np.unique(np.linspace(0, m - 1, CHECKED_ROWS).astype(int)) if m > 2048 else np.arange(m)
    reference = inputs.download(a)[rows] @ inputs.download(b)
    tolerance = 4 * np.sqrt(k) * inputs.unit_roundoff("f32") + (
        0 if out_dtype == "f32" else inputs.unit_roundoff(out_dtype)
    )

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        kind = getattr(module, inputs.DTYPES[dtype])
        first, second = upload(left).to(kind), upload(right).to(kind)
        return lambda _: first @ second

    in_numpy = (
        numpy_rival(lambda _: left @ right, counted.flops, device)
        if dtype == "f32"
        else Absent("NumPy", f"has no {dtype} GEMM")
    )
    return PreparedCase(
        Subject("assay", multiply, DeviceClock(device), counted.flops),
        checks.output("double precision", multiply, out, lambda _: reference, tolerance, rows),
        ceiling=None if _on_tensor_cores(device, dtype) else ceilings.arithmetic(device),
        rivals=[in_numpy, pytorch_rival(device, in_torch, counted.flops)],
        bytes=counted.bytes,
        flops=counted.flops,
    )


def _on_tensor_cores(device: Device, dtype: str) -> bool:
    """Whether tensor cores or AMX tiles run it, whose only measured ceiling is a GEMM itself."""
    return device.capabilities.is_gpu or (dtype == "bf16" and "amx" in kernel_levels()[-1])


SUITE = Suite(
    "gemm", cases, dtypes=GPU_DTYPES, axes=(1, 3), size_meaning="n or MxKxN", seeding="inputs"
)
