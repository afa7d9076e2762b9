"""Convolutions over samples and pixels, in the layouts of PyTorch: (N, C, L) and (N, C, H, W)."""

from __future__ import annotations

from typing import Final

from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.counting import Count
from assay.ops.linear import activation_code
from assay.ops.operands import call, check, check_given, nbytes, result
from assay.runtime.array import Array

Pair = int | tuple[int, int]
"""One number for both axes, or height and width."""

_TERMS: Final = {"highest": 3, "high": 2, "medium": 1}
"""How many numbers of 8 bits are enough of each, by precision."""


def conv1d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: int = 1,
    padding: Pair = 0,
    dilation: int = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Array | None = None,
    precision: str = "highest",
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Convolve samples: activation(cross-correlation + bias) + residual.

    `x` is (N, channels, length), or (channels, length) without a batch; `weight` is (filters,
    channels / groups, kernel); the result is (N, filters, length), where a length is (length + padding
    - dilation * (kernel - 1) - 1) // stride + 1. A pair of paddings is left and right.

    Of the 24 bits of numbers, a precision of "high" needs 16 and "medium" 8, where products of those are faster: on
    the AMX tiles of CPUs.

    >>> import assay.xp as xp
    >>> x = xp.asarray([[1.0, 2.0, 4.0, 8.0]], dtype=xp.float32)
    >>> weight = xp.asarray([[[-1.0, 1.0]]], dtype=xp.float32)
    >>> conv1d(x, weight).tolist()
    [[1.0, 2.0, 4.0]]
    """
    name = "conv1d"
    _check_groups(name, x, weight, groups, axes=1)
    left, right = _pair(name, "padding", padding, least=0)
    lead = x.shape[:-2]
    length, kernel = x.shape[-1], weight.shape[-1]
    stride, _ = _pair(name, "stride", stride)
    dilation, _ = _pair(name, "dilation", dilation)
    outputs = _outputs(name, length + left + right, kernel, stride, dilation)
    shape = (*lead, weight.shape[0], outputs)
    check_given(name, "bias", bias, (weight.shape[0],), (x.dtype,))
    check_given(name, "residual", residual, shape, (x.dtype,))
    out = result(name, x.device, out, shape, x.dtype)
    _convolve(
        name,
        (x, weight, bias, residual, out),
        (1, length, 1, kernel, 1, stride, 0, left, 1, dilation, groups, 1, outputs),
        activation,
        precision,
        label,
    )
    return out


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Array | None = None,
    precision: str = "highest",
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Convolve pixels: activation(cross-correlation + bias) + residual.

    `x` is (N, channels, height, width), `weight` is (filters, channels / groups, kernel height, kernel
    width). Stride, padding (on both sides) and dilation are one number or those of height and width.
    `precision` is that of `conv1d`.
    """
    name = "conv2d"
    _check_groups(name, x, weight, groups, axes=2)
    strides, dilations = _pair(name, "stride", stride), _pair(name, "dilation", dilation)
    paddings = _pair(name, "padding", padding, least=0)
    outputs = tuple(
        _outputs(name, extent + 2 * pad, kernel, step, spread)
        for extent, pad, kernel, step, spread in zip(
            x.shape[-2:], paddings, weight.shape[-2:], strides, dilations, strict=True
        )
    )
    shape = (*x.shape[:-3], weight.shape[0], *outputs)
    check_given(name, "bias", bias, (weight.shape[0],), (x.dtype,))
    check_given(name, "residual", residual, shape, (x.dtype,))
    out = result(name, x.device, out, shape, x.dtype)
    _convolve(
        name,
        (x, weight, bias, residual, out),
        (*x.shape[-2:], *weight.shape[-2:], *strides, *paddings, *dilations, groups, *outputs),
        activation,
        precision,
        label,
    )
    return out


def conv_transpose1d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    precision: str = "highest",
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """The transpose of `conv1d`: sample t adds weight[k] * x[t] to output t * stride + k * dilation - padding.

    `x` is (N, channels, length) or (channels, length); `weight` is (channels, filters / groups,
    kernel); the result has (length - 1) * stride - 2 * padding + dilation * (kernel - 1) +
    output_padding + 1 samples. `precision` is that of `conv1d`.
    """
    name = "conv_transpose1d"
    check(name, "x", x, None)
    if x.ndim not in (2, 3):
        raise ShapeError(f"{name}: expected x of 2 or 3 axes, got {tuple(x.shape)}")
    channels, length = x.shape[-2:]
    check(name, "weight", weight, (channels, None, None), (x.dtype,))
    for what, value, least in (
        ("stride", stride, 1),
        ("dilation", dilation, 1),
        ("groups", groups, 1),
        ("padding", padding, 0),
        ("output_padding", output_padding, 0),
    ):
        _check_number(name, what, value, least)
    kernel = weight.shape[2]
    filters = weight.shape[1] * groups
    if channels % groups or not channels:
        raise ShapeError(f"{name}: expected channels in multiples of {groups}, got {channels}")
    reach = dilation * (kernel - 1) + 1 + output_padding
    outputs = (length - 1) * stride - 2 * padding + reach
    if outputs < 0 or length == 0:
        raise ShapeError(
            f"{name}: expected samples in the result, got {outputs} from length {length}"
        )
    check_given(name, "bias", bias, (filters,), (x.dtype,))
    batch = x.shape[0] if x.ndim == 3 else 1
    out = result(name, x.device, out, (*x.shape[:-2], filters, outputs), x.dtype)
    products = counting.gemm(
        batch * length, weight.shape[1] * kernel, channels // groups, weight.dtype.itemsize
    )
    call(
        "transposed_convolution",
        [x, weight, bias, out],
        (
            *(batch, channels, length, filters, kernel, stride, padding, dilation, groups, outputs),
            _terms(name, precision),
        ),
        x.device,
        Count(groups * products.flops, nbytes(x, weight, bias, out)),
        label or name,
    )
    return out


def _convolve(
    name: str,
    arrays: tuple[Array, Array, Array | None, Array | None, Array],
    extents: tuple[int, ...],
    activation: str | None,
    precision: str,
    label: str | None,
) -> None:
    """Queue a convolution of these extents: those of the table from height on, without channels and filters."""
    x, weight, bias, residual, out = arrays
    height, width, *rest = extents
    axes = weight.ndim - 2
    batch = x.shape[0] if x.ndim == axes + 2 else 1
    filters, channels, groups = weight.shape[0], x.shape[-axes - 1], rest[8]
    positions = rest[-2] * rest[-1]
    depth = weight.size // max(filters, 1)
    each = counting.gemm(batch * positions, filters // groups, depth, weight.dtype.itemsize)
    call(
        "convolution",
        [x, weight, bias, residual, out],
        (
            *(batch, channels, height, width, filters, *rest),
            activation_code(name, activation),
            _terms(name, precision),
        ),
        x.device,
        Count(groups * each.flops, nbytes(x, weight, bias, residual, out)),
        label or name,
    )


def _terms(name: str, precision: str) -> int:
    if precision not in _TERMS:
        names = " or ".join(_TERMS)
        raise InputError(f"{name}: expected a precision of {names}, got {precision!r}")
    return _TERMS[precision]


def _check_number(name: str, what: str, value: object, least: int) -> int:
    if not isinstance(value, int) or value < least:
        raise InputError(
            f"{name}: expected {what} as a whole number of {least} or more, got {value!r}"
        )
    return value


def _pair(name: str, what: str, value: Pair, least: int = 1) -> tuple[int, int]:
    values = value if isinstance(value, tuple) else (value, value)
    if len(values) != 2:
        raise InputError(f"{name}: expected {what} as a number or a pair, got {value!r}")
    first, second = values
    return _check_number(name, what, first, least), _check_number(name, what, second, least)


def _check_groups(name: str, x: Array, weight: Array, groups: int, axes: int) -> None:
    check(name, "x", x, None)
    check(name, "weight", weight, (None,) * (axes + 2), (x.dtype,))
    if x.ndim not in (axes + 1, axes + 2):
        raise ShapeError(
            f"{name}: expected x of {axes + 1} or {axes + 2} axes, got {tuple(x.shape)}"
        )
    _check_number(name, "groups", groups, 1)
    channels, filters = x.shape[-axes - 1], weight.shape[0]
    if weight.shape[1] * groups != channels or filters % groups or not channels:
        raise ShapeError(
            f"{name}: expected weight of channels / groups = {channels} / {groups} and filters in "
            f"multiples of {groups}, got {tuple(weight.shape)}"
        )


def _outputs(name: str, padded: int, kernel: int, stride: int, dilation: int) -> int:
    reach = dilation * (kernel - 1) + 1
    if kernel < 1 or padded < reach:
        raise ShapeError(f"{name}: expected at least {reach} elements with padding, got {padded}")
    return (padded - reach) // stride + 1
