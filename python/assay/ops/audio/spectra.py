"""Frames of a signal and their frequencies: STFT and its inverse."""

from __future__ import annotations

import math

import assay._native as native
from assay._native import FORMATS
from assay.errors import InputError, ShapeError
from assay.ops.audio.windows import window as make_window
from assay.ops.counting import Count
from assay.ops.operands import F32, Operand, call, check, nbytes, operand, result
from assay.runtime import allocation, dtypes, fourier
from assay.runtime.array import Array
from assay.runtime.layout import Layout


def frames(x: Array, length: int, hop: int) -> Array:
    """The frames of a signal, (..., frames, length), `hop` samples apart, as a view of its memory."""
    count = _frame_count("frames", x.shape[-1] if x.ndim else 0, length, hop)
    step = x.strides[-1]
    shape = (*x.shape[:-1], count, length)
    return x.view(Layout(shape, (*x.strides[:-1], hop * step, step), x.offset))


def stft(
    x: Array,
    n_fft: int,
    *,
    hop: int | None = None,
    window: Array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    value: str = "complex",
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """The short-time Fourier transform of (..., samples): (..., n_fft // 2 + 1, frames), as PyTorch and librosa.

    Frames are `hop` apart (n_fft // 4) and multiplied by the window (Hann). With `center`, frame t is centered on
    sample t * hop; beyond its ends the signal is reflected, or zero with `pad_mode` "constant". `value` is complex,
    or the magnitude or power of it, as float32.
    """
    name = "stft"
    check(name, "x", x, None, F32)
    if x.ndim == 0 or value not in native.FRAME_VALUES or pad_mode not in ("reflect", "constant"):
        raise InputError(
            f"{name}: expected a signal, a value of {', '.join(native.FRAME_VALUES)} and a pad_mode of reflect or "
            f"constant, got shape {tuple(x.shape)}, {value} and {pad_mode}"
        )
    hop = n_fft // 4 if hop is None else hop
    padding = n_fft // 2 if center else 0
    samples = x.shape[-1]
    if padding and pad_mode == "reflect" and samples <= padding:
        raise ShapeError(
            f"{name}: expected more than {padding} samples to reflect, got {samples}",
            'pass pad_mode="constant" or center=False',
        )
    count = _frame_count(name, samples + 2 * padding, n_fft, hop)
    used = make_window("hann", n_fft, device=x.device) if window is None else window
    check(name, "window", used, (n_fft,), F32)
    batch = math.prod(x.shape[:-1])
    dtype = dtypes.complex64 if value == "complex" else dtypes.float32
    out = result(name, x.device, out, (*x.shape[:-1], n_fft // 2 + 1, count), dtype)
    if batch == 0:
        return out
    flops = batch * count * 2.5 * n_fft * math.log2(max(n_fft, 1))
    call(
        name,
        [x, used, _pairs(out)],
        (
            batch,
            samples,
            n_fft,
            hop,
            count,
            padding,
            int(pad_mode == "reflect"),
            native.FRAME_VALUES[value],
        ),
        x.device,
        Count(flops, nbytes(x, used, out)),
        label,
    )
    return out


def istft(
    spectrum: Array,
    *,
    hop: int | None = None,
    window: Array | None = None,
    center: bool = True,
    length: int | None = None,
    label: str | None = None,
) -> Array:
    """The signal of an `stft`, (..., n_fft // 2 + 1, frames) of complex64, for an even n_fft.

    Frames are added at their places and divided by the sum of the squared windows. `length` cuts the signal or
    extends it by zeros; without it, it ends with the last frame, or at its center.
    """
    name = "istft"
    check(name, "spectrum", spectrum, None, (dtypes.complex64,))
    if spectrum.ndim < 2 or spectrum.shape[-2] < 2:
        raise ShapeError(f"{name}: expected (..., bins, frames), got {tuple(spectrum.shape)}")
    n_fft, count = 2 * (spectrum.shape[-2] - 1), spectrum.shape[-1]
    hop = n_fft // 4 if hop is None else hop
    _frame_count(name, n_fft, n_fft, hop)
    used = make_window("hann", n_fft, device=spectrum.device) if window is None else window
    check(name, "window", used, (n_fft,), F32)
    lead = spectrum.shape[:-2]
    rows = allocation.empty(spectrum.device, (*lead, count, n_fft // 2 + 1), dtypes.complex64, name)
    rows[...] = spectrum.mT
    pieces = fourier.transform("irfft", rows, n_fft, 1 / n_fft)
    first = n_fft // 2 if center else 0
    whole = max(n_fft + hop * (count - 1) - 2 * first, 0) if count else 0
    samples = whole if length is None else length
    out = result(name, spectrum.device, None, (*lead, samples))
    if out.size == 0 or count == 0:
        out[...] = 0.0
        return out
    call(
        "overlap_add",
        [pieces, used, out],
        (math.prod(lead), count, n_fft, hop, first, samples, 1e-11),
        spectrum.device,
        Count(3.0 * pieces.size, nbytes(pieces, used, out)),
        label or name,
    )
    return out


def _pairs(array: Array) -> Array | Operand:
    """An operand whose complex numbers are pairs of float32."""
    if array.dtype is dtypes.float32:
        return array
    buffer, offset, size = array.buffer, array.offset, array.nbytes
    if not buffer.pooled or not array.layout.is_contiguous(array.dtype.itemsize):
        operand("stft", "out", array)
    return buffer, offset, size, FORMATS["f32"]


def _frame_count(name: str, samples: int, length: int, hop: int) -> int:
    """How many whole frames fit."""
    if length < 1 or hop < 1:
        raise InputError(
            f"{name}: expected frames and hops of 1 or more samples, got {length} and {hop}"
        )
    if samples < length:
        raise ShapeError(f"{name}: expected at least {length} samples for a frame, got {samples}")
    return 1 + (samples - length) // hop
