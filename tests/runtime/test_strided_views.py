"""Unusual arrays and objects in every call of the runtime: they work or raise a clear error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay import xp
from assay.errors import AssayError, DeviceError, FreedError, OutOfMemoryError
from assay.runtime import Array, Device, capture_graph


def odd_views(device: Device) -> dict[str, Array]:
    base = xp.reshape(xp.arange(24, dtype=xp.int32, device=device), (4, 6))
    return {
        "no elements": xp.zeros((0, 3), dtype=xp.int32, device=device),
        "no axes": xp.asarray(7, dtype=xp.int32, device=device),
        "every other": base[:, ::2],
        "backwards": base[::-1, ::-1],
        "transposed": base.T,
        "broadcast": xp.broadcast_to(base[0], (5, 6)),
        "one element": base[1:2, 2:3],
        "from the middle": base[2:, 3:],
    }


@pytest.mark.parametrize("name", odd_views(Device("cpu")))
def test_strided_views_match_numpy_across_eviction(fresh: Device, name: str) -> None:
    view = odd_views(fresh)[name]
    expected = np.array(view.to_device("cpu"))
    assert (view + view).to_device("cpu").tolist() == (expected + expected).tolist()
    owner = xp.asarray(view, copy=True)
    owner.evict()
    assert owner.resident is (owner.size == 0)
    assert owner.to_device("cpu").tolist() == expected.tolist()
    assert int(xp.sum(view)) == int(expected.sum())


def test_view_and_base_are_evicted_together(fresh: Device) -> None:
    base = xp.reshape(xp.arange(24, dtype=xp.int32, device=fresh), (4, 6))
    base = xp.asarray(base, copy=True)
    view = base[1:, ::3]
    base.evict()
    assert not view.resident
    view += 100
    assert base.resident
    expected = np.arange(24, dtype=np.int32).reshape(4, 6)
    expected[1:, ::3] += 100
    assert base.to_device("cpu").tolist() == expected.tolist()


@pytest.mark.parametrize("shift", [1, 3, 7])
def test_misaligned_borrowed_memory_is_supported(own: Device, shift: int) -> None:
    raw = np.zeros(8 * 9 + shift, dtype=np.uint8)
    theirs = raw[shift : shift + 64].view(np.float64)
    theirs[:] = np.arange(8.0)
    ours = xp.asarray(theirs, device=own)
    assert (ours * 2.0).tolist() == (np.arange(8.0) * 2).tolist()
    assert xp.asarray(ours, copy=True).tolist() == list(range(8))


@pytest.mark.parametrize("nbytes", [1 << 50, (1 << 62) - 1])
def test_oversized_allocation_raises_and_leaks_nothing(fresh: Device, nbytes: int) -> None:
    for call in (fresh.allocate, fresh.pinned):
        with pytest.raises(OutOfMemoryError, match=f"got a request for {nbytes}"):
            call(nbytes)
    for nonsense in (-1, 1 << 64):
        with pytest.raises(OverflowError):
            fresh.allocate(nonsense)
    assert fresh.pool_statistics()["allocated_bytes"] == 0
    fresh.verify()


FREED: dict[str, Callable[[Array], Any]] = {
    "add": lambda x: x + 1,
    "read": lambda x: x.tolist(),
    "write": lambda x: x.__setitem__(0, 1),
    "evict": lambda x: x.evict(),
    "allow eviction": lambda x: x.allow_eviction(),
    "free": lambda x: x.free(),
    "copy": lambda x: xp.asarray(x, copy=True),
    "to another device": lambda x: x.to_device("sim" if x.device.name == "cpu" else "cpu"),
    "pinned": lambda x: x.device.pinned(8).copy_from(x),
    "fill": lambda x: x.device._context.fill(
        "fill", x.buffer, 0, 0, 8, x.device.default_stream._native
    ),
    "upload": lambda x: x.device.upload("upload", b"12345678", x.buffer, 0),
    "capture": lambda x: capture_graph(lambda: FREED["fill"](x), device=x.device),
}


@pytest.mark.parametrize("call", FREED)
@pytest.mark.parametrize("evictable", [False, True])
def test_freed_arrays_raise_everywhere(fresh: Device, call: str, evictable: bool) -> None:
    x = xp.zeros(8, dtype=xp.uint8, device=fresh)
    if evictable:
        x.allow_eviction()
    fresh.synchronize()
    x.free()
    with pytest.raises(FreedError, match="expected a live buffer, got one that was freed"):
        FREED[call](x)
    assert fresh.pool_statistics()["allocated_bytes"] == 0


def test_streams_events_and_buffers_of_other_devices_raise(fresh: Device) -> None:
    other = Device(fresh.name)  # type: ignore[arg-type]
    x = xp.zeros(8, dtype=xp.uint8, device=fresh)
    theirs = xp.zeros(8, dtype=xp.uint8, device=other)
    ours, alien = fresh._context, other.stream()
    event = alien.record()
    calls: list[Callable[[], Any]] = [
        lambda: ours.allocate(8, alien._native),
        lambda: ours.allocate_pinned(8, alien._native),
        lambda: ours.fill("fill", x.buffer, 0, 0, 8, alien._native),
        lambda: ours.copy("copy", x.buffer, 0, x.buffer, 4, 4, alien._native),
        lambda: ours.launch("run", lambda *_: None, [], [], alien._native, bytes=0, flops=0.0),
        lambda: ours.fill("fill", theirs.buffer, 0, 0, 8, fresh.default_stream._native),
        lambda: fresh.default_stream.wait(event),
        lambda: x.buffer.evict(alien._native),
        lambda: x + theirs,
    ]
    for call in calls:
        with pytest.raises(AssayError, match="expected"):
            call()
    assert x.tolist() == theirs.tolist() == [0] * 8


@pytest.mark.parametrize(
    ("offset", "nbytes"), [(0, 9), (8, 1), (9, 0), (1 << 63, 8), ((1 << 64) - 1, 2)]
)
def test_ranges_past_the_end_raise(fresh: Device, offset: int, nbytes: int) -> None:
    x = xp.zeros(8, dtype=xp.uint8, device=fresh)
    stream = fresh.default_stream._native
    with pytest.raises(DeviceError, match=f"fill: expected {nbytes} bytes from {offset}"):
        fresh._context.fill("fill", x.buffer, offset, 1, nbytes, stream)
    with pytest.raises(DeviceError, match="copy: expected"):
        fresh._context.copy("copy", x.buffer, offset, x.buffer, 0, nbytes, stream)


def test_overlapping_copies_raise_or_copy_first(fresh: Device) -> None:
    x = xp.arange(16, dtype=xp.uint8, device=fresh)
    with pytest.raises(DeviceError, match="overlap"):
        fresh._context.copy("copy", x.buffer, 0, x.buffer, 4, 8, fresh.default_stream._native)
    x[4:12] = x[0:8]
    assert x.tolist() == [0, 1, 2, 3, *range(8), 12, 13, 14, 15]
