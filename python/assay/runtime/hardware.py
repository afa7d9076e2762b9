"""Devices and their streams; one device is shared by all who name it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from assay import paths
from assay._native import (
    Buffer,
    Context,
    NativeKernel,
    NativeStream,
    cuda_time_launches,
    cuda_tune_gemms,
)
from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.runtime.allocation_log import AllocationLog
from assay.runtime.capabilities import BY_KIND
from assay.runtime.context_stack import ContextStack
from assay.runtime.device_names import NAMES, kind_and_ordinal
from assay.runtime.events import Event
from assay.runtime.memory import (
    MemoryReport,
    OutstandingAllocation,
    PinnedBuffer,
    Tenant,
    TenantUsage,
    call_site,
    current_tenant,
    unsigned,
)
from assay.runtime.records import Record, Records

if TYPE_CHECKING:
    from assay._native import WorkTrace
    from assay.runtime import cuda
else:
    cuda = LazyModule("assay.runtime.cuda", globals(), "cuda")


class Stream(ContextStack):
    """A queue of operations that run in order, concurrently with those of other streams.

    Inside `with stream:` the operations of its device are queued on it. Dependencies between
    streams are automatic: an operation runs after the last write to the arrays it reads.
    """

    def __init__(self, device: Device, native: NativeStream) -> None:
        """Wrap a native stream; `Device.stream` creates one."""
        self.device: Final = device
        self._native: Final = native

    @property
    def number(self) -> int:
        """The stream's id on its device; the default stream's is 0."""
        return self._native.number

    def synchronize(self) -> None:
        """Wait for everything submitted so far."""
        self._native.synchronize()

    def record(self) -> Event:
        """Record an event after everything submitted so far."""
        return Event(self._native.record())

    def wait(self, event: Event) -> None:
        """Make later work of this stream wait for the event."""
        self._native.wait(event._native)

    def __enter__(self) -> Self:
        self._native.enter()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self._native.leave()

    def __repr__(self) -> str:
        return f"Stream({self.device.name}, {self.number})"


class Device(ContextStack):
    """A device with its memory pool, streams and records.

    Inside `with device:` arrays are created on it by default.

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
        """Create a private device; `device()` returns the shared one.

        `name` is `cpu`, `sim`, or a GPU such as `cuda:0`. `memory_bytes` limits the device,
        `pool_bytes` its pool, `limit_bytes` the allocations from the pool, `host_bytes` the pinned
        host memory for evicted and pinned buffers. `timing` records start and end of every
        operation, at the cost of two driver events each; it defaults to on for `cpu` and `sim`,
        and on a GPU only work charged to a task is timed. `records` is how many records are kept
        until they are taken. `track_allocations` records the source line of each allocation, and
        `log_allocations` keeps a log for replay; both slow down every allocation.
        `watchdog_seconds` bounds waits for a GPU. `allow_tf32` allows TF32 in single-precision
        GEMMs on a GPU; the default is the environment variable `ASSAY_ALLOW_TF32`.
        """
        kind, ordinal = kind_and_ordinal(name)
        limits = {
            "memory_bytes": memory_bytes,
            "pool_bytes": pool_bytes,
            "limit_bytes": limit_bytes,
            "host_bytes": host_bytes,
            "records": records,
        }
        for option, limit in limits.items():
            if limit is not None:
                unsigned(f"Device({name})", option, limit)
        if kind == "cuda":
            # Adds the wheels' folders to the search path of the driver and NVRTC.
            cuda.probe()
            allow_tf32 = cuda.allows_tf32() if allow_tf32 is None else allow_tf32
        self._context: Final = Context(
            kind,
            memory_bytes=memory_bytes,
            pool_bytes=pool_bytes,
            limit_bytes=limit_bytes,
            host_bytes=host_bytes,
            timing=BY_KIND[kind].has_cheap_timing if timing is None else timing,
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
        """Its index among devices of its kind, as the driver numbers GPUs."""
        self.default_stream: Final = Stream(self, self._context.default_stream())
        """The stream outside `with stream:`; on `cpu` its operations complete before the call
        returns."""
        self.host_memory: Final = self._context.host_memory
        """Whether NumPy can view this device's memory without a copy."""
        self.capabilities: Final = BY_KIND[kind]
        """What the device's backend supports."""

    @property
    def description(self) -> str:
        """The hardware's name."""
        return self._context.name

    @property
    def memory_bytes(self) -> int:
        """Total memory."""
        return self._context.memory_bytes

    @property
    def alignment_bytes(self) -> int:
        """The alignment of every allocation."""
        return self._context.alignment_bytes

    def now_ns(self) -> int:
        """The device's clock; on `sim` it is virtual."""
        return self._context.now_ns()

    def start_trace(self, capacity: int) -> bool:
        """Begin to keep when each launch runs, for `capacity` of them; False without a tracer."""
        return self._context.start_trace(capacity)

    def stop_trace(self) -> WorkTrace:
        """Wait for the work in flight, end the trace and return it."""
        return self._context.stop_trace()

    def stream(self, priority: Literal["low", "normal", "high"] = "normal") -> Stream:
        """Create a stream."""
        return Stream(self, self._context.create_stream(priority))

    def current_stream(self) -> Stream:
        """The stream that operations are queued on."""
        active = Stream.active()
        if active:
            for stream in reversed(active):
                if stream.device is self:
                    return stream
        return self.default_stream

    def synchronize(self) -> None:
        """Wait for all work of the current and the default stream."""
        for stream in {self.current_stream(), self.default_stream}:
            stream.synchronize()

    def allocate(self, nbytes: int) -> Buffer:
        """Allocate from the pool, for the current stream, charged to the current tenant."""
        stream = self.current_stream()._native
        if self._context.plain_memory:
            return self._context.allocate(nbytes, stream)
        tenant = current_tenant(self)
        return self._context.allocate(
            nbytes,
            stream,
            tenant=0 if tenant is None else tenant.number,
            site=call_site() if self._tracks else None,
        )

    def upload(self, label: str, data: Any, buffer: Buffer, offset: int = 0) -> None:
        """Copy host bytes into a pool buffer through the transfer engine and wait.

        Inside a task the copy waits for grants of the upload lane and is charged to it.
        """
        self._context.upload(label, data, buffer, offset, self.current_stream()._native)

    def download(self, label: str, buffer: Buffer, offset: int, into: Any) -> None:
        """Copy bytes of a pool buffer into a host object and wait.

        Inside a task the copy waits for grants of the download lane and is charged to it.
        """
        self._context.download(label, buffer, offset, into, self.current_stream()._native)

    def fill(self, label: str, buffer: Buffer, offset: int, value: int, nbytes: int) -> None:
        """Set bytes of a pool buffer on the current stream."""
        stream = self.current_stream()._native
        self._context.fill(label, buffer, offset, value, nbytes, stream)

    def delay(self, label: str, slots: Buffer, offset: int, after: Sequence[Buffer] = ()) -> None:
        """Let the current stream wait for the nanoseconds in a slot; see `assay.runtime.delays`."""
        stream = self.current_stream()._native
        self._context.delay(label, slots, offset, after, stream)

    def copy(
        self,
        label: str,
        source: Buffer,
        source_offset: int,
        destination: Buffer,
        destination_offset: int,
        nbytes: int,
    ) -> None:
        """Copy between two pool buffers of this device on the current stream."""
        stream = self.current_stream()._native
        self._context.copy(
            label, source, source_offset, destination, destination_offset, nbytes, stream
        )

    def launch(
        self,
        label: str,
        function: Callable[..., None],
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        *,
        bytes: int,
        flops: float = 0.0,
    ) -> None:
        """Run a Python function as one operation of the current stream.

        With host memory the function takes no arguments. Elsewhere it takes a list of bytearrays,
        copies of the buffers, reads first.
        """
        stream = self.current_stream()._native
        self._context.launch(label, function, reads, writes, stream, bytes=bytes, flops=flops)

    def operate(
        self,
        operation: str,
        operands: Sequence[tuple[Buffer, int, int, int] | None],
        numbers: Sequence[float],
        *,
        label: str,
        bytes: int,
        flops: float = 0.0,
    ) -> None:
        """Queue an operation of the operations table on the current stream.

        An operand is None, or a pool buffer, a byte offset, the bytes that may be accessed from
        there and the code of its format in `assay._native.FORMATS`.
        """
        stream = self.current_stream()._native
        self._context.operate(
            operation, operands, numbers, stream, label=label, bytes=bytes, flops=flops
        )

    def compile_kernel(
        self,
        source: str,
        entry: str,
        *,
        name: str,
        options: Sequence[str],
        headers: Sequence[tuple[str, str]],
    ) -> NativeKernel:
        """Compile CUDA C++ for this device; `entry` is the kernel's name in the source."""
        return NativeKernel(
            self._context, source, entry, name=name, options=list(options), headers=list(headers)
        )

    def time_bare_launches(self, launches: int) -> float:
        """Nanoseconds that the driver takes for this many launches of an empty kernel."""
        return cuda_time_launches(self._context, launches)

    @contextlib.contextmanager
    def tuning_gemms(self) -> Iterator[None]:
        """Inside, a GPU times cuBLASLt's algorithms for each GEMM of many rows that is new to it.

        The fastest one serves that problem from then on. Nothing happens on other devices.
        """
        if not self.capabilities.is_gpu:
            yield
            return
        cuda_tune_gemms(self._context, True)
        try:
            yield
        finally:
            cuda_tune_gemms(self._context, False)

    def tenant(self, name: str, limit: int) -> Tenant:
        """Create a tenant that may allocate at most `limit` bytes of the pool."""
        tenant = Tenant(self, name, limit)
        self._tenants.append(tenant)
        return tenant

    def pinned(self, nbytes: int) -> PinnedBuffer:
        """Pinned host memory, which this device copies without staging."""
        nbytes = unsigned("pinned", "nbytes", nbytes)
        buffer = self._context.allocate_pinned(nbytes, self.current_stream()._native)
        return PinnedBuffer(self, buffer)

    def memory_report(self) -> MemoryReport:
        """The use of this device's memory."""
        figures = self._context.memory.report()
        default_tenant = TenantUsage(*self._context.memory.tenant_usage(0))
        return MemoryReport(
            device=self.name,
            device_bytes=figures["device_bytes"],
            device_free_bytes=figures["device_free_bytes"],
            pool_capacity_bytes=figures["pool_capacity_bytes"],
            pool=figures["pool"],
            asked=figures["asked"],
            pinned=figures.get("pinned"),
            evictable=figures.get("evictable"),
            tenants=(default_tenant, *(tenant.usage() for tenant in self._tenants)),
        )

    def outstanding_allocations(self) -> list[OutstandingAllocation]:
        """Allocations not yet freed, with the source lines that requested them."""
        rows = self._context.memory.outstanding()
        if rows is None:
            raise InputError(
                f"outstanding_allocations: expected a device that tracks allocations, got {self}",
                'make one with Device("cpu", track_allocations=True)',
            )
        return [OutstandingAllocation(*row) for row in rows]

    def take_allocation_log(self) -> AllocationLog:
        """The allocations and frees since the last call."""
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
        """Totals over all records."""
        return self._context.totals()

    def take_records(self) -> Records:
        """The records since the last call, oldest first."""
        rows, dropped = self._context.take_records()
        return Records([Record(*row) for row in rows], dropped)

    def trim(self) -> int:
        """Return free pool memory to the device; returns how many bytes."""
        return self._context.memory.trim()

    def verify(self) -> None:
        """Check the memory pool's invariants; slow."""
        self._context.memory.verify()

    def __repr__(self) -> str:
        return f"Device({self.name})"

    def __str__(self) -> str:
        return self.name


_SHARED: Final[dict[str, Device]] = {}
_SHARED_LOCK: Final = threading.Lock()


def device(name: str | Device | None = None) -> Device:
    """The shared device of this name; a `Device` is returned unchanged.

    Without a name it is that of the innermost `with device:`, else `cpu`. `auto` is the first
    usable GPU, else `cpu` with a warning that says what is missing.
    """
    if isinstance(name, Device):
        return name
    if name is None:
        active = Device.active()
        if active:
            return active[-1]
        name = "cpu"
    if name == "auto":
        name = next(iter(cuda.names()), "cpu")
        if name == "cpu":
            cuda.warn_fallback()
    kind, ordinal = kind_and_ordinal(name)
    key = f"cuda:{ordinal}" if kind == "cuda" else kind
    with _SHARED_LOCK:
        if key not in _SHARED:
            _SHARED[key] = Device(key)
        return _SHARED[key]


def devices() -> list[Device]:
    """Every device of this machine."""
    return [device(name) for name in (*NAMES, *cuda.names())]
