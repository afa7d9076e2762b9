"""Sharing a device among tasks: partitions, admission, grants and decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple

from assay._native import NativeScheduler, NativeTask
from assay.errors import InputError
from assay.runtime.hardware import Device, Stream
from assay.runtime.memory import Tenant

Lane = Literal["compute", "upload", "download"]
QoS = Literal["guaranteed", "burstable", "best-effort"]

SECOND_NS: Final = 1_000_000_000
"""Device time of the compute lane in a second: its unit is the nanosecond."""

URGENCY: Final[Mapping[QoS, Literal["low", "normal", "high"]]] = {
    "guaranteed": "high",
    "burstable": "normal",
    "best-effort": "low",
}
"""The priority of a task's own stream: what its class may rely on, the device knows too."""

BURST_SHARE: Final = 100
"""A rate without a burst of its own may go ahead by a hundredth of a second's worth."""


class Rate(NamedTuple):
    """Units a second on average, and the most that may go at once after a rest.

    Units are nanoseconds of device time in the compute lane and bytes in the others.
    """

    units_per_second: int
    burst_units: int


Rates = Mapping[Lane, int | Rate]


def _rates(rates: Rates | None) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for lane, rate in (rates or {}).items():
        whole = rate if isinstance(rate, Rate) else Rate(rate, rate // BURST_SHARE)
        found[lane] = (whole.units_per_second, whole.burst_units)
    return found


class Decision(NamedTuple):
    """One decision of the scheduler and its reason."""

    sequence: int
    time_ns: int
    task: int | None
    """the task's number; none when it was refused before it got one"""
    name: str
    partition: int
    lane: str | None
    units: int
    action: str
    """submit, refuse, admit, defer, start, pause, resume, grant, hold, return, withdraw, finish,
    fail, cancel, miss or release"""
    reason: str


class Decisions(NamedTuple):
    """Decisions in order, and how many were forgotten before them."""

    decisions: list[Decision]
    dropped: int


class Partition:
    """A part of the device with memory, reservable rates and a weight of its own."""

    def __init__(self, scheduler: Scheduler, name: str, number: int, tenant: Tenant | None) -> None:
        """Wrap a partition; `Scheduler.partition` makes one."""
        self.scheduler: Final = scheduler
        self.name: Final = name
        self.number: Final = number
        self.tenant: Final = tenant

    def remove(self) -> None:
        """Take it away; refused while it has tasks."""
        self.scheduler._native.remove_partition(self.number)

    def __repr__(self) -> str:
        return f"Partition({self.name})"


class Task:
    """Work that reserves memory and bandwidth and requests grants; `Scheduler.task` makes one.

    Inside `with task:` it is admitted and runs, and the operations of its device go to its stream,
    where each waits for a grant and is charged. Leaving ends the task: done, failed if an exception
    passes, cancelled if that is a cancellation or the task is paused. Its reservations are released
    on every path.
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
        """Have the work of this stream request grants, instead of a stream of the task's own."""
        self._native.bind(stream._native)
        if self._stream is not None:
            self._native.unbind(self._stream._native)
        self._stream = stream

    def snapshot(self) -> dict[str, Any]:
        """Everything known of it: state, reason of its end, grants and units of each lane."""
        return self._native.snapshot()

    def wait_admitted(self) -> None:
        """Wait until it has its reservations."""
        self._native.wait_admitted()

    def start(self) -> None:
        """Start it; it must be admitted."""
        self._native.start()

    def pause(self, *, keep: bool = True) -> None:
        """Pause its grants; without `keep` its reservation is released."""
        self._native.pause(keep)

    def resume(self) -> str:
        """Let it go on; returns its state.

        Where it gave its reservations back it is pending or admitted, and must be started again.
        """
        return self._native.resume()

    def finish(self) -> None:
        """End it well."""
        self._native.finish()

    def fail(self, message: str) -> None:
        """End it with an error."""
        self._native.fail(message)

    def cancel(self) -> None:
        """Cancel it; requests that wait for grants are refused."""
        self._native.cancel()

    @contextmanager
    def request_grant(self, lane: Lane, units: int) -> Iterator[None]:
        """Wait for a grant and hold it while the block runs, for work outside any stream."""
        grant = self._native.request_grant(lane, units)
        try:
            yield
        finally:
            grant.end()

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
        # Someone else may have cancelled it meanwhile, or a deadline failed it.
        if self._native.ended:
            return
        if error is None and self.state != "paused":
            self.finish()
        elif error is None or _is_cancellation(error):
            self.cancel()
        else:
            self.fail(f"{type(error).__name__}: {error}")

    def __repr__(self) -> str:
        return f"Task({self.name}, {self.state})"


def _is_cancellation(error: BaseException) -> bool:
    # Imported here: it takes as long as all of the runtime, and few tasks end so.
    from asyncio import CancelledError

    return isinstance(error, CancelledError | GeneratorExit | KeyboardInterrupt)


class Scheduler:
    """Admission, fair shares and pacing for one device.

    Reservations are floors, limits are ceilings, and what is left goes by weight: first among
    partitions, then among the tasks of each. On `sim` everything happens in virtual time.
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
        """Say what the device can do in a second and what tasks may reserve of its memory.

        `windows` is how many units may be under way in a lane at once, by default a millisecond's
        worth; `class_weights` multiply the weights of guaranteed, burstable and best-effort tasks.
        """
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
        """Give a part of the device a name; what is not given is the whole device's.

        With a tenant, the memory pool itself keeps what the partition's tasks reserve, and arrays
        made inside them are charged to it.
        """
        rates = None if reservable is None else {str(lane): reservable[lane] for lane in reservable}
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
        grant_limits: Rates | None = None,
        deadline_ns: int | None = None,
        fail_on_miss: bool = False,
        assumed_ns: int = 100_000,
    ) -> Task:
        """Submit a task; it is admitted at once if what it requests is free.

        `reserved` are guaranteed rates and `limits` the most it gets, in units a second;
        `grant_limits` paces its launches and copies by count. A launch is charged `assumed_ns` until the device
        has told how long work of its name takes. Without a partition it belongs to the whole device.
        """
        home = partition or self._device_partition()
        native = self._native.submit(
            name,
            partition=home.number,
            qos=qos,
            weight=weight,
            memory_bytes=memory_bytes,
            reserved=_rates(reserved),
            limits=_rates(limits),
            grant_limits=_rates(grant_limits),
            deadline=None if deadline_ns is None else (deadline_ns, fail_on_miss),
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
        """Tasks, partitions and what they have reserved; `idle` says that nothing is."""
        return self._native.snapshot()

    def poll(self) -> None:
        """Let everything happen that is due by now; every other call does so too."""
        self._native.poll()

    def __repr__(self) -> str:
        return f"Scheduler({self.device})"
