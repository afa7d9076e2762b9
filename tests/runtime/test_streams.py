"""Streams, events and their order, on the CPU and in virtual time."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from assay import xp
from assay._native import provoke_panic
from assay.errors import AssayError, DeviceError, FreedError, PanicError, UnknownNameError
from assay.runtime import Device, cuda, device, devices
from chosen_device import NAME, ON_GPU, cpu_only, requires_host_functions


def test_operations_use_the_current_stream(fresh: Device) -> None:
    stream = fresh.stream()
    with stream:
        assert fresh.current_stream() is stream
        x = xp.ones(100, device=fresh) + xp.ones(100, device=fresh)
        assert Device("cpu").current_stream().number == 0
    stream.synchronize()
    assert fresh.current_stream() is fresh.default_stream
    streams = {record.name: record.stream for record in fresh.take_records().records}
    assert streams["add"] == stream.number != 0
    assert x.tolist() == [2.0] * 100


def test_data_dependencies_order_streams(fresh: Device) -> None:
    first, second = fresh.stream(), fresh.stream()
    for round_ in range(20):
        with first:
            x = xp.zeros(1 << 16, dtype=xp.int32, device=fresh)
            x += round_
        with second:
            y = x * 2
        with first:
            x += y
        assert int(xp.max(x)) == int(xp.min(x)) == 3 * round_


def test_memory_in_use_is_not_reused_early(fresh: Device) -> None:
    stream = fresh.stream()
    copies = []
    for value in range(50):
        x = xp.full((4096,), value, dtype=xp.int16, device=fresh)
        with stream:
            copies.append(xp.asarray(x, copy=True))
        del x
        xp.full((4096,), -1, dtype=xp.int16, device=fresh)
    assert [int(y[0]) for y in copies] == list(range(50))
    assert all(int(xp.max(y)) == int(xp.min(y)) for y in copies)
    fresh.verify()


def test_events_order_and_measure(fresh: Device) -> None:
    stream = fresh.stream("high")
    start = stream.record()
    with stream:
        xp.zeros(1 << 20, device=fresh)
    end = stream.record()
    fresh.default_stream.wait(end)
    end.synchronize()
    assert start.query()
    assert end.query()
    assert end.elapsed_ns(start) > 0


def test_sim_time_follows_the_bandwidth_model(sim: Device) -> None:
    def span(count: int) -> int:
        x = xp.zeros(count, dtype=xp.uint8, device=sim)
        sim.synchronize()
        sim.take_records()
        xp.positive(x)
        sim.synchronize()
        (launch,) = [one for one in sim.take_records().records if one.kind == "launch"]
        assert launch.start_ns is not None
        assert launch.end_ns is not None
        return launch.end_ns - launch.start_ns

    # Reads and writes at the modeled 1 TB/s, which is 1000 bytes per nanosecond.
    assert span(5_000_000) - span(1_000_000) == 2 * 4_000_000 // 1000


@cpu_only
def test_sim_time_is_deterministic() -> None:
    def run() -> list[tuple[str, int | None, int | None]]:
        sim = Device("sim")
        x = xp.asarray(np.arange(10_000.0), device=sim)
        (xp.sin(x) @ x).tolist()
        records = sim.take_records().records
        return [(record.name, record.start_ns, record.end_ns) for record in records]

    assert run() == run()


def test_sim_operation_error_is_reported(sim: Device) -> None:
    x = xp.zeros((2, 2), device=sim)
    with pytest.raises(AssayError, match="inv: singular matrix"):
        xp.linalg.inv(x)
    assert (x + 1).tolist() == [[1.0] * 2] * 2


def test_threads_share_a_device(own: Device) -> None:
    expected = [float(index * index) for index in range(256)]

    def work(seed: int) -> bool:
        stream = own.stream() if seed % 2 else own.default_stream
        with stream:
            for _ in range(30):
                x = xp.arange(256, dtype=xp.float64, device=own)
                if (x * x).tolist() != expected:
                    return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))
    gc.collect()
    statistics = own.pool_statistics()
    assert statistics["allocations"] == statistics["deallocations"]
    own.verify()


@pytest.mark.parametrize("kind", [NAME] if ON_GPU else ["cpu", "sim"])
def test_queries_do_not_deadlock_with_a_computing_thread(kind: str) -> None:
    """A thread inside a host function holds the device's lock and waits for the GIL."""
    program = f"""
import threading
import weakref
from assay import xp
from assay.runtime import Device
device = Device("{kind}")
done = threading.Event()
def compute():
    x = xp.ones(5000, device=device)
    for _ in range(300):
        x = xp.sin(x)
    done.set()
thread = threading.Thread(target=compute)
thread.start()
stream = device.stream()
while not done.is_set():
    start = device.default_stream.record()
    device.default_stream._native.usage()
    end = stream.record()
    end.synchronize()
    start.synchronize()
    start.elapsed_ns(start)
    device.pool_statistics()
    device.totals()
    xp.zeros(10, device=device)
thread.join()
"""
    finished = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True)
    assert finished.returncode == 0, finished.stderr.decode()


def test_freed_arrays_are_refused_by_name(cpu: Device) -> None:
    x = xp.ones(10, device=cpu)
    y = x[2:]
    looked_at = np.asarray(x)
    with pytest.raises(DeviceError, match="free: expected a buffer without views, got one with"):
        x.free()
    del looked_at
    x.free()
    for use in (lambda: x + 1, lambda: y * 2, lambda: xp.sum(x), y.tolist, x.free):
        with pytest.raises(FreedError, match="expected a live buffer, got one that was freed"):
            use()
    with pytest.raises((FreedError, BufferError)):
        memoryview(x)  # type: ignore[arg-type]


@requires_host_functions
def test_reentrant_calls_raise_and_do_not_deadlock(fresh: Device) -> None:
    x = xp.ones(4, device=fresh)
    heard: list[str] = []

    def nested(*_: object) -> None:
        try:
            xp.sum(x)
        except DeviceError as error:
            heard.append(str(error))

    stream = fresh.default_stream._native
    fresh._context.launch("outer", nested, [x.buffer], [], stream, bytes=0, flops=0.0)
    fresh.synchronize()
    assert heard == [
        "allocate: expected a call between operations, got one from inside an operation"
    ]


@cpu_only
def test_sim_device_with_pending_work_is_collected() -> None:
    device = Device("sim")
    x = xp.ones(100, device=device)
    y = 2 * (x + x) * x
    y[0] = 3.0
    gone = weakref.ref(device)
    del device, x, y
    gc.collect()
    assert gone() is None


def test_panic_becomes_an_exception(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        PanicError, match=r"provoke_panic: .* got a panic: an invariant is violated"
    ) as caught:
        provoke_panic("an invariant is violated")
    assert isinstance(caught.value, Exception)
    assert caught.value.code == "panic"
    capfd.readouterr()


@cpu_only
def test_devices_are_found_by_name() -> None:
    assert [str(one) for one in devices()] == ["cpu", "sim", *cuda.names()]
    assert device("cpu") is device() is device(device("cpu"))
    with pytest.raises(UnknownNameError, match='unknown device "gpu"') as caught:
        device("gpu")
    assert caught.value.hint == "one of: cpu, sim, auto, cuda:0, cuda:1, ..."
    with pytest.raises(DeviceError, match="stream: expected priority low, normal or high"):
        device().stream("urgent")  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="wait: expected an event of the stream's device"):
        device("cpu").default_stream.wait(device("sim").default_stream.record())


def test_process_exits_with_pending_work_and_threads() -> None:
    program = f"""
import threading
import weakref
from assay import xp
from assay.runtime import device
chosen = device("{NAME}")
stream = chosen.stream()
def forever():
    while True:
        with stream:
            xp.ones(1000, device=chosen) + 1
threading.Thread(target=forever, daemon=True).start()
kept = xp.ones(10, device=chosen)
import time; time.sleep(0.3)
"""
    finished = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True)
    assert finished.returncode == 0, finished.stderr.decode()


def test_arrays_can_be_dropped_by_another_thread(own: Device) -> None:
    arrays = [xp.ones(1000, device=own) for _ in range(100)]
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    gc.collect()
    statistics = own.pool_statistics()
    assert statistics["allocations"] == statistics["deallocations"] == 100
