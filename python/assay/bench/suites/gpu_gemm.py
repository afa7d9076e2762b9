"""GEMMs that only GPUs have: FP8, TF32, batched, and with a fused epilogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay.bench.harness import checks, counting, inputs
from assay.bench.harness.case import Case, PreparedCase, Size, Subject
from assay.bench.harness.clocks import Call, DeviceClock
from assay.bench.harness.seeding import shifted
from assay.bench.harness.text import shape_text
from assay.bench.rivals.pytorch import pytorch_rival
from assay.bench.suites import low_precision
from assay.runtime.array import Array
from assay.runtime.hardware import Device

BATCHED: Final = (64, 1024, 1024, 1024)
FUSED: Final = (4096, 4096, 4096)
CHECKED_ROWS: Final = 24
_KINDS: Final = 1 << 16
"""FP8 values that the matrices are drawn from."""


def fp8(device: Device, size: Size) -> Case:
    """An FP8 GEMM with a scale for each row of either matrix."""
    return _case("fp8", size, lambda: _fp8(device, *size))


def tf32(device: Device, size: Size) -> Case:
    """A GEMM of single-precision matrices whose elements tensor cores round to TF32."""
    return _case("tf32", size, lambda: _tf32(device, *size))


def batched(device: Device) -> Case:
    """A batched GEMM in bfloat16."""
    return _case("batched bf16", BATCHED, lambda: _batched(device, *BATCHED))


def fused(device: Device) -> Case:
    """A linear layer with bias and activation in the epilogue."""
    return _case("linear bias gelu_tanh bf16", FUSED, lambda: _fused(device, *FUSED))


def _case(name: str, size: Size, prepare: Callable[[], PreparedCase]) -> Case:
    title = name if name.startswith(("linear", "batched")) else f"matmul {name}"
    return Case(
        f"{title} {shape_text(size)}",
        "TFLOP/s",
        prepare,
        {"operation": title, "dtype": name.split()[-1], "size": list(size)},
    )


def _rows(count: int) -> inputs.NumPyArray:
    return np.unique(np.linspace(0, count - 1, CHECKED_ROWS).astype(int))


def _fp8(device: Device, m: int, k: int, n: int) -> PreparedCase:
    source = np.random.default_rng(shifted(1))
    kinds = low_precision.to_e4m3(inputs.standard_normal((_KINDS,), 2) * 16)
    codes = [kinds[source.integers(0, _KINDS, (rows, k), np.uint16)] for rows in (m, n)]
    scales = [source.uniform(0.01, 0.03, rows).astype(np.float32) for rows in (m, n)]
    x, weights = (
        ops.pack(code, "fp8", (len(code), k), device, scales=scale)
        for code, scale in zip(codes, scales, strict=True)
    )
    out = xp.empty((m, n), dtype=xp.bfloat16, device=device)

    def multiply(_: int) -> None:
        ops.linear(x, weights, out=out)

    counted = counting.count(device, multiply)
    rows, table = _rows(m), low_precision.e4m3().astype(np.float32)
    products = table[codes[0][rows]] @ table[codes[1]].T
    reference = products * scales[0][rows, None] * scales[1]

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        a, b = (upload(code).view(module.float8_e4m3fn) for code in codes)
        unit = module.ones((), device=a.device)
        columns = b.t()

        def call(_: int) -> object:
            return module._scaled_mm(a, columns, unit, unit, out_dtype=module.bfloat16)

        return call

    return _prepared(
        device, multiply, out, counted, reference, rows, in_torch, 1e-2,
        "a scale for each row of either matrix; PyTorch's _scaled_mm has one for each matrix",
    )  # fmt: skip


def _tf32(device: Device, m: int, k: int, n: int) -> PreparedCase:
    left, right = inputs.standard_normal((m, k), 1), inputs.standard_normal((k, n), 2)
    room = 2 * 4 * (m * k + k * n + m * n)
    # A device of its own: TF32 is allowed for a device, and other cases measure single precision.
    rounding = Device(device.name, pool_bytes=max(room, 1 << 30), allow_tf32=True)
    a, b = (inputs.upload(rounding, host, "f32") for host in (left, right))
    out = xp.empty((m, n), dtype=xp.float32, device=rounding)

    def multiply(_: int) -> None:
        ops.batched_matmul(a, b, out=out)

    counted = counting.count(rounding, multiply)
    rows = _rows(m)
    reference = left[rows].astype(np.float64) @ right.astype(np.float64)

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        first, second = upload(left), upload(right)
        allowed = module.backends.cuda.matmul

        def call(_: int) -> object:
            allowed.allow_tf32 = True
            try:
                return first @ second
            finally:
                allowed.allow_tf32 = False

        return call

    # Ten explicit bits, rounded or cut off, of both operands of each product.
    return _prepared(rounding, multiply, out, counted, reference, rows, in_torch, 2 * 2.0**-10)


def _batched(device: Device, count: int, m: int, k: int, n: int) -> PreparedCase:
    left, right = inputs.standard_normal((count, m, k), 1), inputs.standard_normal((count, k, n), 2)
    a, b = (inputs.upload(device, host, "bf16") for host in (left, right))
    out = xp.empty((count, m, n), dtype=xp.bfloat16, device=device)

    def multiply(_: int) -> None:
        ops.batched_matmul(a, b, out=out)

    counted = counting.count(device, multiply)
    chosen = np.array([0, count // 2, count - 1])
    reference = inputs.download(a)[chosen] @ inputs.download(b)[chosen]

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        first, second = (upload(host).to(module.bfloat16) for host in (left, right))
        return lambda _: module.bmm(first, second)

    tolerance = inputs.unit_roundoff("bf16") + 1e-4
    return _prepared(device, multiply, out, counted, reference, chosen, in_torch, tolerance)


def _fused(device: Device, m: int, k: int, n: int) -> PreparedCase:
    given, rows_of_weights = (
        inputs.standard_normal((m, k), 1),
        inputs.standard_normal((n, k), 2) * k**-0.5,
    )
    added = inputs.standard_normal((n,), 3)
    x, bias = inputs.upload(device, given, "bf16"), inputs.upload(device, added, "bf16")
    weights = ops.pack(rows_of_weights, "bf16", (n, k), device)
    out = xp.empty((m, n), dtype=xp.bfloat16, device=device)

    def multiply(_: int) -> None:
        ops.linear(x, weights, bias=bias, activation="gelu_tanh", out=out)

    counted = counting.count(device, multiply)
    rows = _rows(m)
    stored = inputs.download(inputs.upload(device, rows_of_weights, "bf16"))
    sums = inputs.download(x)[rows] @ stored.T + inputs.download(bias)
    reference = 0.5 * sums * (1 + np.tanh(np.sqrt(2 / np.pi) * (sums + 0.044715 * sums**3)))

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        a, b, c = (upload(host).to(module.bfloat16) for host in (given, rows_of_weights, added))
        columns = b.t()
        return lambda _: module._addmm_activation(c, a, columns, use_gelu=True)

    tolerance = 2 * inputs.unit_roundoff("bf16")
    return _prepared(device, multiply, out, counted, reference, rows, in_torch, tolerance)


def _prepared(
    device: Device,
    call: Call,
    out: Array,
    counted: counting.WorkCounts,
    reference: inputs.NumPyArray,
    rows: inputs.NumPyArray,
    in_torch: Callable[[Any, Callable[[Any], Any]], Call],
    tolerance: float,
    note: str = "",
) -> PreparedCase:
    return PreparedCase(
        Subject("assay", call, DeviceClock(device), counted.flops),
        checks.output("double precision", call, out, lambda _: reference, tolerance, rows),
        rivals=[pytorch_rival(device, in_torch, counted.flops)],
        bytes=counted.bytes,
        flops=counted.flops,
        note=note,
    )
