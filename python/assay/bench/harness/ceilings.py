"""What the machine can do at most, as contestants that run in the rounds of other cases.

Each is an operation of the device's own table, so that every device has its own way to do it.
"""

from __future__ import annotations

import contextlib
from typing import Final

from assay import xp
from assay.bench.harness import inputs
from assay.bench.harness.case import Contestant
from assay.bench.harness.clocks import DeviceClock, OneCore, ToldClock
from assay.bench.harness.statistics import median
from assay.runtime.array import Array
from assay.runtime.hardware import Device

PIECE_BYTES: Final = (8 << 20, 32 << 20)
"""Least and most bytes that one call of a cold yardstick goes through.

Starting it costs nothing beside the least, and it takes about as long as the case that it is held
against, so that whatever else the machine does meets both alike.
"""

GPU_PIECE_BYTES: Final = 4 << 30
"""The same of a GPU, far more than any cache: beside it, starting and ending cost nothing."""

_DRAWN_BYTES: Final = 64 << 20
"""What is drawn on the host; a GPU's larger pieces repeat it."""

MOST_WEIGHT_BYTES: Final = 256 << 20
"""Larger than any cache: beyond it, reading twice as much takes twice as long."""
_WEIGHT_SAMPLES: Final = 5

LAUNCHES: Final = 500
"""Kernels that a driver is given at once: fewer than it queues before it has the host wait."""

ELEMENTS: Final = 3 << 12
GPU_ELEMENTS: Final = 1 << 20
"""Numbers that keep every arithmetic unit busy."""
STEPS: Final = 4001
"""Odd, so that what comes out is not what went in."""

_F32: Final = 0
"""The code of single precision in calls of operations."""


def read(device: Device, nbytes: int, pieces: int = 1) -> Contestant:
    """Reading memory on all cores, each piece in its turn."""
    arrays = [_piece(device, nbytes, piece) for piece in range(pieces)]
    out = xp.empty((1,), dtype=xp.float32, device=device)

    def call(number: int) -> None:
        read_into(arrays[number % pieces], out)

    return Contestant("read", call, DeviceClock(device), amount=arrays[0].nbytes)


def _piece(device: Device, nbytes: int, seed: int) -> Array:
    times = nbytes // _DRAWN_BYTES if device.capabilities.is_gpu else 1
    part = inputs.place(device, inputs.counts(nbytes // max(times, 1) // 4, seed))
    return inputs.repeat(device, part, times) if times > 1 else part


def cold_read(device: Device, nbytes: float, quick: bool) -> Contestant:
    """Reading memory that is in no cache, in pieces of about so many bytes.

    A quick run only looks at a little.
    """
    least, most = PIECE_BYTES
    piece = least // 2 if quick else min(max(int(nbytes), least), most)
    if device.capabilities.is_gpu and not quick:
        return read(device, GPU_PIECE_BYTES)
    return read(device, piece, inputs.copies(device, piece, quick))


def weight_read(device: Device, nbytes: int, tokens: float = 1.0) -> Contestant:
    """The floor of decoding: reading the weights on all cores, shared by `tokens` tokens."""
    piece = read(device, max(4, min(nbytes, MOST_WEIGHT_BYTES)))
    # A model larger than what is read here takes proportionally longer.
    return Contestant("floor", piece.call, piece.clock, tokens * piece.amount / nbytes)


def seconds_to_read(device: Device, nbytes: int) -> float:
    """How long this machine takes to read so many bytes, measured now."""
    floor = weight_read(device, nbytes)
    samples = [floor.clock.measure(floor.call, i, 1) for i in range(_WEIGHT_SAMPLES + 1)]
    return median(samples[1:]) / floor.amount


def copy(device: Device, nbytes: int) -> Contestant:
    """Copying on all cores; what is read and what is written both count."""
    source = inputs.place(device, inputs.counts(max(nbytes // 8, 1), 0))
    out = xp.empty(source.shape, dtype=xp.float32, device=device)
    return Contestant(
        "copy", lambda _: copy_into(source, out), DeviceClock(device), amount=2 * source.nbytes
    )


def arithmetic(device: Device) -> Contestant:
    """Products and sums that touch no memory, on all cores: the rate of single precision."""
    x = inputs.place(device, inputs.counts(elements(device), 0))
    out = xp.empty(x.shape, dtype=xp.float32, device=device)
    return Contestant(
        "arithmetic",
        lambda _: alternate_into(x, out),
        DeviceClock(device),
        amount=2.0 * x.size * STEPS,
    )


def launch(device: Device, core: OneCore | None = None) -> Contestant:
    """Launching a kernel that does nothing, straight through the driver of a GPU."""

    def call(_: int) -> float:
        with core or contextlib.nullcontext():
            return device.time_bare_launches(LAUNCHES) * 1e-9

    return Contestant("bare launch", call, ToldClock(), LAUNCHES)


def elements(device: Device) -> int:
    """Numbers that the arithmetic of a device is tried on."""
    return GPU_ELEMENTS if device.capabilities.is_gpu else ELEMENTS


def read_into(array: Array, out: Array) -> None:
    """The sum of all elements."""
    _operate("stream_read", [array, out], [array.size], array.nbytes, 0.0)


def copy_into(source: Array, out: Array) -> None:
    """The same elements in other memory."""
    _operate("stream_copy", [source, out], [source.size], 2 * source.nbytes, 0.0)


def alternate_into(x: Array, out: Array) -> None:
    """1 - x, an odd number of times over."""
    numbers: list[int | float] = [x.size, STEPS, -1.0, 1.0]
    _operate("fma_peak", [x, out], numbers, 2 * x.nbytes, 2.0 * x.size * STEPS)


def _operate(
    name: str, arrays: list[Array], numbers: list[int | float], nbytes: int, flops: float
) -> None:
    device = arrays[0].device
    device.operate(
        name,
        [(one.buffer, one.offset, one.nbytes, _F32) for one in arrays],
        numbers,
        label=name,
        bytes=nbytes,
        flops=flops,
    )
