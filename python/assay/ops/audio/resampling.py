"""Filters of signals: FIR, recursive filters, and resampling by a rational factor."""

from __future__ import annotations

import math

from assay.errors import InputError, ShapeError
from assay.lazy_import import np
from assay.ops.counting import Count
from assay.ops.operands import F32, call, check, nbytes, result
from assay.runtime import allocation, dtypes, transfer
from assay.runtime.array import Array


def resample(
    x: Array, up: int, down: int, *, taps: Array | None = None, label: str | None = None
) -> Array:
    """Signals (..., samples) at up / down times their rate: ceil(samples * up / down) samples.

    The polyphase method: only the products that are kept are computed. Without `taps`, of an odd number
    and applied at the raised rate, the low-pass filter is that of SciPy's `resample_poly`: a Kaiser window (beta 5)
    over 20 times the larger factor, plus 1.
    """
    name = "resample"
    check(name, "x", x, None, F32)
    if x.ndim == 0 or not isinstance(up, int) or not isinstance(down, int) or min(up, down) < 1:
        raise InputError(f"{name}: expected a signal and factors of 1 or more, got {up} and {down}")
    divisor = math.gcd(up, down)
    up, down = up // divisor, down // divisor
    samples = x.shape[-1]
    outputs = -(-samples * up // down)
    out = result(name, x.device, None, (*x.shape[:-1], outputs))
    if taps is None:
        if up == down:
            out[...] = x
            return out
        half = half_width(up, down)
        filtered = _low_pass(2 * half + 1, 1 / max(up, down)) * up
        taps = transfer.store(name, x.device, filtered, dtypes.float32)
    check(name, "taps", taps, (None,), F32)
    if taps.size % 2 == 0:
        raise ShapeError(f"{name}: expected an odd number of taps, got {taps.size}")
    batch = math.prod(x.shape[:-1])
    if out.size == 0:
        return out
    each = -(-taps.size // up)
    call(
        name,
        [x, taps, out],
        (batch, samples, taps.size, up, down, taps.size // 2, outputs),
        x.device,
        Count(2.0 * each * out.size, nbytes(x, taps, out)),
        label,
    )
    return out


def half_width(up: int, down: int) -> int:
    """The taps on either side of the middle one, of SciPy's filter for factors without a common divisor."""
    return 0 if up == down else 10 * max(up, down)


def _low_pass(count: int, cutoff: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A windowed sinc of gain 1 at 0 Hz; the cutoff is a share of half the rate."""
    places = np.arange(count) - (count - 1) / 2
    taps = cutoff * np.sinc(cutoff * places) * np.kaiser(count, 5.0)
    return np.asarray(taps / taps.sum())


def fir(x: Array, taps: Array, *, history: Array | None = None) -> tuple[Array, Array]:
    """Filter signals (..., samples) by taps: y[t] = sum of taps[k] * x[t - k].

    Returns the outputs, as many as samples, and the last inputs, (..., taps - 1), which continue a stream when they
    are passed as `history`; before a signal are zeros.
    """
    from assay import xp
    from assay.ops.convolutions import conv1d

    name = "fir"
    lead, samples = _signals(name, x)
    check(name, "taps", taps, (None,), F32)
    kept = taps.size - 1
    if kept < 0:
        raise ShapeError(f"{name}: expected at least 1 tap, got none")
    joined = allocation.zeros(x.device, (*lead, kept + samples), dtypes.float32, name)
    if history is not None:
        joined[..., :kept] = check(name, "history", history, (*lead, kept), F32)
    joined[..., kept:] = x
    last = transfer.copy(joined[..., samples:], name)
    if x.size == 0:
        return transfer.copy(x, name), last
    weight = allocation.empty(x.device, (1, 1, taps.size), dtypes.float32, name)
    weight[0, 0] = taps[::-1]
    rows = xp.reshape(joined, (math.prod(lead), 1, kept + samples))
    return xp.reshape(conv1d(rows, weight, label=name), x.shape), last


def recursive_filter(
    b: Array, a: Array, x: Array, *, state: Array | None = None, label: str | None = None
) -> tuple[Array, Array]:
    """Filter signals (..., samples): a[0] y[t] = sum of b[k] x[t - k] - sum over k > 0 of a[k] y[t - k].

    Returns the outputs and the state, (..., order), which continues a stream when it is passed as `state`, as
    SciPy's `lfilter` does with `zi`. b and a are padded to equal length.
    """
    name = "recursive_filter"
    lead, samples = _signals(name, x)
    check(name, "b", b, (None,), F32)
    check(name, "a", a, (None,), F32)
    count = max(a.size, b.size)
    if not a.size or not b.size or count < 2:
        raise ShapeError(f"{name}: expected 2 or more coefficients, got {b.size} and {a.size}")
    padded = [allocation.zeros(x.device, (count,), dtypes.float32, name) for _ in range(2)]
    for target, given in zip(padded, (b, a), strict=True):
        target[: given.size] = given
    kept = allocation.zeros(x.device, (*lead, count - 1), dtypes.float32, name)
    if state is not None:
        kept[...] = check(name, "state", state, kept.shape, F32)
    out = result(name, x.device, None, x.shape)
    if out.size:
        call(
            name,
            [x, *padded, kept, out],
            (math.prod(lead), samples, count - 1),
            x.device,
            Count(4.0 * count * out.size, nbytes(x, *padded, kept, kept, out)),
            label,
        )
    return out, kept


def _signals(name: str, x: Array) -> tuple[tuple[int, ...], int]:
    """The axes before the samples, and how many samples there are."""
    check(name, "x", x, None, F32)
    if x.ndim == 0:
        raise ShapeError(f"{name}: expected signals (..., samples), got a scalar")
    return x.shape[:-1], x.shape[-1]
