"""Sharing a device among tasks: partitions, admission, grants and decisions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple

from assay._native import NativeScheduler, NativeTask
from assay.errors import InputError
from assay.runtime.hardware import Device, Stream
from assay.runtime.memory import Tenant, unsigned

Lane = Literal["compute", "upload", "download"]
QoS = Literal["guaranteed", "burstable", "best-effort"]

SECOND_NS: Final = 1_000_000_000
"""Nanoseconds per second; the compute lane is measured in nanoseconds of device time."""

URGENCY: Final[Mapping[QoS, Literal["low", "normal", "high"]]] = {
    "guaranteed": "high",
    "burstable": "normal",
    "best-effort": "low",
}
"""The stream priority of a task, by its quality-of-service class."""

BURST_SHARE: Final = 100
"""The default burst of a rate is a hundredth of a second's units."""


class Rate(NamedTuple):
    """Average units per second, and the largest burst after idle time.

    Units are nanoseconds of device time in the compute lane and bytes in the others.
    """

    units_per_second: int
    burst_units: int


Rates = Mapping[Lane, int | Rate]


def _rates(rates: Rates | None) -> dict[str, tuple[int, int]]:
    pairs: dict[str, tuple[int, int]] = {}
    for lane, rate in (rates or {}).items():
        units, burst = rate if isinstance(rate, Rate) else (rate, None)
        units = unsigned("rates", f"{lane} units_per_second", units)
        burst = units // BURST_SHARE if burst is None else burst
        pairs[lane] = (units, unsigned("rates", f"{lane} burst_units", burst))
    return pairs


def _check_counts(operation: str, **counts: object) -> None:
    """Refuse what the native scheduler cannot count in; None stands for a default."""
    for name, count in counts.items():
        if count is not None:
            unsigned(operation, name, count)


class Decision(NamedTuple):
    """One decision of the scheduler and its reason."""

    sequence: int
    time_ns: int
    task: int | None
    """the task's id; None if it was rejected before it got one"""
    name: str
    partition: int
    lane: str | None
    units: int
    action: str
    """submit, refuse, admit, defer, start, pause, resume, grant, hold, return, withdraw, finish,
    fail, cancel or release"""
    reason: str


class Decisions(NamedTuple):
    """Decisions in order, and how many were dropped before them."""

    decisions: list[Decision]
    dropped: int


class Partition:
    """A share of the device with its own memory, reservable rates and weight."""

    def __init__(self, scheduler: Scheduler, name: str, number: int, tenant: Tenant | None) -> None:
        """Wrap a partition; `Scheduler.partition` creates one."""
        self.scheduler: Final = scheduler
        self.name: Final = name
        self.number: Final = number
        self.tenant: Final = tenant

    def remove(self) -> None:
        """Remove it; raises while it has tasks."""
        self.scheduler._native.remove_partition(self.number)

    def __repr__(self) -> str:
        return f"Partition({self.name})"


class Task:
    """Work that reserves memory and bandwidth and requests grants; `Scheduler.task` creates one.

    Inside `with task:` it is admitted and runs, and the operations of its device are queued on its
    stream, where each waits for a grant and is charged. Leaving the block ends the task: done;
    failed if an exception propagates; cancelled if that is a cancellation or the task does not run.
    Its reservations are released on every path.
    """

    def __init__(
        self, scheduler: Scheduler, native: NativeTask, name: str, partition: Partition, qos: QoS
    ) -> None:
        """Wrap a task."""
        self.scheduler: Final = scheduler
        self.name: Final = name
        self.qos: Final = qos
        self.partition: Final = partition
        self.number: Final = native.number
        self._native: Final = native
        self._stream: Stream | None = None
        self._entered: ExitStack | None = None

    @property
    def state(self) -> str:
        """pending, admitted, running, paused, done, failed or cancelled."""
        return self._native.state

    @property
    def stream(self) -> Stream:
        """The stream whose work requests this task's grants."""
        if self._stream is None:
            self.bind(self.scheduler.device.stream(URGENCY[self.qos]))
        assert self._stream is not None
        return self._stream

    def bind(self, stream: Stream) -> None:
        """Bind a stream: its work requests grants, instead of a stream that the task creates."""
        self._native.bind(stream._native)
        if self._stream is not None:
            self._native.unbind(self._stream._native)
        self._stream = stream

    def snapshot(self) -> dict[str, Any]:
        """Its state, reason of its end, and grants and units of each lane."""
        return self._native.snapshot()

    def wait_admitted(self) -> None:
        """Wait until it is admitted; ctrl-c cancels it."""
        if self.state != "pending":
            self._native.wait_admitted()
            return
        # The native wait hears no signals, so another thread waits in it.
        waiting = _NativeWait(self._native.wait_admitted)
        try:
            waiting.result()
        except BaseException:
            if self.state == "pending":
                self.cancel()
            raise

    def start(self) -> None:
        """Start it; it must be admitted."""
        self._native.start()

    def pause(self, *, keep: bool = True) -> None:
        """Pause its grants; without `keep` its reservation is released."""
        self._native.pause(keep)

    def resume(self) -> str:
        """Resume it; returns its state.

        If its reservations were released it is pending or admitted, and must be started again.
        """
        return self._native.resume()

    def finish(self) -> None:
        """End it successfully."""
        self._native.finish()

    def fail(self, message: str) -> None:
        """End it with an error."""
        self._native.fail(message)

    def cancel(self) -> None:
        """Cancel it; pending grant requests raise."""
        self._native.cancel()

    def __enter__(self) -> Task:
        if self._entered is not None:
            raise InputError(f'task "{self.name}": expected to be entered once, got a second time')
        self.wait_admitted()
        if self.state == "admitted":
            self.start()
        with ExitStack() as stack:
            if self.partition.tenant is not None:
                stack.enter_context(self.partition.tenant)
            stack.enter_context(self.stream)
            self._entered = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._entered is not None
        self._entered.close()
        try:
            if error is None:
                self.stream.synchronize()
        except BaseException as late:
            self._end(late)
            raise
        else:
            self._end(error)
        finally:
            self._native.unbind(self.stream._native)

    def _end(self, error: BaseException | None) -> None:
        # It may have been cancelled concurrently.
        if self._native.ended:
            return
        if error is None and self.state == "running":
            self.finish()
        elif error is None or _is_cancellation(error):
            self.cancel()
        else:
            self.fail(f"{type(error).__name__}: {error}")

    def __repr__(self) -> str:
        return f"Task({self.name}, {self.state})"


_TURN_S: Final = 0.1
"""Seconds for which a wait may not hear a signal."""


class _NativeWait(threading.Thread):
    """A native call that blocks, in a thread of its own, so that the caller hears signals."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__(name="assay-admission", daemon=True)
        self._call = call
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Make the call."""
        try:
            self._call()
        except BaseException as error:
            self._error = error
        self._ended.set()

    def result(self) -> None:
        """Return when the call has, or raise as it did."""
        # In turns: a signal that comes just before a wait, or to another thread, does not end it.
        while not self._ended.wait(_TURN_S):
            pass
        if self._error is not None:
            raise self._error


def _is_cancellation(error: BaseException) -> bool:
    # Imported here: it takes as long to import as the whole runtime, and few tasks need it.
    from asyncio import CancelledError

    return isinstance(error, CancelledError | GeneratorExit | KeyboardInterrupt)


class Scheduler:
    """Admission, fair shares and pacing for one device.

    Reservations are guaranteed minimums, limits are maximums, and the rest is shared by weight:
    first among partitions, then among the tasks of each. On `sim` everything runs in virtual time.
    """

    def __init__(
        self,
        device: Device,
        *,
        memory_bytes: int | None = None,
        upload_bytes_per_second: int,
        download_bytes_per_second: int,
        windows: Mapping[Lane, int] | None = None,
        class_weights: tuple[int, int, int] = (4, 2, 1),
        decisions: int = 4_096,
    ) -> None:
        """Set the device's capacity per second and its reservable memory.

        `windows` is the maximum of outstanding units per lane, by default a millisecond's worth;
        `class_weights` multiply the weights of guaranteed, burstable and best-effort tasks.
        """
        _check_counts(
            "Scheduler",
            memory_bytes=memory_bytes,
            upload_bytes_per_second=upload_bytes_per_second,
            download_bytes_per_second=download_bytes_per_second,
            decisions=decisions,
            **{f"window of {lane}": units for lane, units in (windows or {}).items()},
        )
        if len(class_weights) != 3 or not all(
            0 <= class_weight < 2**32 for class_weight in class_weights
        ):
            raise InputError(
                f"Scheduler: expected three class_weights of at least 0, got {class_weights}"
            )
        self.device: Final = device
        self._native: Final = NativeScheduler(
            device._context,
            memory_bytes=device.memory_bytes if memory_bytes is None else memory_bytes,
            units_per_second={
                "compute": SECOND_NS,
                "upload": upload_bytes_per_second,
                "download": download_bytes_per_second,
            },
            window_units={str(lane): units for lane, units in (windows or {}).items()},
            class_weights=class_weights,
            decisions=decisions,
        )
        self._whole: Partition | None = None

    def partition(
        self,
        name: str,
        *,
        weight: int = 1,
        memory_bytes: int | None = None,
        reservable: Mapping[Lane, int] | None = None,
        limits: Rates | None = None,
        tenant: Tenant | None = None,
    ) -> Partition:
        """Add a partition; each limit defaults to that of the whole device.

        With a tenant, the memory pool backs the reservations of the partition's tasks, and arrays
        created inside them are charged to it.
        """
        _check_counts(f'partition "{name}"', weight=weight, memory_bytes=memory_bytes)
        rates = None if reservable is None else {str(lane): reservable[lane] for lane in reservable}
        _check_counts(f'partition "{name}": reservable', **(rates or {}))
        number = self._native.add_partition(
            name,
            weight=weight,
            memory_bytes=memory_bytes,
            reservable=rates,
            limits=_rates(limits),
            tenant=None if tenant is None else tenant.number,
        )
        return Partition(self, name, number, tenant)

    def task(
        self,
        name: str,
        *,
        partition: Partition | None = None,
        qos: QoS = "best-effort",
        weight: int = 1,
        memory_bytes: int = 0,
        reserved: Rates | None = None,
        limits: Rates | None = None,
        assumed_ns: int = 100_000,
    ) -> Task:
        """Submit a task; it is admitted immediately if its reservation is available.

        `reserved` are guaranteed rates and `limits` maximum rates, in units per second. A launch is
        charged `assumed_ns` until work of its name has been measured. Without a partition it
        belongs to the whole device.
        """
        _check_counts(
            f'task "{name}"', weight=weight, memory_bytes=memory_bytes, assumed_ns=assumed_ns
        )
        home = partition or self._device_partition()
        native = self._native.submit(
            name,
            partition=home.number,
            qos=qos,
            weight=weight,
            memory_bytes=memory_bytes,
            reserved=_rates(reserved),
            limits=_rates(limits),
            assumed_ns=assumed_ns,
        )
        return Task(self, native, name, home, qos)

    def _device_partition(self) -> Partition:
        if self._whole is None:
            self._whole = self.partition("device")
        return self._whole

    def take_decisions(self) -> Decisions:
        """The decisions since the last call, oldest first."""
        rows, dropped = self._native.take_decisions()
        return Decisions([Decision(*row) for row in rows], dropped)

    def snapshot(self) -> dict[str, Any]:
        """Tasks, partitions and their reservations; `idle` is true when there are none."""
        return self._native.snapshot()

    def poll(self) -> None:
        """Process every event that is due; every other call does so too."""
        self._native.poll()

    def __repr__(self) -> str:
        return f"Scheduler({self.device})"
