"""Sums with the residual stream, and scaled or normalized parts of rows."""

from __future__ import annotations

from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.operands import call, check, check_given, nbytes, result
from assay.runtime import dtypes
from assay.runtime.array import Array


def scale(x: Array, factor: float = 1.0, *, softcap: float = 0.0, label: str | None = None) -> None:
    """Multiply `x` by a factor, in place; a softcap c then bounds it by c * tanh(x / c)."""
    # Logits are float32 on every device.
    kinds = (*x.device.capabilities.activation_dtypes, dtypes.float32)
    check("scale", "x", x, None, kinds)
    if not softcap >= 0:
        raise InputError(f"scale: expected a softcap of 0 or more, got {softcap}")
    call(
        "scale",
        [x],
        (x.size, float(factor), float(softcap)),
        x.device,
        counting.memory_traffic(nbytes(x, x)),
        label,
    )


def add_residual(
    x: Array,
    residual: Array,
    *,
    norm: Array | None = None,
    epsilon: float = 0.0,
    factor: float = 1.0,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Residual + factor * x; with `norm`, the rows of x pass through `rms_norm` first."""
    check("add_residual", "x", x, (None, None))
    check("add_residual", "residual", residual, x.shape)
    check_given("add_residual", "norm", norm, (x.shape[1],))
    if not epsilon >= 0:
        raise InputError(f"add_residual: expected an epsilon of 0 or more, got {epsilon}")
    out = result("add_residual", x.device, out, x.shape, x.dtype)
    call(
        "add_residual",
        [x, norm, residual, out],
        (*x.shape, float(epsilon), float(factor)),
        x.device,
        counting.memory_traffic(nbytes(x, norm, residual, out)),
        label,
    )
    return out


def norm_columns(
    x: Array, weight: Array, epsilon: float, *, first: int, label: str | None = None
) -> None:
    """RMSNorm of the columns from `first` on, as many as `weight` has, of each row, in place."""
    check("norm_columns", "x", x, (None, None))
    width = check("norm_columns", "weight", weight, (None,)).shape[0]
    rows, columns = x.shape
    if first < 0 or first + width > columns:
        raise ShapeError(
            f"norm_columns: expected columns {first} to {first + width} of x, got {columns} columns"
        )
    call(
        "norm_columns",
        [x, weight],
        (rows, columns, first, width, float(epsilon)),
        x.device,
        counting.memory_traffic(2 * rows * width * x.dtype.itemsize, weight.nbytes),
        label,
    )
