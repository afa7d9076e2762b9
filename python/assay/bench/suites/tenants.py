"""Tenants that share a device under its scheduler: what each got, and how long its steps took.

The work is real and can be checked: a pass adds one to every element of the tenant's own array,
so the array says how many passes were made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from assay import jit, xp
from assay.runtime.graphs import capture_graph
from assay.runtime.hardware import Device
from assay.runtime.scheduling import SECOND_NS, QoS, Scheduler, Task

LINE: Final = 64
"""Passes that a flooding tenant has in line: always more than the scheduler looks ahead."""

LINK_BYTES_PER_SECOND: Final = 50_000_000_000
"""Told to the scheduler for transfers, of which there are none here."""

_ADD_ONE = jit.kernel(
    """
    extern "C" __global__ void add_one(float* x, long long n) {
        const long long stride = (long long)gridDim.x * blockDim.x;
        for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
            x[i] += 1.0f;
    }
    """,
    cpu=lambda x, n: np.add(x, 1.0, out=x),
)


class Tenant:
    """A task with a quota of memory and an array of its own to make passes over."""

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        *,
        nbytes: int,
        weight: int = 1,
        qos: QoS = "best-effort",
        reserved: float = 0.0,
        limit: float | None = None,
        deadline_ns: int | None = None,
        assumed_ns: int = 100_000,
    ) -> None:
        """Take a part of the device; `reserved` and `limit` are shares of its time."""
        device = scheduler.device
        quota = device.tenant(name, 2 * nbytes)
        rate = int(reserved * SECOND_NS)
        self.partition: Final = scheduler.partition(
            name,
            weight=weight,
            memory_bytes=2 * nbytes,
            reservable={"compute": rate},
            tenant=quota,
        )
        self.task: Final[Task] = scheduler.task(
            name,
            partition=self.partition,
            qos=qos,
            memory_bytes=nbytes,
            reserved={"compute": rate} if rate else None,
            limits=None if limit is None else {"compute": int(limit * SECOND_NS)},
            deadline_ns=deadline_ns,
            fail_on_miss=deadline_ns is not None,
            assumed_ns=assumed_ns,
        )
        self.task.wait_admitted()
        with quota:
            self.array: Final = xp.zeros(nbytes // 4, dtype=xp.float32, device=device)
        _ADD_ONE(self.array, self.array.size)
        device.synchronize()
        self.passes = 1
        self.task.start()

    def make_pass(self) -> None:
        """Queue one pass on the task's stream."""
        _ADD_ONE(self.array, self.array.size, stream=self.task.stream)
        self.passes += 1

    def flood(self, stop: threading.Event) -> None:
        """Queue passes until told to stop, then wait for all of them."""
        stream = self.task.stream
        while not stop.is_set():
            if stream._native.usage()[1] < LINE:
                self.make_pass()
                continue
            # Moves on what stands in line, as any call to the device does.
            stream.device.totals()
            time.sleep(1e-4)
        stream.synchronize()

    def flood_in_bursts(self, stop: threading.Event) -> None:
        """Queue many passes and wait for them, again and again.

        The thread sleeps in between, so that it takes the device from others and not Python.
        """
        while not stop.is_set():
            for _ in range(LINE):
                self.make_pass()
            self.task.stream.synchronize()

    def device_time_ns(self) -> int:
        """Device time measured so far for the task, by events around its work."""
        return int(self.task.snapshot()["lanes"]["compute"]["measured_units"])

    def miscounted(self) -> float:
        """How far any element is from the number of passes made."""
        counted = self.array.to_numpy()
        return float(np.abs(counted - np.float32(self.passes)).max())

    def close(self) -> None:
        """End the task and give its memory back."""
        self.task.stream.synchronize()
        self.task.finish()
        self.task._native.unbind(self.task.stream._native)
        self.array.free()


def scheduler_of(device: Device, window_ns: int) -> Scheduler:
    """A scheduler that has so much work under way at once, whose weights are what they say."""
    return Scheduler(
        device,
        upload_bytes_per_second=LINK_BYTES_PER_SECOND,
        download_bytes_per_second=LINK_BYTES_PER_SECOND,
        windows={"compute": window_ns},
        class_weights=(1, 1, 1),
    )


Flood = Callable[[threading.Event], None]


@contextmanager
def flooding(floods: Sequence[Flood]) -> Iterator[None]:
    """Have tenants flood the device, each from a thread of its own, while the block runs."""
    stop = threading.Event()
    with ThreadPoolExecutor(max(1, len(floods))) as threads:
        running = [threads.submit(flood, stop) for flood in floods]
        try:
            yield
        finally:
            stop.set()
            for one in running:
                one.result()


class Sharing:
    """Tenants that all want the whole device."""

    def __init__(
        self,
        device: Device,
        weights: Sequence[int],
        nbytes: Sequence[int],
        *,
        window_ns: int = 1_000_000,
    ) -> None:
        """Take memory for passes of so many bytes, of another size for each tenant."""
        self.weights = tuple(weights)
        self._scheduler = scheduler_of(device, window_ns)
        self.tenants = [
            Tenant(self._scheduler, f"tenant-{index}", nbytes=size, weight=weight, qos="burstable")
            for index, (weight, size) in enumerate(zip(weights, nbytes, strict=True))
        ]

    def shares(self, seconds: float) -> tuple[list[float], float]:
        """Each tenant's part of the device time measured, and that time over the time passed."""
        with flooding([tenant.flood for tenant in self.tenants]):
            time.sleep(seconds / 10)
            before, start = [one.device_time_ns() for one in self.tenants], time.perf_counter_ns()
            time.sleep(seconds)
            after, end = [one.device_time_ns() for one in self.tenants], time.perf_counter_ns()
        gained = [late - early for early, late in zip(before, after, strict=True)]
        return [one / max(sum(gained), 1) for one in gained], sum(gained) / (end - start)

    def error(self, seconds: float) -> float:
        """The largest distance of a share from its weight's; NaN where passes were miscounted."""
        shares, _ = self.shares(seconds)
        if any(tenant.miscounted() for tenant in self.tenants):
            return float("nan")
        total = sum(self.weights)
        return max(
            abs(share - weight / total) for share, weight in zip(shares, self.weights, strict=True)
        )

    def close(self) -> None:
        """End all tasks."""
        for tenant in self.tenants:
            tenant.close()


class Steps:
    """A guaranteed tenant that makes steps at a pace, and one that floods the rest."""

    def __init__(
        self,
        device: Device,
        *,
        passes: int,
        nbytes: int,
        step_ns: int,
        as_graph: bool,
        reserved: float = 0.6,
        window_ns: int = 150_000,
    ) -> None:
        """A step is so many passes, as one graph or one by one; it is assumed to take `step_ns`."""
        self._scheduler = scheduler_of(device, window_ns)
        self.promised = Tenant(
            self._scheduler,
            "guaranteed",
            nbytes=nbytes,
            qos="guaranteed",
            reserved=reserved,
            assumed_ns=step_ns if as_graph else step_ns // passes,
        )
        self.flood = Tenant(
            self._scheduler, "flood", nbytes=nbytes, assumed_ns=max(1, step_ns // passes)
        )
        self._passes = passes
        self._graph = None
        if as_graph:
            self._graph = capture_graph(self._capture, device=device, label="step")

    def _capture(self) -> None:
        array = self.promised.array
        for _ in range(self._passes):
            _ADD_ONE(array, array.size)

    def step(self) -> float:
        """Seconds from the first launch of a step to the end of its last pass."""
        stream = self.promised.task.stream
        start = time.perf_counter_ns()
        if self._graph is not None:
            self._graph.replay(stream)
            self.promised.passes += self._passes
        else:
            for _ in range(self._passes):
                self.promised.make_pass()
        stream.synchronize()
        return (time.perf_counter_ns() - start) * 1e-9

    def times(self, count: int, *, flooded: bool, pause: float) -> np.ndarray[Any, Any]:
        """Seconds of each of so many steps, with a pause after each."""
        with flooding([self.flood.flood_in_bursts] if flooded else []):
            time.sleep(0.01)
            found = []
            for _ in range(count):
                found.append(self.step())
                time.sleep(pause)
        return np.asarray(found)

    def miscounted(self) -> float:
        """How far any element of either array is from the number of passes made."""
        return max(self.promised.miscounted(), self.flood.miscounted())

    def close(self) -> None:
        """End both tasks."""
        if self._graph is not None:
            self._graph.close()
        self.promised.close()
        self.flood.close()
