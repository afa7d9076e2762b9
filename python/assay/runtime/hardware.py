"""Devices, their streams and events, and the records of everything they did."""

from __future__ import annotations

import contextvars
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, NamedTuple

from assay._native import Buffer, Context, NativeEvent, NativeStream
from assay.errors import unknown_name

NAMES: Final = ("cpu", "sim")
"""The devices that every machine has."""

_CURRENT: Final[contextvars.ContextVar[tuple[Stream, ...]]] = contextvars.ContextVar(
    "assay_streams", default=()
)


@dataclass(frozen=True, slots=True)
class Record:
    """One piece of work or memory that is over, as the device's recorder wrote it."""

    sequence: int
    kind: str
    """launch, copy to device, copy to host, copy within device, copy within host, fill, graph,
    allocate or free"""
    name: str
    stream: int
    bytes: int
    flops: float
    submitted_ns: int
    start_ns: int | None
    end_ns: int | None
    failure: str | None


class Records(NamedTuple):
    """Records in the order they were written, and how many were forgotten before them."""

    records: list[Record]
    dropped: int


class Event:
    """A mark in a stream, which other streams and the host can wait for."""

    def __init__(self, native: NativeEvent) -> None:
        """Wrap a mark; `Stream.record` makes one."""
        self._native = native

    def query(self) -> bool:
        """Whether the mark has been reached."""
        return self._native.query()

    def synchronize(self) -> None:
        """Wait until the mark has been reached."""
        self._native.synchronize()

    def elapsed_ns(self, earlier: Event) -> int:
        """Nanoseconds of device time since an earlier event; both must have been reached."""
        return self._native.elapsed_ns(earlier._native)


class Stream:
    """A queue of work: what is in it runs in order, beside what is in other streams.

    Inside `with stream:` the operations of its device go to it. What an array's data depends on
    is waited for by itself: an operation comes after the last work that wrote what it reads.
    """

    def __init__(self, device: Device, native: NativeStream) -> None:
        """Wrap a queue; `Device.stream` makes one."""
        self.device: Final = device
        self._native: Final = native

    @property
    def number(self) -> int:
        """The stream's number on its device; the default stream's is 0."""
        return self._native.number

    def synchronize(self) -> None:
        """Wait for everything submitted so far."""
        self._native.synchronize()

    def record(self) -> Event:
        """An event that marks the end of everything submitted so far."""
        return Event(self._native.record())

    def wait(self, event: Event) -> None:
        """Have later work of this stream come after the event."""
        self._native.wait(event._native)

    def __enter__(self) -> Stream:
        _CURRENT.set((*_CURRENT.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _CURRENT.set(_CURRENT.get()[:-1])

    def __repr__(self) -> str:
        return f"Stream({self.device.name}, {self.number})"


class Device:
    """A device with its memory pool, its queues and its records.

    >>> device("cpu").name
    'cpu'
    """

    def __init__(
        self,
        kind: Literal["cpu", "sim"],
        *,
        memory_bytes: int | None = None,
        pool_bytes: int | None = None,
        timing: bool = True,
        records: int = 16_384,
    ) -> None:
        """Make a device of one's own; `device` gives the one that everybody shares.

        `memory_bytes` limits the device, `pool_bytes` what arrays may take of it; `timing` has
        records tell when work ran; `records` is how many are kept until they are taken.
        """
        self._context: Final = Context(
            kind, memory_bytes=memory_bytes, pool_bytes=pool_bytes, timing=timing, records=records
        )
        self.name: Final[str] = kind
        self.default_stream: Final = Stream(self, self._context.default_stream())
        """The stream that operations go to outside `with stream:`; on `cpu` its work is over
        when the call returns."""
        self.host_memory: Final = self._context.host_memory
        """Whether NumPy can look at this device's arrays without a copy."""

    @property
    def description(self) -> str:
        """The device as its maker or its profile names it."""
        return self._context.name

    @property
    def memory_bytes(self) -> int:
        """Memory in all."""
        return self._context.memory_bytes

    @property
    def alignment_bytes(self) -> int:
        """Every array's memory begins at a multiple of this many bytes."""
        return self._context.alignment_bytes

    def now_ns(self) -> int:
        """The device's clock; on `sim` it is virtual."""
        return self._context.now_ns()

    def stream(self, priority: Literal["low", "normal", "high"] = "normal") -> Stream:
        """Make a stream."""
        return Stream(self, self._context.create_stream(priority))

    def current_stream(self) -> Stream:
        """The stream that operations go to here and now."""
        for stream in reversed(_CURRENT.get()):
            if stream.device is self:
                return stream
        return self.default_stream

    def synchronize(self) -> None:
        """Wait for everything submitted to the current and the default stream."""
        for stream in {self.current_stream(), self.default_stream}:
            stream.synchronize()

    def allocate(self, nbytes: int) -> Buffer:
        """Take memory from the pool, for work of the current stream."""
        return self._context.allocate(nbytes, self.current_stream()._native)

    def pool_statistics(self) -> dict[str, int]:
        """Counters of the memory pool."""
        return self._context.pool_statistics()

    def totals(self) -> dict[str, float]:
        """Sums over all records ever written."""
        return self._context.totals()

    def take_records(self) -> Records:
        """The records since the last call, oldest first."""
        rows, dropped = self._context.take_records()
        return Records([Record(*row) for row in rows], dropped)

    def trim(self) -> int:
        """Give free memory of the pool back to the device; returns how many bytes."""
        return self._context.trim()

    def verify(self) -> None:
        """Check the memory pool's books against each other; slow."""
        self._context.verify()

    def __repr__(self) -> str:
        return f"Device({self.name})"

    def __str__(self) -> str:
        return self.name


_SHARED: Final[dict[str, Device]] = {}
_SHARED_LOCK: Final = threading.Lock()


def device(name: str | Device = "cpu") -> Device:
    """The shared device of this name; a device is returned as it is."""
    if isinstance(name, Device):
        return name
    if name not in NAMES:
        raise unknown_name("device", str(name), NAMES)
    with _SHARED_LOCK:
        if name not in _SHARED:
            _SHARED[name] = Device("cpu" if name == "cpu" else "sim")
        return _SHARED[name]


def devices() -> list[Device]:
    """Every device of this machine."""
    return [device(name) for name in NAMES]
