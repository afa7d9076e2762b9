"""What NumPy has beyond the standard: `pad` and `einsum`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from assay.errors import InputError, ShapeError
from assay.runtime import dtypes, numpy_kernels, transfer
from assay.runtime.allocation import common_device
from assay.runtime.array import Array
from assay.runtime.dtypes import NUMERIC
from assay.xp.creation import full
from assay.xp.einsum_products import by_matrix_products
from assay.xp.searching import take

_MODES: Final = ("constant", "edge", "reflect", "symmetric", "wrap")


def pad(
    x: Array,
    /,
    pad_width: int | tuple[int, int] | Sequence[tuple[int, int]],
    mode: str = "constant",
    *,
    constant_values: float = 0,
) -> Array:
    """The array with elements before and after each axis, as `numpy.pad`.

    `pad_width` is a number for both sides of all axes, a pair for all, or a pair for each. The mode is constant, edge,
    reflect (without the edge), symmetric (with it) or wrap.
    """
    widths = _widths(x, pad_width)
    if mode not in _MODES:
        raise InputError(f'pad: expected a mode, got "{mode}"', f"one of: {', '.join(_MODES)}")
    if mode != "constant" and any(
        extent == 0 and before + after
        for extent, (before, after) in zip(x.shape, widths, strict=True)
    ):
        raise ShapeError(f"pad: expected elements to repeat by {mode}, got shape {x.shape}")
    shape = tuple(
        before + extent + after for extent, (before, after) in zip(x.shape, widths, strict=True)
    )
    if x.device.capabilities.has_array_kernels:
        return pad_by_kernels(x, shape, widths, mode, constant_values)
    options: dict[str, Any] = {"constant_values": constant_values} if mode == "constant" else {}
    pad_numpy: Any = np.pad
    return numpy_kernels.compute(
        "pad",
        lambda view, out: np.copyto(out, pad_numpy(view, widths, mode, **options)),
        [x],
        shape,
        x.dtype,
    )


def pad_by_kernels(
    x: Array, shape: tuple[int, ...], widths: list[tuple[int, int]], mode: str, value: float
) -> Array:
    """The padding by copies and gathers, which devices have kernels of."""
    if mode == "constant":
        out = full(shape, value, dtype=x.dtype, device=x.device)
        inside = zip(x.shape, widths, strict=True)
        out[tuple(slice(before, before + extent) for extent, (before, _) in inside)] = x
        return out
    for axis, (extent, pair) in enumerate(zip(x.shape, widths, strict=True)):
        if any(pair):
            places = np.pad(np.arange(extent), pair, mode)  # type: ignore[call-overload]
            x = take(x, transfer.store("pad", x.device, places, dtypes.int64), axis=axis)
    return x


def _widths(x: Array, given: Any) -> list[tuple[int, int]]:
    """A pair for each axis."""
    try:
        widths = np.broadcast_to(np.asarray(given), (x.ndim, 2))
    except ValueError:
        raise ShapeError(
            f"pad: expected a number, a pair or {x.ndim} pairs, got {given!r}"
        ) from None
    if widths.size and (widths.dtype.kind not in "iu" or widths.min() < 0):
        raise InputError(f"pad: expected whole numbers of 0 or more, got {given!r}")
    return [(int(before), int(after)) for before, after in widths]


def einsum(subscripts: str, /, *arrays: Array) -> Array:
    """The sum of products that `subscripts` names, such as "ij,jk->ik", as `numpy.einsum`.

    Several arrays are contracted in pairs, in the order that takes the fewest operations.
    """
    if not arrays:
        raise InputError(f'einsum: expected arrays for "{subscripts}", got none')
    promoted = functools.reduce(
        lambda first, second: dtypes.promote(first, second, "einsum"), (x.dtype for x in arrays)
    )
    dtypes.require_kind(promoted, NUMERIC, "einsum")
    device = common_device("einsum", arrays)
    if device.capabilities.has_array_kernels and promoted.kind == "float":
        same = [
            x if x.dtype is promoted else transfer.astype(x, promoted, "einsum") for x in arrays
        ]
        if (computed := by_matrix_products(subscripts, same)) is not None:
            return computed
    single = np.dtype(np.float32) if promoted is dtypes.bfloat16 else promoted.storage
    einsum_numpy: Any = np.einsum

    def contract(*views: Any) -> Any:
        return einsum_numpy(
            subscripts, *(view.astype(single, copy=False) for view in views), optimize=True
        )

    values = numpy_kernels.collect("einsum", contract, arrays)
    return transfer.store("einsum", arrays[0].device, np.asarray(values, order="C"), promoted)
