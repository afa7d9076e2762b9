"""Tenants, reservations, pinned memory, eviction, logs and reports."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from assay import xp
from assay.errors import DeviceError, FreedError, InputError, OutOfMemoryError, ShapeError
from assay.runtime import AllocationLog, Array, Device, capture_graph
from chosen_device import new_device

MIB = 1 << 20


def numbers(device: Device, count: int, seed: int) -> tuple[Array, npt.NDArray[np.uint8]]:
    expected = np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)
    return xp.asarray(expected, device=device, copy=True), expected


def test_tenant_is_charged_and_limited(fresh: Device) -> None:
    small = fresh.tenant("small", 3 * MIB)
    with small:
        x = xp.zeros(2 * MIB, dtype=xp.uint8, device=fresh)
        with pytest.raises(OutOfMemoryError, match='quota of tenant "small" exceeded') as caught:
            xp.zeros(2 * MIB, dtype=xp.uint8, device=fresh)
        assert caught.value.code == "quota_exceeded"
    y = xp.zeros(2 * MIB, dtype=xp.uint8, device=fresh)  # the default tenant has no such limit
    assert small.usage().used_bytes == 2 * MIB
    small.limit = 8 * MIB
    with small:
        z = xp.zeros(4 * MIB, dtype=xp.uint8, device=fresh)
    assert small.usage().peak_bytes == 6 * MIB
    del x, y, z
    fresh.synchronize()
    assert small.usage().used_bytes == 0


def test_reserved_memory_is_unavailable_to_others() -> None:
    device = Device("sim", pool_bytes=10 * MIB)
    first = device.tenant("first", 8 * MIB)
    with first.reserve(8 * MIB) as reservation:
        assert reservation.nbytes == 8 * MIB
        with pytest.raises(OutOfMemoryError, match="memory is reserved"):
            xp.zeros(4 * MIB, dtype=xp.uint8, device=device)
        with first:
            xp.zeros(8 * MIB, dtype=xp.uint8, device=device)
    assert not reservation.held
    reservation.release()
    assert first.usage().reserved_bytes == 0
    xp.zeros(9 * MIB, dtype=xp.uint8, device=device)


def test_exception_releases_the_reservation(fresh: Device) -> None:
    tenant = fresh.tenant("t", 8 * MIB)

    def fail() -> None:
        assert tenant.usage().reserved_bytes == MIB
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), tenant.reserve(MIB):
        fail()
    assert tenant.usage().reserved_bytes == 0
    forgotten = tenant.reserve(MIB)
    del forgotten
    gc.collect()
    assert tenant.usage().reserved_bytes == 0


def test_evicted_memory_is_restored_on_use(fresh: Device) -> None:
    x, expected = numbers(fresh, 3 * MIB + 17, 1)
    assert x.resident
    before = fresh.memory_report().pool["allocated_bytes"]
    x.evict()
    assert not x.resident
    report = fresh.memory_report()
    assert report.pool["allocated_bytes"] < before
    assert report.evictable is not None
    assert report.evictable["spilled_bytes"] == 3 * MIB + 17
    assert report.pinned is not None
    view = x[5:10]  # a view alone brings nothing back
    assert not x.resident
    assert view.tolist() == expected[5:10].tolist()
    assert x.resident
    np.testing.assert_array_equal(np.array(x.to_device("cpu")), expected)
    kinds = [(one.kind, one.name) for one in fresh.take_records().records if one.kind[:4] == "copy"]
    assert ("copy to host", "spill") in kinds
    assert ("copy to device", "restore") in kinds
    x.evict()
    x.free()
    with pytest.raises(FreedError):
        x.evict()
    fresh.verify()


def test_writes_after_a_restore_survive_the_next_eviction(fresh: Device) -> None:
    x, expected = numbers(fresh, 64 * 1024, 2)
    for round_ in range(5):
        x.evict()
        x[round_] = 200 + round_
        expected[round_] = 200 + round_
    np.testing.assert_array_equal(np.array(x.to_device("cpu")), expected)


def test_eviction_is_least_recently_used_first() -> None:
    device = new_device(pool_bytes=8 * MIB)
    arrays = []
    contents = []
    for seed in range(4):
        x, expected = numbers(device, 2 * MIB, seed)
        arrays.append(x.allow_eviction())
        contents.append(expected)
    assert all(x.resident for x in arrays)
    int(arrays[0][0])  # 0 is now the most recently used: the order is 1, 2, 3, 0
    extra, _ = numbers(device, 2 * MIB, 9)
    assert [x.resident for x in arrays] == [True, False, True, True]
    more, _ = numbers(device, 2 * MIB, 10)
    assert [x.resident for x in arrays] == [True, False, False, True]
    del extra, more
    for x, expected in zip(arrays, contents, strict=True):
        np.testing.assert_array_equal(np.array(x), expected)
    device.verify()


def test_removal_in_the_middle_leaves_the_order_of_the_others() -> None:
    device = new_device(pool_bytes=10 * MIB)
    a, b, c, d, e = (
        xp.zeros(2 * MIB, dtype=xp.uint8, device=device).allow_eviction() for _ in range(5)
    )
    assert a.buffer.evictable
    c.free()
    keep = xp.zeros(2 * MIB, dtype=xp.uint8, device=device)  # reuses c's memory
    assert [x.resident for x in (a, b, d, e)] == [True] * 4
    xp.zeros(2 * MIB, dtype=xp.uint8, device=device)
    assert [x.resident for x in (a, b, d, e)] == [False, True, True, True]
    second = xp.zeros(2 * MIB, dtype=xp.uint8, device=device)
    assert [x.resident for x in (a, b, d, e)] == [False, True, True, True]
    third = xp.zeros(2 * MIB, dtype=xp.uint8, device=device)
    assert [x.resident for x in (a, b, d, e)] == [False, False, True, True]
    del keep, second, third


def test_tenant_over_quota_evicts_its_own_memory() -> None:
    device = new_device()
    cache = device.tenant("cache", 4 * MIB)
    with cache:
        arrays = [
            xp.full((MIB,), value, dtype=xp.uint8, device=device).allow_eviction()
            for value in range(10)
        ]
    assert cache.usage().used_bytes <= 4 * MIB
    assert sum(x.resident for x in arrays) <= 4
    assert [int(x[MIB - 1]) for x in arrays] == list(range(10))


def test_eviction_in_flight_orders_later_uploads() -> None:
    """An eviction copies outside the stream in whose order memory is reused."""
    device = new_device(pool_bytes=64 * MIB)
    cache = device.tenant("cache", 48 * MIB)
    values = np.arange(16 * MIB, dtype=np.uint8)
    with cache:
        arrays = [
            xp.asarray(values + seed, device=device, copy=True).allow_eviction()
            for seed in range(9)
        ]
        for _ in range(2):
            for seed, x in enumerate(arrays):
                np.testing.assert_array_equal(np.array(x.to_numpy()), values + np.uint8(seed))


def test_exported_memory_is_not_evicted(cpu: Device) -> None:
    x, _ = numbers(cpu, MIB, 1)
    theirs = np.asarray(x)
    with pytest.raises(DeviceError, match="expected memory that nothing looks at"):
        x.evict()
    del theirs
    graph = capture_graph(lambda: cpu.fill("f", x.buffer, 0, 1, 64), device=cpu)
    with pytest.raises(DeviceError, match="nothing looks at"):
        x.evict()
    graph.close()
    x.evict()
    with pytest.raises(DeviceError, match="expected memory of the device's pool"):
        xp.asarray(np.zeros(100), device=cpu).allow_eviction()


def test_graph_pins_evictable_memory() -> None:
    device = new_device(pool_bytes=4 * MIB)
    x = xp.zeros(2 * MIB, dtype=xp.uint8, device=device).allow_eviction()
    stream = device.default_stream._native
    graph = capture_graph(
        lambda: device._context.fill(
            "f", x.buffer, 0, 7, x.nbytes, device.current_stream()._native
        ),
        device=device,
    )
    with pytest.raises(OutOfMemoryError):
        device._context.allocate(3 * MIB, stream)
    graph.replay()
    assert int(x[0]) == 7
    graph.close()
    del graph
    large = device._context.allocate(3 * MIB, stream)
    assert not x.resident
    large.free()
    assert int(x[2 * MIB - 1]) == 7


def test_eviction_waits_for_work_of_other_streams() -> None:
    device = new_device(pool_bytes=8 * MIB)
    x = xp.zeros(4 * MIB, dtype=xp.uint8, device=device).allow_eviction()
    stream = device.stream()
    for value in range(1, 20):
        for _ in range(4):
            device._context.fill("fill", x.buffer, 0, value, x.nbytes, stream._native)
        other = xp.ones(6 * MIB, dtype=xp.uint8, device=device)
        del other
        assert int(xp.min(x)) == int(xp.max(x)) == value


def test_threads_share_evictable_arrays() -> None:
    device = new_device(pool_bytes=6 * MIB)
    arrays = [
        xp.full((MIB,), value, dtype=xp.uint8, device=device).allow_eviction() for value in range(4)
    ]
    wrong: list[str] = []

    def work(index: int) -> None:
        for round_ in range(40):
            which = (index + round_) % 4
            try:
                total = int(xp.max(arrays[which]))
                scratch = xp.zeros(MIB, dtype=xp.uint8, device=device)
                del scratch
            except OutOfMemoryError:
                continue
            if total != which:
                wrong.append(f"{which}: {total}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert wrong == []
    device.verify()


def test_pinned_buffers_copy_straight_to_arrays(fresh: Device) -> None:
    pinned = fresh.pinned(4096)
    assert pinned.nbytes == 4096
    data = bytes(range(256)) * 16
    pinned.write(data)
    x = xp.zeros(4096, dtype=xp.uint8, device=fresh)
    pinned.copy_to(x)
    fresh.synchronize()
    assert x.to_device("cpu").tolist() == list(data)
    pinned.write(b"\0" * 4096)
    pinned.copy_from(x[:100], offset=10)
    assert pinned.read(100, 10) == data[:100]
    kinds = {one.kind for one in fresh.take_records().records if one.name.startswith("copy_")}
    assert kinds == {"copy to device", "copy to host"}
    with pytest.raises(DeviceError, match="write: expected 10 bytes from 4090 in a buffer"):
        pinned.write(b"0123456789", offset=4090)
    with pytest.raises(ShapeError, match="copy_to: expected a contiguous array"):
        pinned.copy_to(x[::2])
    with pytest.raises(InputError, match="read: expected a range"):
        pinned.read(offset=5000)
    pinned.free()
    with pytest.raises(FreedError):
        pinned.read(1)


def test_kernels_refuse_pinned_memory(own: Device) -> None:
    pinned = own.pinned(64)
    with pytest.raises(DeviceError, match="got pinned host memory"):
        own.download("d", pinned._buffer, 0, bytearray(8))


def test_outstanding_allocations_name_their_source_line() -> None:
    device = new_device(track_allocations=True)
    x = xp.zeros(1000, dtype=xp.uint8, device=device)
    (one,) = device.outstanding_allocations()
    assert one.nbytes == 1000
    assert Path(one.file).name == "test_memory.py"
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert "x = xp.zeros(1000" in source[one.line - 1]
    del x
    assert device.outstanding_allocations() == []
    with pytest.raises(InputError, match="outstanding_allocations: expected a device that tracks"):
        new_device().outstanding_allocations()


def test_limit_counts_requested_bytes() -> None:
    device = new_device(limit_bytes=1000)
    x = xp.zeros(900, dtype=xp.uint8, device=device)
    with pytest.raises(OutOfMemoryError, match="limit exceeded in allocate") as caught:
        xp.zeros(101, dtype=xp.uint8, device=device)
    assert caught.value.code == "limit_exceeded"
    del x
    xp.zeros(1000, dtype=xp.uint8, device=device)


def test_allocation_log_replay_is_deterministic() -> None:
    device = new_device(log_allocations=True)
    generator = np.random.default_rng(3)
    live = []
    for _ in range(300):
        if live and generator.random() < 0.45:
            live.pop(int(generator.integers(len(live))))
        size = int(generator.integers(1, 1 << int(generator.integers(8, 20))))
        live.append(xp.zeros(size, dtype=xp.uint8, device=device))
    live.clear()
    log = device.take_allocation_log()
    assert {request.action for request in log.requests} == {"allocate", "free"}
    again = AllocationLog(log.text)
    reports = [again.replay(capacity_bytes=64 * MIB) for _ in range(3)]
    assert reports[0] == reports[1] == reports[2]
    assert reports[0].allocations == reports[0].frees == 300
    direct = log.replay(capacity_bytes=64 * MIB, direct=True)
    assert direct.device_allocations == 300
    assert reports[0].device_allocations < 10
    assert reports[0].peak_requested_bytes == direct.peak_requested_bytes
    tight = log.replay(capacity_bytes=MIB, slab_bytes=MIB)
    assert tight.refusals > 0
    assert tight.peak_held_bytes <= MIB
    assert device.take_allocation_log().requests == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the header"),
        ("time_ns,action,stream,tenant,bytes,address\n1,2,3", "six fields"),
        ("time_ns,action,stream,tenant,bytes,address\n1,steal,0,0,1,1", "allocate, refuse or free"),
    ],
)
def test_malformed_allocation_log_names_the_line(text: str, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        AllocationLog(text).replay(capacity_bytes=MIB)
    with pytest.raises(DeviceError, match="cross_stream"):
        AllocationLog("time_ns,action,stream,tenant,bytes,address\n").replay(
            capacity_bytes=MIB,
            cross_stream="sometimes",  # type: ignore[arg-type]
        )


def test_memory_report_formats_as_a_table(fresh: Device) -> None:
    tenant = fresh.tenant("mine", 4 * MIB)
    with tenant:
        x = xp.zeros(MIB, dtype=xp.uint8, device=fresh)
    report = fresh.memory_report()
    assert report.asked["bytes"] == MIB
    assert report.pool["allocated_bytes"] == MIB
    assert report.tenants[1].used_bytes == MIB
    lines = str(report).splitlines()
    assert any(line.startswith("tenant mine") and "of 4,194,304" in line for line in lines)
    assert lines[0].startswith(f"device {fresh}")
    del x


@pytest.mark.parametrize("value", [-1, 2**64, 1.5, True, None, "1"])
def test_counts_that_are_not_counts_are_refused(value: Any, own: Device) -> None:
    tenant = own.tenant("limited", 1024)
    calls: list[Callable[[], object]] = [
        lambda: own.tenant("other", value),
        lambda: setattr(tenant, "limit", value),
        lambda: tenant.reserve(value),
        lambda: own.pinned(value),
        lambda: own.pinned(8).write(b"ab", value),
    ]
    if value is not None:
        calls.append(lambda: Device("cpu", limit_bytes=value))
        calls.append(lambda: Device("sim", memory_bytes=value))
    for call in calls:
        with pytest.raises(InputError, match=r"as an integer from 0 to 2\*\*64 - 1, got "):
            call()
    assert tenant.limit == 1024


def test_out_of_memory_of_an_empty_pool_names_its_room() -> None:
    """Nothing is allocated yet, so the whole capacity could be one block."""
    small = Device("sim", memory_bytes=1 << 20)
    with pytest.raises(OutOfMemoryError, match="expected at most 1048576 contiguous bytes"):
        xp.empty(1 << 20, device=small)
    kept = xp.empty(1 << 16, dtype=xp.uint8, device=small)
    with pytest.raises(OutOfMemoryError, match=r"expected at most (?!0 )\d+ contiguous bytes"):
        xp.empty(1 << 20, device=small)
    assert kept.nbytes == 1 << 16
