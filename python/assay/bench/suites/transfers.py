"""Copies between host and GPU memory, pinned and pageable, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import xp
from assay.bench.harness import inputs
from assay.bench.harness.case import Case, Check, PreparedCase, Settings, Subject
from assay.bench.harness.clocks import Call, Clock, DeviceClock, HostClock
from assay.bench.harness.text import bytes_text
from assay.bench.rivals.pytorch import pytorch_rival
from assay.runtime.hardware import Device

NBYTES: Final = 256 << 20
QUICK_NBYTES: Final = 8 << 20


def cases(settings: Settings) -> list[Case]:
    """Each kind of host memory, in both directions."""
    device = settings.device
    nbytes = QUICK_NBYTES if settings.quick else NBYTES
    kinds: list[tuple[str, Callable[[], PreparedCase]]] = [
        ("pinned to device", lambda: _pinned(device, nbytes, to_device=True)),
        ("device to pinned", lambda: _pinned(device, nbytes, to_device=False)),
        ("pageable to device", lambda: _pageable(device, nbytes, to_device=True)),
        ("device to pageable", lambda: _pageable(device, nbytes, to_device=False)),
    ]
    return [
        Case(f"{name} {bytes_text(nbytes)}", "GB/s", prepare, {"operation": name, "bytes": nbytes})
        for name, prepare in kinds
    ]


def _pinned(device: Device, nbytes: int, *, to_device: bool) -> PreparedCase:
    host = inputs.small_integers(nbytes // 4, 1)
    pinned = device.pinned(nbytes)
    array = xp.empty(host.shape, dtype=xp.float32, device=device)
    source = inputs.upload(device, host)

    def call(_: int) -> None:
        if to_device:
            pinned.copy_to(array)
        else:
            pinned.copy_from(source)

    def error(number: int) -> float:
        inputs.fill_nan(array)
        pinned.write(host if to_device else np.full_like(host, np.nan))
        call(number)
        if to_device:
            return inputs.relative_error(inputs.download(array), host)
        return inputs.relative_error(np.frombuffer(pinned.read(), np.float32), host)

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        on_device = upload(host)
        on_host = module.from_numpy(host).pin_memory()
        to, origin = (on_device, on_host) if to_device else (on_host, on_device)
        return lambda _: to.copy_(origin, non_blocking=True)

    return _prepared(device, nbytes, call, error, in_torch, DeviceClock(device), None)


def _pageable(device: Device, nbytes: int, *, to_device: bool) -> PreparedCase:
    host = inputs.small_integers(nbytes // 4, 1)
    into = np.full_like(host, np.nan)
    array = inputs.upload(device, host)

    # Both copies are synchronous.
    def call(_: int) -> None:
        if to_device:
            device.upload("upload", host.view(np.uint8), array.buffer, array.offset)
        else:
            device.download("download", array.buffer, array.offset, into.view(np.uint8))

    def error(number: int) -> float:
        if to_device:
            inputs.fill_nan(array)
        into[:] = np.nan
        call(number)
        return inputs.relative_error(inputs.download(array) if to_device else into, host)

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        on_device = upload(host)
        on_host = module.from_numpy(host.copy())
        to, origin = (on_device, on_host) if to_device else (on_host, on_device)

        def copy(_: int) -> None:
            to.copy_(origin)
            module.cuda.current_stream().synchronize()

        return copy

    return _prepared(device, nbytes, call, error, in_torch, HostClock(), HostClock())


def _prepared(
    device: Device,
    nbytes: int,
    call: Call,
    error: Callable[[int], float],
    in_torch: Callable[[Any, Callable[[Any], Any]], Call],
    clock: Clock,
    rival_clock: Clock | None,
) -> PreparedCase:
    return PreparedCase(
        Subject("assay", call, clock, nbytes),
        Check("the source", error, 0.0),
        rivals=[pytorch_rival(device, in_torch, nbytes, clock=rival_clock)],
        bytes=nbytes,
    )
