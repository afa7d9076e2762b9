"""Norms and activations of channels: arrays of shape (N, channels, ...)."""

from __future__ import annotations

import math

from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.operands import F32, call, check, check_given, nbytes, result
from assay.runtime.array import Array


def group_norm(
    x: Array,
    groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    epsilon: float = 1e-5,
    *,
    slope: float = 1.0,
    alpha: Array | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """GroupNorm: each group of channels of a sample to mean 0 and variance 1, times `weight` plus `bias`.

    `x` is (N, channels, ...); weight and bias are per channel. With `slope` the result passes through
    `leaky_relu`, with `alpha` through `snake`, in the same pass over memory.
    """
    return _norm(
        "group_norm", x, groups, weight, bias, (epsilon, 0.0, slope), alpha, False, out, label
    )


def instance_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    epsilon: float = 1e-5,
    *,
    slope: float = 1.0,
    alpha: Array | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """InstanceNorm: `group_norm` with a group for each channel."""
    _check_channels("instance_norm", x)
    groups = x.shape[1]
    return _norm(
        "instance_norm", x, groups, weight, bias, (epsilon, 0.0, slope), alpha, False, out, label
    )


def adain(
    x: Array,
    gamma: Array,
    beta: Array,
    epsilon: float = 1e-5,
    *,
    slope: float = 1.0,
    alpha: Array | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Adaptive instance norm: (1 + gamma) * instance_norm(x) + beta (Huang and Belongie 2017).

    gamma and beta are (N, channels): every sample has its own.
    """
    _check_channels("adain", x)
    groups = x.shape[1]
    return _norm("adain", x, groups, gamma, beta, (epsilon, 1.0, slope), alpha, True, out, label)


def leaky_relu(
    x: Array, slope: float = 0.01, out: Array | None = None, *, label: str | None = None
) -> Array:
    """x, or slope * x where it is negative."""
    check("leaky_relu", "x", x, None, F32)
    out = result("leaky_relu", x.device, out, x.shape, x.dtype)
    _activate("leaky_relu", x, (1, 1, x.size), None, slope, out, label)
    return out


def snake(x: Array, alpha: Array, out: Array | None = None, *, label: str | None = None) -> Array:
    """Snake: x + sin(alpha * x)**2 / alpha, an alpha for each channel of (N, channels, ...) (Ziyin et al. 2020)."""
    _check_channels("snake", x)
    check("snake", "alpha", alpha, (x.shape[1],), F32)
    out = result("snake", x.device, out, x.shape, x.dtype)
    extents = (x.shape[0], x.shape[1], math.prod(x.shape[2:]))
    _activate("snake", x, extents, alpha, 1.0, out, label)
    return out


def _activate(
    name: str,
    x: Array,
    extents: tuple[int, int, int],
    alpha: Array | None,
    slope: float,
    out: Array,
    label: str | None,
) -> None:
    call(
        "activate_channels",
        [x, alpha, out],
        (*extents, float(slope)),
        x.device,
        counting.memory_traffic(nbytes(x, alpha, out)),
        label or name,
    )


def _check_channels(name: str, x: Array) -> None:
    check(name, "x", x, None, F32)
    if x.ndim < 2:
        raise ShapeError(f"{name}: expected x of (N, channels, ...), got {tuple(x.shape)}")


def _norm(
    name: str,
    x: Array,
    groups: int,
    weight: Array | None,
    bias: Array | None,
    numbers: tuple[float, float, float],
    alpha: Array | None,
    per_sample: bool,
    out: Array | None,
    label: str | None,
) -> Array:
    """Queue a norm; `numbers` are epsilon, what is added to the weights, and the slope."""
    epsilon, offset, slope = numbers
    _check_channels(name, x)
    batch, channels = x.shape[:2]
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise ShapeError(f"{name}: expected groups that divide {channels} channels, got {groups}")
    if not epsilon >= 0:
        raise InputError(f"{name}: expected an epsilon of 0 or more, got {epsilon}")
    expected = (batch, channels) if per_sample else (channels,)
    for what, array in (("weight", weight), ("bias", bias)):
        check_given(name, what, array, expected, F32)
    check_given(name, "alpha", alpha, (channels,), F32)
    out = result(name, x.device, out, x.shape, x.dtype)
    numbers_of_call = (batch, channels, math.prod(x.shape[2:]), groups, int(per_sample))
    call(
        "group_norm",
        [x, weight, bias, alpha, out],
        (*numbers_of_call, float(offset), float(epsilon), float(slope)),
        x.device,
        counting.memory_traffic(nbytes(x, weight, bias, alpha, out)),
        label or name,
    )
    return out
