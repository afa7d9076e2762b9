"""Regression tests for failures of earlier runtimes."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import assay
from assay import xp
from assay.errors import PanicError
from assay.runtime import Device, Scheduler
from chosen_device import new_device

MIB = 1 << 20


def test_broken_native_extension_raises(tmp_path: Path) -> None:
    """The import error of the native module propagates; there is no silent fallback."""
    package = Path(assay.__file__).parent
    copy = tmp_path / "assay"
    copy.mkdir()
    for source in package.rglob("*.py"):
        target = copy / source.relative_to(package)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    for damage in (None, b"not a library"):
        if damage is not None:
            (copy / "_native.abi3.so").write_bytes(damage)
        for module in ("assay", "assay.runtime", "assay.xp"):
            done = subprocess.run(
                [sys.executable, "-c", f"import {module}"],
                cwd=tmp_path,
                env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode != 0
            assert "ImportError" in done.stderr or "ModuleNotFoundError" in done.stderr
            assert "_native" in done.stderr


def test_every_allocation_copy_and_launch_is_in_the_records_of_the_core(fresh: Device) -> None:
    """All work runs in the Rust core, so its records are complete."""
    fresh.take_records()
    x = xp.zeros((100, 100), device=fresh)  # one allocation, one fill
    y = xp.asarray(x, copy=True)  # one allocation, one copy
    z = x + y  # one allocation, one launch
    fresh.synchronize()
    kinds = [record.kind for record in fresh.take_records().records]
    assert sorted(kinds) == sorted(
        ["allocate", "fill", "allocate", "copy within device", "allocate", "launch"]
    )
    statistics = fresh.pool_statistics()
    assert statistics["allocations"] == 3
    assert statistics["requested_bytes"] == 3 * 80_000
    there = z.to_device("sim" if fresh.name == "cpu" else "cpu")
    assert there.device is not fresh
    del x, y, z
    gc.collect()
    fresh.synchronize()
    assert [record.kind for record in fresh.take_records().records].count("free") == 3
    totals = fresh.totals()
    assert totals["allocations"] == totals["frees"] == 3


def test_large_eviction_round_trip() -> None:
    """Evicted memory is restored with its contents, not zeros, in LRU order."""
    device = new_device(pool_bytes=40 * MIB)
    words = MIB  # 8 MiB each: ten arrays are twice what the pool holds
    arrays, seeds = [], list(range(10))
    for seed in seeds:
        bits = np.random.default_rng(seed).integers(0, 1 << 63, words, dtype=np.uint64)
        arrays.append(xp.asarray(bits, device=device, copy=True).allow_eviction())
    assert [array.resident for array in arrays] == [False] * 5 + [True] * 5
    arrays[6].free()  # from the middle of the order
    order = [3, 8, 0, 9, 1, 2, 5, 4, 7]
    for which in order:
        expected = np.random.default_rng(which).integers(0, 1 << 63, words, dtype=np.uint64)
        assert np.array_equal(np.asarray(arrays[which]), expected), which
        gc.collect()
    resident = {which for which in order if arrays[which].resident}
    assert resident == set(order[-5:])  # the five used last, and no other
    report = device.memory_report()
    assert report.evictable is not None
    assert report.evictable["restores"] >= 5
    assert report.evictable["spilled_bytes"] == 4 * 8 * MIB
    device.verify()


def test_reservations_are_always_released() -> None:
    """A thousand task lifecycles with failures at every stage leave nothing reserved."""
    device = Device("sim")
    tenant = device.tenant("tasks", 64 * MIB)
    tasks = Scheduler(
        device, upload_bytes_per_second=10**9, download_bytes_per_second=10**9, decisions=16
    )
    partition = tasks.partition("tasks", tenant=tenant, memory_bytes=64 * MIB)
    generator = np.random.default_rng(5)
    for life in range(1000):
        choice = generator.integers(5)
        try:
            task = tasks.task(
                f"life {life}",
                partition=partition,
                memory_bytes=int(generator.integers(1, 64 * MIB)),
            )
            if choice == 0:
                continue  # dropped before it starts
            with task:
                if choice == 1:
                    raise RuntimeError(life)
                if choice == 2:
                    task.cancel()
                if choice == 3:
                    task.pause(keep=bool(generator.integers(2)))
        except RuntimeError:
            pass
        finally:
            task = None  # type: ignore[assignment]
    gc.collect()
    (row,) = tasks.snapshot()["partitions"]
    assert (row["tasks"], row["pending"], row["reserved_bytes"]) == (0, 0, 0)
    assert tenant.usage().reserved_bytes == 0
    partition.remove()


def test_slicing_a_large_array_copies_nothing(own: Device) -> None:
    """x[0:10] of 256 MB is a view: the same buffer, and no bytes in the records."""
    x = xp.zeros(64 * MIB, dtype=xp.float32, device=own)
    own.synchronize()
    own.take_records()
    view = x[0:10]
    assert own.take_records().records == []
    assert view.buffer is x.buffer
    total = view + 1.0
    assert total.tolist() == [1.0] * 10
    records = own.take_records().records
    assert sum(record.bytes for record in records) < 1000
    kinds = [record.kind for record in records if record.kind != "copy to host"]
    assert kinds == ["allocate", "launch"]


def test_one_times_two_in_bfloat16_is_two(fresh: Device) -> None:
    """Stored bits are converted, not reinterpreted."""
    one = xp.asarray([1.0], dtype=xp.bfloat16, device=fresh)
    assert (one * 2).tolist() == [2.0]
    assert (one * one * 2.0).dtype == xp.bfloat16
    assert xp.astype(one * 2, xp.float32).tolist() == [2.0]
    assert np.asarray((one * 2).to_device("cpu")).view(np.uint16)[0] == 0x4000


def test_panic_becomes_an_exception_and_the_device_survives(fresh: Device) -> None:
    from assay._native import provoke_panic

    with pytest.raises(PanicError, match="provoke_panic: expected the native code to return"):
        provoke_panic("on purpose")
    assert (xp.ones(3, device=fresh) + 1.0).tolist() == [2.0] * 3
