"""Tasks: admission, grants, shares, pacing, decisions, and reservations released on every path."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from assay import xp
from assay._native import provoke_panic
from assay.errors import DeviceError, InputError, OutOfMemoryError, PanicError
from assay.runtime import Device, Rate, Scheduler, capture_graph
from chosen_device import new_device

MIB = 1 << 20
GB = 10**9


def scheduler(device: Device, **options: int) -> Scheduler:
    return Scheduler(device, upload_bytes_per_second=GB, download_bytes_per_second=GB, **options)


def test_operations_in_a_task_wait_for_grants_and_are_charged(fresh: Device) -> None:
    tasks = scheduler(fresh)
    x = xp.zeros(1000, device=fresh)
    with tasks.task("work") as task:
        assert task.state == "running"
        for _ in range(10):
            x += 1.0
    assert task.state == "done"
    assert float(x[0]) == 10.0
    lane = task.snapshot()["lanes"]["compute"]
    assert lane["grants"] == 10
    assert lane["measured_units"] > 0
    charged = [one for one in fresh.take_records().records if one.task == task.number]
    assert [one.kind for one in charged] == ["launch"] * 10
    assert len({one.stream for one in charged}) == 1
    x += 1.0  # outside again
    actions = Counter(
        decision.action for decision in tasks.take_decisions().decisions if decision.name == "work"
    )
    assert actions["submit"] == actions["admit"] == actions["start"] == actions["finish"] == 1
    assert actions["grant"] == actions["return"] == 10
    assert actions["release"] == 1


def test_transfers_in_a_task_are_charged(sim: Device) -> None:
    tasks = scheduler(sim)
    outside = xp.asarray(np.ones(10), device=sim)
    sim.take_records()
    with tasks.task("copies") as task:
        x = xp.asarray(np.ones(1000), device=sim)
        x[...] = 999.0
        y = xp.full((500,), 3.0, device=sim)
        assert x.to_numpy()[-1] == 999.0
        assert float(y[0]) == 3.0
    lanes = task.snapshot()["lanes"]
    assert lanes["upload"]["granted_units"] == 2 * 8000 + 4000
    assert lanes["download"]["granted_units"] == 8000 + 8
    copies = [one for one in sim.take_records().records if one.kind.startswith("copy to")]
    assert [(one.name, one.bytes) for one in copies if one.kind == "copy to device"] == [
        ("asarray", 8000), ("setitem", 8000), ("full", 4000),
    ]  # fmt: skip
    assert all(one.task == task.number for one in copies)
    granted = [one for one in tasks.take_decisions().decisions if one.action == "grant"]
    assert {one.lane for one in granted} >= {"upload", "download"}
    # Outside again, nobody is charged.
    outside.to_numpy()
    assert [one.task for one in sim.take_records().records if one.kind != "free"] == [None]


@pytest.mark.parametrize("way", ["asarray", "setitem", "full", "to_numpy"])
def test_transfers_in_a_task_are_paced(sim: Device, way: str) -> None:
    nbytes, rate = 32 * MIB, 64 * MIB
    x = xp.zeros(nbytes // 8, device=sim)
    host = np.ones(nbytes // 8)
    tasks = scheduler(sim)
    with tasks.task("paced", limits={"upload": rate, "download": rate}):
        start = sim.now_ns()
        if way == "asarray":
            xp.asarray(host, device=sim)
        elif way == "setitem":
            x[...] = 1.0
        elif way == "full":
            xp.full((nbytes // 8,), 2.0, device=sim)
        else:
            x.to_numpy()
        seconds = (sim.now_ns() - start) / 1e9
    # A half second at the limited rate, of which the first chunk's sixteenth is not waited for;
    # without the limit the link of the simulated device takes a few milliseconds.
    assert 0.4 < seconds < 0.55


def test_task_can_bind_a_stream_in_use(own: Device) -> None:
    tasks = scheduler(own)
    x = xp.zeros(100, device=own)
    task = tasks.task("default stream")
    task.bind(own.default_stream)
    with pytest.raises(DeviceError, match="expected it to be running, got admitted"):
        x += 1.0
    with task:
        graph = capture_graph(lambda: own.fill("f", x.buffer, 0, 0, 64), device=own)
        graph.replay()
        x += 1.0
    grants = task.snapshot()["lanes"]["compute"]["grants"]
    assert grants == 2  # one for the replay and one for the addition
    assert float(x[99]) == 1.0
    other = tasks.task("second")
    other.bind(own.default_stream)
    with pytest.raises(DeviceError, match="expected a stream without a task"):
        tasks.task("third").bind(own.default_stream)


def test_decisions_have_reasons(sim: Device) -> None:
    tasks = scheduler(sim, memory_bytes=10 * MIB)
    with tasks.task("first", memory_bytes=8 * MIB):
        second = tasks.task("second", memory_bytes=8 * MIB)
        assert second.state == "pending"
    second.wait_admitted()
    assert second.state == "admitted"
    reasons = {
        (decision.name, decision.action): decision.reason
        for decision in tasks.take_decisions().decisions
    }
    assert reasons["first", "admit"] == "everything requested is free"
    assert reasons["second", "defer"] == (f"{8 * MIB} bytes of memory requested, {2 * MIB} free")
    assert reasons["second", "admit"] == "everything requested is free"


def endings() -> dict[str, tuple[Callable[[Scheduler], None], str]]:
    def finish(tasks: Scheduler) -> None:
        with tasks.task("one", memory_bytes=MIB):
            pass

    def fail(tasks: Scheduler) -> None:
        with pytest.raises(ZeroDivisionError), tasks.task("one", memory_bytes=MIB):
            raise ZeroDivisionError

    def panic(tasks: Scheduler) -> None:
        with pytest.raises(PanicError), tasks.task("one", memory_bytes=MIB):
            provoke_panic("inside a task")

    def cancel(tasks: Scheduler) -> None:
        with pytest.raises(asyncio.CancelledError), tasks.task("one", memory_bytes=MIB):
            raise asyncio.CancelledError

    def interrupt(tasks: Scheduler) -> None:
        with pytest.raises(KeyboardInterrupt), tasks.task("one", memory_bytes=MIB):
            raise KeyboardInterrupt

    def forget(tasks: Scheduler) -> None:
        task = tasks.task("one", memory_bytes=MIB)
        task.start()
        del task
        gc.collect()

    def stop(tasks: Scheduler) -> None:
        with tasks.task("one", memory_bytes=MIB) as task:
            task.cancel()
            with pytest.raises(DeviceError, match="cancelled"):
                xp.zeros(8, device=tasks.device)

    return {
        "finish": (finish, "finish"),
        "fail": (fail, "fail"),
        "panic": (panic, "fail"),
        "cancel": (cancel, "cancel"),
        "interrupt": (interrupt, "cancel"),
        "forget": (forget, "cancel"),
        "stop": (stop, "cancel"),
    }


@pytest.mark.parametrize("ending", endings())
def test_reservations_are_released_on_every_path(fresh: Device, ending: str) -> None:
    tenant = fresh.tenant("part", 4 * MIB)
    tasks = scheduler(fresh)
    run, action = endings()[ending]
    partition = tasks.partition("part", tenant=tenant, memory_bytes=4 * MIB)
    tasks._whole = partition
    for _ in range(5):
        run(tasks)
        (row,) = tasks.snapshot()["partitions"]
        assert row["reserved_bytes"] == 0
        assert tenant.usage().reserved_bytes == 0
    actions = Counter(decision.action for decision in tasks.take_decisions().decisions)
    assert actions[action] == 5
    assert actions["release"] == 5
    if ending != "stop":
        assert tasks.snapshot()["idle"]
    partition.remove()


def test_partition_memory_is_reserved_in_the_pool() -> None:
    device = new_device(pool_bytes=8 * MIB)
    tenant = device.tenant("serving", 6 * MIB)
    tasks = scheduler(device)
    partition = tasks.partition("serving", tenant=tenant, memory_bytes=6 * MIB)
    with tasks.task("serve", partition=partition, memory_bytes=6 * MIB):
        with pytest.raises(OutOfMemoryError, match="reserved"):
            device._context.allocate(4 * MIB, device.default_stream._native)
        x = xp.zeros(6 * MIB, dtype=xp.uint8, device=device)  # charged to the tenant
        assert tenant.usage().used_bytes == 6 * MIB
        del x
    device._context.allocate(8 * MIB, device.default_stream._native).free()


def test_guaranteed_task_keeps_its_share_under_contention_on_sim(sim: Device) -> None:
    tasks = scheduler(sim, windows={"compute": 200_000})  # type: ignore[arg-type]
    pieces = 40
    arrays = {}
    for name, options in {
        "guaranteed": {"qos": "guaranteed", "reserved": {"compute": 500_000_000}},
        "flood": {"weight": 100},
    }.items():
        task = tasks.task(name, **options)  # type: ignore[arg-type]
        task.start()
        arrays[name] = (task, xp.zeros(100_000_000, dtype=xp.uint8, device=sim))
    sim.synchronize()
    start = sim.now_ns()
    for task, array in arrays.values():
        for _ in range(pieces):
            sim._context.fill("f", array.buffer, 0, 1, array.nbytes, task.stream._native)
    guaranteed = arrays["guaranteed"][0]
    guaranteed.stream.synchronize()
    took = sim.now_ns() - start
    charged = guaranteed.snapshot()["lanes"]["compute"]["measured_units"]
    assert charged / took >= 0.49  # half the device, less one piece of the flood at either end
    for task, _ in arrays.values():
        task.stream.synchronize()
        task.finish()


def test_shares_of_virtual_time_follow_weights(sim: Device) -> None:
    tasks = scheduler(sim, windows={"compute": 200_000})  # type: ignore[arg-type]
    running = []
    for weight in (1, 3):
        task = tasks.task(f"weight {weight}", weight=weight)
        task.start()
        running.append((task, xp.zeros(100_000_000, dtype=xp.uint8, device=sim)))
    for task, array in running:
        for _ in range(200):
            sim._context.fill("f", array.buffer, 0, 1, array.nbytes, task.stream._native)
    light, heavy = (task for task, _ in running)
    heavy.stream.synchronize()
    units = [one.snapshot()["lanes"]["compute"]["granted_units"] for one in (light, heavy)]
    assert units[1] / units[0] == pytest.approx(3.0, rel=0.05)
    light.stream.synchronize()
    del heavy, light, running


def test_paused_task_gets_no_grants_until_resumed(own: Device) -> None:
    tasks = scheduler(own)
    x = xp.zeros(64, dtype=xp.uint8, device=own)
    with tasks.task("patient") as task:
        task.pause()
        assert task.state == "paused"
        with pytest.raises(DeviceError, match="expected it to be running, got paused"):
            x[...] = 5
        assert task.resume() == "running"
        x[...] = 6
    assert int(x[0]) == 6
    assert task.state == "done"
    with tasks.task("given up") as other:
        other.pause(keep=False)
    assert other.state == "cancelled"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qos": "royal"}, "expected class guaranteed, burstable or best-effort"),
        ({"weight": 0}, "task weight"),
        ({"qos": "guaranteed"}, "a reserved rate in at least one lane"),
        ({"reserved": {"compute": 1000}}, "no reserved rate"),
        ({"reserved": {"memory": 1000}}, "expected lane compute, upload or download"),
        ({"memory_bytes": 1 << 60}, "memory"),
        ({"qos": "guaranteed", "reserved": {"upload": 10 * GB}}, "upload"),
    ],
)
def test_inadmissible_tasks_raise(sim: Device, options: dict[str, object], message: str) -> None:
    tasks = scheduler(sim)
    with pytest.raises(DeviceError, match=message):
        tasks.task("wrong", **options)  # type: ignore[arg-type]


def test_task_is_entered_once(own: Device) -> None:
    tasks = scheduler(own)
    with tasks.task("one") as task, pytest.raises(InputError, match="entered once"), task:
        pass
    with pytest.raises(InputError, match="entered once"), task:
        pass


@pytest.mark.parametrize(
    "call",
    [
        lambda tasks: tasks.task("t", weight=-1),
        lambda tasks: tasks.task("t", memory_bytes=-1),
        lambda tasks: tasks.task("t", memory_bytes=2**64),
        lambda tasks: tasks.task("t", limits={"upload": -5}),
        lambda tasks: tasks.task("t", reserved={"compute": Rate(10, -1)}),
        lambda tasks: tasks.task("t", limits={"compute": 1.5}),
        lambda tasks: tasks.partition("p", weight=-1),
        lambda tasks: tasks.partition("p", reservable={"compute": -1}),
        lambda tasks: scheduler(tasks.device, memory_bytes=-1),
        lambda tasks: scheduler(tasks.device, windows={"compute": -1}),
    ],
)
def test_counts_that_are_not_counts_are_refused(call: Callable[[Scheduler], object]) -> None:
    tasks = scheduler(new_device())
    with pytest.raises(InputError, match=r"as an integer from 0 to 2\*\*64 - 1, got "):
        call(tasks)
    for weights in ((1, -1, 1), (1, 1)):
        with pytest.raises(InputError, match="three class_weights"):
            scheduler(tasks.device, class_weights=weights)  # type: ignore[arg-type]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell without job control starts what runs behind it with SIGINT ignored, and so tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_task_that_waits_for_its_reservation_hears_ctrl_c(fresh: Device) -> None:
    tasks = scheduler(fresh)
    most = {"compute": 800_000_000}
    with tasks.task("outer", qos="guaranteed", reserved=most):
        inner = tasks.task("inner", qos="guaranteed", reserved=most)
        # The outer task ends after this block, so that the inner one would wait for ever.
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt), inner:
            pytest.fail("it was admitted beside the outer one")
        assert inner.state == "cancelled"
