"""Products of dense matrices, beside the rate of the arithmetic units and beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay.bench import checks, counting, inputs, rivals, yardsticks
from assay.bench.case import Absent, Case, Contestant, Settings, Size, Suite, Trial
from assay.bench.clocks import Call, DeviceClock
from assay.bench.text import shape_text
from assay.runtime.hardware import Device

DTYPES: Final = ("f32", "bf16")
SIZES: Final[tuple[Size, ...]] = (
    (512,), (1024,), (2048,), (256, 2048, 8192), (32, 4096, 4096),
)  # fmt: skip
QUICK_SIZES: Final[tuple[Size, ...]] = ((128,), (256,), (32, 256, 512))


def cases(settings: Settings) -> list[Case]:
    """Every size in every type."""
    sizes = settings.sizes or (QUICK_SIZES if settings.quick else SIZES)
    return [
        case(settings.device, dtype, size * 3 if len(size) == 1 else size)
        for dtype in settings.dtypes or DTYPES
        for size in sizes
    ]


def case(device: Device, dtype: str, size: Size) -> Case:
    """A product of m by k and k by n."""
    return Case(
        f"matmul {dtype} {shape_text(size)}",
        "GFLOP/s",
        lambda: _prepare(device, dtype, size),
        {"operation": "matmul", "dtype": dtype, "m": size[0], "k": size[1], "n": size[2]},
    )


def _prepare(device: Device, dtype: str, size: Size) -> Trial:
    m, k, n = size
    left, right = inputs.normal((m, k), 1), inputs.normal((k, n), 2)
    a, b = inputs.place(device, left, dtype), inputs.place(device, right, dtype)

    out = xp.empty((m, n), dtype=xp.float32, device=device)

    def multiply(_: int) -> None:
        ops.batched_matmul(a, b, out=out)

    counted = counting.count(device, multiply)
    # The reference multiplies what is stored, so that only the product's own error counts.
    reference = inputs.fetch(a) @ inputs.fetch(b)
    tolerance = 4 * np.sqrt(k) * inputs.rounding("f32")

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        kind = {"f32": module.float32, "bf16": module.bfloat16}[dtype]
        first, second = put(left).to(kind), put(right).to(kind)
        return lambda _: first @ second

    in_numpy = (
        rivals.numpy(lambda _: left @ right, counted.flops)
        if dtype == "f32"
        else Absent("NumPy", "has no bfloat16")
    )
    return Trial(
        Contestant("assay", multiply, DeviceClock(device), counted.flops),
        checks.written("double precision", multiply, out, lambda _: reference, tolerance),
        ceiling=yardsticks.arithmetic(device),
        rivals=[in_numpy, rivals.torch(device, in_torch, counted.flops)],
        bytes=counted.bytes,
        flops=counted.flops,
    )


SUITE = Suite(
    "gemm",
    "products of dense matrices",
    cases,
    dtypes=DTYPES,
    axes=(1, 3),
    size_meaning="n or MxKxN",
)
