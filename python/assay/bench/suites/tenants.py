"""Tenants that share a device under its scheduler: device time of each, and step latencies.

A pass adds one to every element of the tenant's array, so the array counts the passes that ran.
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

QUEUE_DEPTH: Final = 64
"""Passes that a saturating tenant keeps queued: more than the scheduler's window."""

LINK_BYTES_PER_SECOND: Final = 50_000_000_000
"""Link rate given to the scheduler; there are no transfers here."""

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
    """A task with a memory quota and an array that its passes run over."""

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
        assumed_ns: int = 100_000,
    ) -> None:
        """Create the task; `reserved` and `limit` are shares of device time."""
        device = scheduler.device
        quota = device.tenant(name, 2 * nbytes)
        rate = int(reserved * SECOND_NS)
        self.partition: Final = scheduler.partition(
            name, weight=weight, memory_bytes=2 * nbytes, reservable={"compute": rate}, tenant=quota
        )
        self.task: Final[Task] = scheduler.task(
            name,
            partition=self.partition,
            qos=qos,
            memory_bytes=nbytes,
            reserved={"compute": rate} if rate else None,
            limits=None if limit is None else {"compute": int(limit * SECOND_NS)},
            assumed_ns=assumed_ns,
        )
        self.task.wait_admitted()
        with quota:
            self.array: Final = xp.zeros(nbytes // 4, dtype=xp.float32, device=device)
        _ADD_ONE(self.array, self.array.size)
        device.synchronize()
        self.passes = 1
        self.task.start()

    def launch_pass(self) -> None:
        """Queue one pass on the task's stream."""
        _ADD_ONE(self.array, self.array.size, stream=self.task.stream)
        self.passes += 1

    def flood(self, stop: threading.Event) -> None:
        """Queue passes until `stop` is set, then synchronize."""
        stream = self.task.stream
        while not stop.is_set():
            if stream._native.usage()[1] < QUEUE_DEPTH:
                self.launch_pass()
                continue
            # Any call to the device advances its queue.
            stream.device.totals()
            time.sleep(1e-4)
        stream.synchronize()

    def flood_in_bursts(self, stop: threading.Event) -> None:
        """Queue many passes and synchronize, repeatedly.

        The thread sleeps while it waits, so that it contends for the device and not for the GIL.
        """
        while not stop.is_set():
            for _ in range(QUEUE_DEPTH):
                self.launch_pass()
            self.task.stream.synchronize()

    def device_time_ns(self) -> int:
        """Device time measured so far for the task, by events around its work."""
        return int(self.task.snapshot()["lanes"]["compute"]["measured_units"])

    def count_error(self) -> float:
        """Largest deviation of an element from the number of passes launched."""
        counted = self.array.to_numpy()
        return float(np.abs(counted - np.float32(self.passes)).max())

    def close(self) -> None:
        """Finish the task and free its memory."""
        self.task.stream.synchronize()
        self.task.finish()
        self.task._native.unbind(self.task.stream._native)
        self.array.free()


def scheduler_of(device: Device, window_ns: int) -> Scheduler:
    """A scheduler with this window of in-flight work and equal class weights."""
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
    """Run each flood in its own thread while the block runs."""
    stop = threading.Event()
    with ThreadPoolExecutor(max(1, len(floods))) as threads:
        running = [threads.submit(flood, stop) for flood in floods]
        try:
            yield
        finally:
            stop.set()
            for flood in running:
                flood.result()


class WeightedTenants:
    """Weighted tenants that all saturate the device."""

    def __init__(
        self,
        device: Device,
        weights: Sequence[int],
        nbytes: Sequence[int],
        *,
        window_ns: int = 1_000_000,
    ) -> None:
        """Create one tenant for each weight, with passes of its own size."""
        self.weights = tuple(weights)
        self._scheduler = scheduler_of(device, window_ns)
        self.tenants = [
            Tenant(self._scheduler, f"tenant-{index}", nbytes=size, weight=weight, qos="burstable")
            for index, (weight, size) in enumerate(zip(weights, nbytes, strict=True))
        ]

    def shares(self, seconds: float) -> tuple[list[float], float]:
        """Each tenant's share of the measured device time, and device time over wall time."""
        with flooding([tenant.flood for tenant in self.tenants]):
            time.sleep(seconds / 10)
            before, start = (
                [tenant.device_time_ns() for tenant in self.tenants],
                time.perf_counter_ns(),
            )
            time.sleep(seconds)
            after, end = (
                [tenant.device_time_ns() for tenant in self.tenants],
                time.perf_counter_ns(),
            )
        gained = [late - early for early, late in zip(before, after, strict=True)]
        return [tokens / max(sum(gained), 1) for tokens in gained], sum(gained) / (end - start)

    def error(self, seconds: float) -> float:
        """Largest deviation of a share from its weight; NaN if passes were lost or repeated."""
        shares, _ = self.shares(seconds)
        if any(tenant.count_error() for tenant in self.tenants):
            return float("nan")
        total = sum(self.weights)
        return max(
            abs(share - weight / total) for share, weight in zip(shares, self.weights, strict=True)
        )

    def close(self) -> None:
        """Finish all tasks."""
        for tenant in self.tenants:
            tenant.close()


class GuaranteedSteps:
    """A guaranteed tenant that runs steps, and a best-effort one that saturates the device."""

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
        """A step is `passes` passes, as one graph or one by one, estimated at `step_ns`."""
        self._scheduler = scheduler_of(device, window_ns)
        self.guaranteed = Tenant(
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
        array = self.guaranteed.array
        for _ in range(self._passes):
            _ADD_ONE(array, array.size)

    def step(self) -> float:
        """Seconds from the first launch of a step to the end of its last pass."""
        stream = self.guaranteed.task.stream
        start = time.perf_counter_ns()
        if self._graph is not None:
            self._graph.replay(stream)
            self.guaranteed.passes += self._passes
        else:
            for _ in range(self._passes):
                self.guaranteed.launch_pass()
        stream.synchronize()
        return (time.perf_counter_ns() - start) * 1e-9

    def times(self, count: int, *, flooded: bool, pause: float) -> np.ndarray[Any, Any]:
        """Seconds of each of `count` steps, with a pause after each."""
        with flooding([self.flood.flood_in_bursts] if flooded else []):
            time.sleep(0.01)
            seconds = []
            for _ in range(count):
                seconds.append(self.step())
                time.sleep(pause)
        return np.asarray(seconds)

    def count_error(self) -> float:
        """Largest deviation of an element of either array from the number of passes launched."""
        return max(self.guaranteed.count_error(), self.flood.count_error())

    def close(self) -> None:
        """Finish both tasks."""
        if self._graph is not None:
            self._graph.close()
        self.guaranteed.close()
        self.flood.close()
