"""Every allocation, copy and operation of arrays uses the pool and dispatch, and is recorded."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from assay import xp
from assay.errors import DeviceError, OutOfMemoryError
from assay.runtime import Device, Record
from chosen_device import NAME, ON_GPU, new_device


def take_records(device: Device) -> list[Record]:
    device.synchronize()
    return device.take_records().records


def kinds(device: Device) -> Counter[tuple[str, str]]:
    return Counter((record.kind, record.name) for record in take_records(device))


def test_each_operator_is_one_allocation_and_one_launch(fresh: Device) -> None:
    x = xp.ones((4, 4), dtype=xp.float32, device=fresh)
    y = xp.zeros((4, 4), dtype=xp.float32, device=fresh)
    kinds(fresh)
    z = (x + y) @ x
    found = kinds(fresh)
    assert found["allocate", "array"] == 2
    assert found["launch", "add"] == 1
    assert found["launch", "matmul"] == 1
    # The sum is freed once the product is computed.
    assert found["free", "array"] == 1
    assert xp.asarray(z, device="cpu").tolist() == [[4.0] * 4] * 4


def test_records_count_bytes_and_floating_point_operations() -> None:
    own = new_device(timing=True)
    x = xp.ones((8, 16), dtype=xp.float32, device=own)
    y = xp.ones((16, 4), dtype=xp.float32, device=own)
    take_records(own)
    z = x @ y
    (launch,) = [record for record in take_records(own) if record.kind == "launch"]
    assert launch.flops == 2 * 8 * 16 * 4
    assert launch.bytes == x.nbytes + y.nbytes + z.nbytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert launch.start_ns is not None
    assert launch.end_ns is not None
    assert launch.start_ns < launch.end_ns
    assert launch.failure is None


def test_fills_copies_and_transfers_are_recorded(fresh: Device) -> None:
    x = xp.zeros(1000, device=fresh)
    y = xp.asarray(x, copy=True)
    found = kinds(fresh)
    assert found["fill", "zeros"] == 1
    assert found["copy within device", "asarray"] == 1
    assert found["allocate", "array"] == 2
    y.tolist()
    host_copies = kinds(fresh)["copy to host", "download"]
    assert host_copies == (0 if fresh.host_memory else 1)


def test_views_allocate_and_launch_nothing(fresh: Device) -> None:
    x = xp.zeros((64, 64), device=fresh)
    take_records(fresh)
    views = [
        x[1:3],
        x[5],
        x[..., None],
        x.T,
        xp.reshape(x, (4096,)),
        xp.flip(x),
        xp.broadcast_to(x, (2, 64, 64)),
        xp.permute_dims(x, (1, 0)),
        *xp.unstack(x),
    ]
    assert take_records(fresh) == []
    assert all(view.buffer is x.buffer for view in views)


def test_slicing_256_megabytes_copies_nothing(cpu: Device) -> None:
    x = xp.empty(64 << 20, dtype=xp.float32, device=cpu)
    take_records(cpu)
    tracemalloc.start()
    part = x[0:10]
    part[...] = 3.0
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert part.to_numpy().ctypes.data == x.to_numpy().ctypes.data
    assert [(record.kind, record.bytes) for record in take_records(cpu)] == [("launch", 40)]
    assert peak < 1 << 20


def test_pool_allocations_follow_array_lifetimes(own: Device) -> None:
    before = own.pool_statistics()
    x = xp.empty(1 << 16, dtype=xp.uint8, device=own)
    after = own.pool_statistics()
    assert after["allocations"] == before["allocations"] + 1
    assert after["requested_bytes"] == before["requested_bytes"] + (1 << 16)
    assert x.buffer.pointer % 64 == 0
    view = x[::2]
    del x
    gc.collect()
    assert own.pool_statistics()["deallocations"] == before["deallocations"]
    del view
    gc.collect()
    assert own.pool_statistics()["deallocations"] == before["deallocations"] + 1
    own.verify()


def test_numpy_views_keep_memory_alive(cpu: Device) -> None:
    looked_at = np.asarray(xp.full((1000,), 7, dtype=xp.int32, device=cpu))
    gc.collect()
    other = xp.zeros((1000,), dtype=xp.int32, device=cpu)
    assert looked_at.tolist() == [7] * 1000
    assert other.tolist() == [0] * 1000
    frees = cpu.pool_statistics()["deallocations"]
    del looked_at
    gc.collect()
    assert cpu.pool_statistics()["deallocations"] == frees + 1


@pytest.mark.parametrize("kind", [NAME] if ON_GPU else ["cpu", "sim"])
def test_out_of_memory_names_request_and_capacity(kind: str) -> None:
    small = Device(kind, pool_bytes=1 << 20)  # type: ignore[arg-type]
    with pytest.raises(OutOfMemoryError, match=r"allocate: expected .* got a request for 2097152"):
        xp.empty(2 << 20, dtype=xp.uint8, device=small)
    assert xp.zeros(10, device=small).tolist() == [0.0] * 10
    with pytest.raises(MemoryError):
        xp.empty(1 << 40, dtype=xp.uint8, device=small)


def test_operations_and_errors_leak_nothing(own: Device) -> None:
    x = xp.ones((32, 32), device=own)
    elsewhere = xp.ones((32, 32), device="cpu")
    for _ in range(200):
        x = xp.sin(x) + 0.5 * x[::-1]
        with pytest.raises(DeviceError):
            x + elsewhere
    gc.collect()
    statistics = own.pool_statistics()
    assert statistics["allocations"] - statistics["deallocations"] == 1
    own.verify()


def test_dropped_records_are_counted() -> None:
    device = new_device(records=8)
    for _ in range(20):
        xp.zeros(4, device=device)
    device.synchronize()
    records, dropped = device.take_records()
    assert len(records) == 8
    assert dropped == device.totals()["allocations"] * 3 - 8


def test_totals_count_what_records_list(own: Device) -> None:
    x = xp.ones(100, dtype=xp.float32, device=own)
    xp.asarray(x, copy=True)
    gc.collect()
    own.synchronize()
    totals = own.totals()
    assert totals["launches"] == 1
    assert totals["copies"] == 1
    assert totals["copied_bytes"] == 400
    assert totals["allocations"] == 2
    assert totals["frees"] == 1
