"""Devices, their streams and events, and the records of everything they did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

from assay import paths
from assay._native import Buffer, Context, NativeEvent, NativeStream
from assay.errors import InputError, UnknownNameError
from assay.lazy_import import LazyModule
from assay.runtime.allocation_log import AllocationLog
from assay.runtime.entering import Entered
from assay.runtime.memory import (
    MemoryReport,
    Outstanding,
    PinnedBuffer,
    Tenant,
    TenantUsage,
    call_site,
    current_tenant,
)

if TYPE_CHECKING:
    from assay.runtime import cuda
else:
    cuda = LazyModule("assay.runtime.cuda", globals(), "cuda")

NAMES: Final = ("cpu", "sim")
"""The devices that every machine has."""


class Record(NamedTuple):
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
    graph: int | None
    """the number of the graph that was replayed; its nodes name the operations inside"""
    task: int | None
    """the number of the task that it was charged to"""


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


class Stream(Entered):
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

    def __enter__(self) -> Self:
        self._native.enter()
        return super().__enter__()

    def __exit__(self, *ended: object) -> None:
        super().__exit__(*ended)
        self._native.leave()

    def __repr__(self) -> str:
        return f"Stream({self.device.name}, {self.number})"


class Device(Entered):
    """A device with its memory pool, its queues and its records.

    Inside `with device:` arrays for which no device is named are made on it.

    >>> device("cpu").name
    'cpu'
    """

    def __init__(
        self,
        name: str,
        *,
        memory_bytes: int | None = None,
        pool_bytes: int | None = None,
        limit_bytes: int | None = None,
        host_bytes: int | None = None,
        timing: bool | None = None,
        records: int = 16_384,
        track_allocations: bool = False,
        log_allocations: bool = False,
        watchdog_seconds: float | None = None,
        allow_tf32: bool | None = None,
    ) -> None:
        """Make a device of one's own; `device` gives the one that everybody shares.

        `name` is `cpu`, `sim`, or a GPU such as `cuda:0`. `memory_bytes` limits the device,
        `pool_bytes` what its pool may hold of it, `limit_bytes` what arrays may ask of the pool,
        `host_bytes` the pinned host memory for spilled and pinned buffers; `timing` has records
        tell when work ran, at the cost of two events of the driver for each piece: by default it
        is on where that costs little, on `cpu` and `sim`, and on a GPU only work that a task is
        charged for is timed; `records` is how many are kept until they are taken.
        `track_allocations` notes the line that asked for each allocation, and `log_allocations`
        keeps a log for replay: both cost time at every allocation. `watchdog_seconds` is how long
        a wait for a GPU may last before it is an error. `allow_tf32` lets products of single
        precision on a GPU round what they read; by default as `ASSAY_ALLOW_TF32=1` says.
        """
        kind, ordinal = _split(name)
        if kind == "cuda":
            # So that the driver's and NVRTC's libraries are looked for where the wheels are.
            cuda.probe()
            allow_tf32 = cuda.allows_tf32() if allow_tf32 is None else allow_tf32
        self._context: Final = Context(
            kind,
            memory_bytes=memory_bytes,
            pool_bytes=pool_bytes,
            limit_bytes=limit_bytes,
            host_bytes=host_bytes,
            timing=kind != "cuda" if timing is None else timing,
            records=records,
            tracking=track_allocations,
            logging=log_allocations,
            ordinal=ordinal,
            cache_folder=paths.cache("cubins"),
            watchdog_seconds=watchdog_seconds,
            allow_tf32=bool(allow_tf32),
        )
        self._tracks: Final = track_allocations
        self._tenants: Final[list[Tenant]] = []
        self.name: Final[str] = f"cuda:{ordinal}" if kind == "cuda" else kind
        self.kind: Final[str] = kind
        """cpu, sim or cuda"""
        self.ordinal: Final[int] = ordinal
        """Which of its kind it is, as the driver numbers GPUs."""
        self.default_stream: Final = Stream(self, self._context.default_stream())
        """The stream that operations go to outside `with stream:`; on `cpu` its work is over
        when the call returns."""
        self.host_memory: Final = self._context.host_memory
        """Whether NumPy can look at this device's arrays without a copy."""
        self.has_array_kernels: Final = kind == "cuda"
        """Whether operations of arrays have kernels of their own; elsewhere they are NumPy's."""

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
        entered = Stream.entered()
        if entered:
            for stream in reversed(entered):
                if stream.device is self:
                    return stream
        return self.default_stream

    def synchronize(self) -> None:
        """Wait for everything submitted to the current and the default stream."""
        for stream in {self.current_stream(), self.default_stream}:
            stream.synchronize()

    def allocate(self, nbytes: int) -> Buffer:
        """Take memory from the pool, for work of the current stream and the current tenant."""
        stream = self.current_stream()._native
        if self._context.plain_memory:
            return self._context.allocate(nbytes, stream)
        tenant = current_tenant(self)
        return self._context.allocate(
            nbytes,
            stream,
            tenant=0 if tenant is None else tenant.number,
            site=call_site() if self._tracks else None,
            evictable=tenant is not None and tenant.evictable,
        )

    def tenant(self, name: str, limit: int, *, evictable: bool = False) -> Tenant:
        """Open an account that may use at most `limit` bytes of the pool."""
        tenant = Tenant(self, name, limit, evictable=evictable)
        self._tenants.append(tenant)
        return tenant

    def pinned(self, nbytes: int) -> PinnedBuffer:
        """Host memory that this device copies from and to directly."""
        buffer = self._context.allocate_pinned(nbytes, self.current_stream()._native)
        return PinnedBuffer(self, buffer)

    def on_shortage(self, callback: Callable[[int, int, int, str], bool] | None) -> None:
        """Have a function called when memory is short and nothing more can be evicted.

        It gets the bytes, the tenant's number, the attempt and the message, and returns whether
        it freed something, so that the request is tried again; None ends it.
        """
        self._context.memory.on_shortage(callback)

    def memory_report(self) -> MemoryReport:
        """Where this device's memory is."""
        figures = self._context.memory.report()
        everyone = TenantUsage(*self._context.memory.tenant_usage(0))
        return MemoryReport(
            device=self.name,
            device_bytes=figures["device_bytes"],
            device_free_bytes=figures["device_free_bytes"],
            pool_capacity_bytes=figures["pool_capacity_bytes"],
            pool=figures["pool"],
            asked=figures["asked"],
            pinned=figures.get("pinned"),
            evictable=figures.get("evictable"),
            tenants=(everyone, *(tenant.usage() for tenant in self._tenants)),
        )

    def outstanding(self) -> list[Outstanding]:
        """Allocations not yet given back, with the lines that asked for them."""
        rows = self._context.memory.outstanding()
        if rows is None:
            raise InputError(
                f"outstanding: expected a device that tracks allocations, got {self}",
                'make one with Device("cpu", track_allocations=True)',
            )
        return [Outstanding(*row) for row in rows]

    def take_allocation_log(self) -> AllocationLog:
        """The requests and frees since the last call."""
        text = self._context.memory.take_log()
        if text is None:
            raise InputError(
                f"take_allocation_log: expected a device that logs allocations, got {self}",
                'make one with Device("cpu", log_allocations=True)',
            )
        return AllocationLog(text)

    def pool_statistics(self) -> dict[str, int]:
        """Counters of the memory pool."""
        return self._context.memory.statistics()

    def totals(self) -> dict[str, float]:
        """Sums over all records ever written."""
        return self._context.totals()

    def take_records(self) -> Records:
        """The records since the last call, oldest first."""
        rows, dropped = self._context.take_records()
        return Records([Record(*row) for row in rows], dropped)

    def trim(self) -> int:
        """Give free memory of the pool back to the device; returns how many bytes."""
        return self._context.memory.trim()

    def verify(self) -> None:
        """Check the memory pool's books against each other; slow."""
        self._context.memory.verify()

    def __repr__(self) -> str:
        return f"Device({self.name})"

    def __str__(self) -> str:
        return self.name


_SHARED: Final[dict[str, Device]] = {}
_SHARED_LOCK: Final = threading.Lock()


def _split(name: str) -> tuple[Literal["cpu", "sim", "cuda"], int]:
    """The kind of a device, and which of that kind it is."""
    if name == "cpu":
        return "cpu", 0
    if name == "sim":
        return "sim", 0
    kind, colon, number = name.partition(":")
    if kind == "cuda" and (not colon or number.isdecimal()):
        return "cuda", int(number or 0)
    raise UnknownNameError(
        f'unknown device "{name}"', f"one of: {', '.join(NAMES)}, auto, cuda:0, cuda:1, ..."
    )


def device(name: str | Device | None = None) -> Device:
    """The shared device of this name; a device is returned as it is.

    Without a name it is that of the innermost `with device:`, else `cpu`. `auto` is the first GPU
    where it can be used, else `cpu`; what is missing is said once.
    """
    if isinstance(name, Device):
        return name
    if name is None:
        entered = Device.entered()
        if entered:
            return entered[-1]
        name = "cpu"
    if name == "auto":
        name = next(iter(cuda.names()), "cpu")
        if name == "cpu":
            cuda.tell_fallback()
    kind, ordinal = _split(name)
    key = f"cuda:{ordinal}" if kind == "cuda" else kind
    with _SHARED_LOCK:
        if key not in _SHARED:
            _SHARED[key] = Device(key)
        return _SHARED[key]


def devices() -> list[Device]:
    """Every device of this machine."""
    return [device(name) for name in (*NAMES, *cuda.names())]
