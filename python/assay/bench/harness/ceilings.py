"""Ceilings of the machine, as subjects that are sampled in the rounds of other cases.

Read and copy bandwidth of memory and the peak of fused multiply-adds, each an operation of the
device's operation table, so that every backend brings its own implementation.
"""

from __future__ import annotations

import contextlib
from typing import Final

from assay import xp
from assay.bench.harness import inputs
from assay.bench.harness.case import Subject
from assay.bench.harness.clocks import DeviceClock, PinnedCore, SelfTimedClock
from assay.bench.harness.statistics import median
from assay.runtime.array import Array
from assay.runtime.hardware import Device

PIECE_BYTES: Final = (8 << 20, 32 << 20)
"""Minimum and maximum bytes that one call of a cold ceiling reads.

Enough that the launch is negligible, and about as long as the case beside it, so that background
load disturbs both alike.
"""

GPU_PIECE_BYTES: Final = 4 << 30
"""The same on a GPU: far more than any cache, so that launch and tail are negligible."""

_DRAWN_BYTES: Final = 64 << 20
"""Random bytes drawn on the host; larger pieces of a GPU repeat them."""

MOST_WEIGHT_BYTES: Final = 256 << 20
"""Larger than any cache: beyond it, reading twice as much takes twice as long."""
_WEIGHT_SAMPLES: Final = 5

LAUNCHES: Final = 500
"""Kernels launched back to back: fewer than the driver queues before a launch blocks."""

FMA_ELEMENTS: Final = 3 << 12
GPU_FMA_ELEMENTS: Final = 1 << 20
"""Elements that keep every arithmetic unit busy."""
FMA_STEPS: Final = 4001
"""Odd, so that the output differs from the input."""

_F32: Final = 0
"""The code of single precision in calls of operations."""


def read(device: Device, nbytes: int, pieces: int = 1) -> Subject:
    """Reading memory on all cores, rotating through the pieces."""
    arrays = [_piece(device, nbytes, piece) for piece in range(pieces)]
    out = xp.empty((1,), dtype=xp.float32, device=device)

    def call(number: int) -> None:
        stream_read_into(arrays[number % pieces], out)

    return Subject("read", call, DeviceClock(device), amount=arrays[0].nbytes)


def _piece(device: Device, nbytes: int, seed: int) -> Array:
    times = nbytes // _DRAWN_BYTES if device.capabilities.is_gpu else 1
    part = inputs.upload(device, inputs.small_integers(nbytes // max(times, 1) // 4, seed))
    return inputs.repeat(device, part, times) if times > 1 else part


def cold_read(device: Device, nbytes: float, quick: bool) -> Subject:
    """Reading memory that is in no cache, in pieces of about `nbytes`; a quick run uses small ones."""
    least, most = PIECE_BYTES
    piece = least // 2 if quick else min(max(int(nbytes), least), most)
    if device.capabilities.is_gpu and not quick:
        return read(device, GPU_PIECE_BYTES)
    return read(device, piece, inputs.rotated_copies(device, piece, quick))


def weight_read(device: Device, nbytes: int, tokens: float = 1.0) -> Subject:
    """The floor of decoding: reading the weights on all cores, shared by `tokens` tokens."""
    piece = read(device, max(4, min(nbytes, MOST_WEIGHT_BYTES)))
    # A model larger than what is read here takes proportionally longer.
    return Subject("floor", piece.call, piece.clock, tokens * piece.amount / nbytes)


def seconds_to_read(device: Device, nbytes: int) -> float:
    """How long this machine takes to read so many bytes, measured now."""
    floor = weight_read(device, nbytes)
    samples = [floor.clock.measure(floor.call, i, 1) for i in range(_WEIGHT_SAMPLES + 1)]
    return median(samples[1:]) / floor.amount


def copy(device: Device, nbytes: int) -> Subject:
    """Copying on all cores; bytes read and written both count."""
    source = inputs.upload(device, inputs.small_integers(max(nbytes // 8, 1), 0))
    out = xp.empty(source.shape, dtype=xp.float32, device=device)
    return Subject(
        "copy",
        lambda _: stream_copy_into(source, out),
        DeviceClock(device),
        amount=2 * source.nbytes,
    )


def arithmetic(device: Device) -> Subject:
    """Peak FP32 rate: fused multiply-adds in registers, on all cores."""
    x = inputs.upload(device, inputs.small_integers(fma_elements(device), 0))
    out = xp.empty(x.shape, dtype=xp.float32, device=device)
    return Subject(
        "arithmetic",
        lambda _: fma_into(x, out),
        DeviceClock(device),
        amount=2.0 * x.size * FMA_STEPS,
    )


def launch(device: Device, core: PinnedCore | None = None) -> Subject:
    """Launching an empty kernel directly through the driver of a GPU."""

    def call(_: int) -> float:
        with core or contextlib.nullcontext():
            return device.time_bare_launches(LAUNCHES) * 1e-9

    return Subject("bare launch", call, SelfTimedClock(), LAUNCHES)


def fma_elements(device: Device) -> int:
    """Elements that the peak of fused multiply-adds is measured on."""
    return GPU_FMA_ELEMENTS if device.capabilities.is_gpu else FMA_ELEMENTS


def stream_read_into(array: Array, out: Array) -> None:
    """The sum of all elements."""
    _operate("stream_read", [array, out], [array.size], array.nbytes, 0.0)


def stream_copy_into(source: Array, out: Array) -> None:
    """Copy all elements."""
    _operate("stream_copy", [source, out], [source.size], 2 * source.nbytes, 0.0)


def fma_into(x: Array, out: Array) -> None:
    """Apply x -> 1 - x an odd number of times, as fused multiply-adds."""
    numbers: list[int | float] = [x.size, FMA_STEPS, -1.0, 1.0]
    _operate("fma_peak", [x, out], numbers, 2 * x.nbytes, 2.0 * x.size * FMA_STEPS)


def _operate(
    name: str, arrays: list[Array], numbers: list[int | float], nbytes: int, flops: float
) -> None:
    device = arrays[0].device
    device.operate(
        name,
        [(array.buffer, array.offset, array.nbytes, _F32) for array in arrays],
        numbers,
        label=name,
        bytes=nbytes,
        flops=flops,
    )
