"""Type stubs of the extension module; stubtest checks them against the built module."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Literal, NotRequired, Self, TypedDict, final, type_check_only

from typing_extensions import Buffer as Bytes, disjoint_base

__all__ = [
    "ACTIVATIONS",
    "BLOCK_FORMATS",
    "FORMATS",
    "FOURIER_KINDS",
    "FRAME_VALUES",
    "OPERATIONS",
    "TAPE_OPS",
    "BlockFormat",
    "BlockManager",
    "Buffer",
    "CapturedEvents",
    "Context",
    "Ctranslate2File",
    "CuptiSession",
    "EventTable",
    "GgmlWhisperFile",
    "GgufFile",
    "HostLog",
    "KinetoBatches",
    "NativeArray",
    "NativeEvent",
    "NativeGraph",
    "NativeKernel",
    "NativeMemory",
    "NativeOperators",
    "NativePlan",
    "NativeReduction",
    "NativeReservation",
    "NativeScheduler",
    "NativeStream",
    "NativeTask",
    "OnnxFile",
    "OnnxGraph",
    "OnnxNode",
    "OrderBooks",
    "SafeTensorsFile",
    "SoundFile",
    "StoredTensor",
    "StoredTexts",
    "Tape",
    "TapeBlock",
    "TapeError",
    "TapeReport",
    "WorkTrace",
    "build_info",
    "check_trace_library",
    "cuda_attention_limits",
    "cuda_borrow",
    "cuda_compile",
    "cuda_cublaslt",
    "cuda_layout_macros",
    "cuda_packed_row_bytes",
    "cuda_probe",
    "cuda_sources",
    "cuda_time_launches",
    "cuda_tune_gemms",
    "dequantize_weights",
    "dlpack_export",
    "dlpack_import",
    "expression",
    "generate_order_events",
    "host_linear",
    "kernel_levels",
    "kernel_threads",
    "limit_kernel_threads",
    "measure_pool",
    "measure_scheduler",
    "pack_weights",
    "provoke_panic",
    "read_event_shard",
    "read_kineto",
    "replay_allocations",
    "rope_cos_sin",
    "set_trace_step",
    "weights_bytes",
    "write_trace_control",
]

@type_check_only
class BuildInfo(TypedDict):
    version: str
    arch: str
    os: str
    debug_assertions: bool

def build_info() -> BuildInfo: ...

TAPE_OPS: Final[dict[str, int]]
"""Code of each tape operation by name: the table's one home is the Rust core."""

OPERATIONS: Final[dict[str, tuple[list[str], list[tuple[str, bool]]]]]
"""Operand names of each operation, and its numbers with whether they are whole ones."""

FORMATS: Final[dict[str, int]]
"""Code of each element format by name."""

ACTIVATIONS: Final[dict[str, int]]
"""Code of each activation by name; "none" has one too."""

FOURIER_KINDS: Final[dict[str, int]]
"""Code of each Fourier transform by name: fft, ifft, rfft and irfft."""

FRAME_VALUES: Final[dict[str, int]]
"""Code of what an STFT stores by name: complex, magnitude and power."""

@final
class BlockFormat:
    """The sizes of an element or block format."""

    @property
    def bits(self) -> int:
        """Bits of one value's code, scales excluded."""
    @property
    def values(self) -> int:
        """Values per block; 1 for unblocked element formats."""
    @property
    def bytes(self) -> int:
        """Bytes per block."""
    @property
    def gguf_code(self) -> int | None:
        """The type number in GGUF files, or None."""

BLOCK_FORMATS: Final[dict[str, BlockFormat]]
"""Block sizes of every element format by name."""

class TapeError(ValueError):
    """A tape's program, stored bytes or arguments are wrong."""

@final
class TapeBlock:
    """Simultaneous relations x = g(x, p) inside a tape, solved at each point.

    The inner program's inputs are the unknowns, one per entry of `start`, then the externals;
    its outputs are the updated unknowns, then any further members. `start` and `externals` are
    value numbers of the outer tape. There, `block` (a = number of the block) solves it, and
    `extract` (a = value number of that instruction, b = member) reads a result. A point that
    does not converge gives NaN for all members. Each unknown is found to within the absolute
    tolerance plus its share by the relative one: a solution at zero needs an absolute one.
    """

    def __new__(
        cls,
        *,
        constants: Sequence[float],
        code: bytes,
        outputs: Sequence[int],
        start: Sequence[int],
        externals: Sequence[int],
        lower: Sequence[float] | None = None,
        upper: Sequence[float] | None = None,
        method: Literal["newton", "fixed_point"] = "newton",
        damping: float = 1.0,
        relative_tolerance: float = 1e-12,
        absolute_tolerance: float = 0.0,
        max_iterations: int = 100,
    ) -> TapeBlock: ...

@final
class TapeReport:
    """What happened during an evaluation."""

    @property
    def points(self) -> int:
        """Points evaluated."""
    @property
    def unconverged(self) -> dict[int, int]:
        """Points that did not converge, by block number; blocks without any are absent."""

@final
class Tape:
    """A checked program over 64-bit floats, run over many points at once.

    Values are numbered: inputs, then constants, then one value per instruction. `code` is packed
    little-endian 32-bit quadruples (operation, a, b, c), where a, b and c are numbers of earlier
    values. Exceptions: `powi` has its exponent's bits in b, `select` is a if c else b, and
    `block` and `extract` are as in `TapeBlock`. Fields that an operation does not use are ignored.
    """

    def __new__(
        cls,
        n_inputs: int,
        constants: Sequence[float],
        code: bytes,
        outputs: Sequence[int],
        blocks: Sequence[TapeBlock] = ...,
    ) -> Tape: ...
    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
    @property
    def n_instructions(self) -> int:
        """Number of instructions."""
    def evaluate(
        self, inputs: Iterable[float | Bytes], points: int, out: Bytes | Sequence[Bytes]
    ) -> TapeReport:
        """Compute every output at every point into `out`.

        Each input is a number, the same at every point, or a C-contiguous float64 buffer of
        `points` elements. `out` is a writable buffer of shape (outputs, points), or a list of
        one buffer per output; it may not overlap the inputs. Other threads run meanwhile and
        must not write to the buffers.
        """
    def jacobian(
        self,
        inputs: Iterable[float | Bytes],
        points: int,
        wrt: Sequence[int],
        out: Bytes,
        values: Bytes | Sequence[Bytes] | None = None,
    ) -> TapeReport:
        """Compute the derivatives of every output by the inputs `wrt` at every point.

        `out` is a writable float64 buffer of shape (outputs, len(wrt), points), or
        (outputs, len(wrt)) for one point. The outputs themselves go to `values`, if given, as in
        `evaluate`. Branches not taken and paths with slope zero contribute nothing, whatever
        their values; at a kink the slope is that of the first argument, or 0.
        """
    def jvp(
        self,
        inputs: Iterable[float | Bytes],
        points: int,
        tangents: Iterable[float | Bytes],
        out: Bytes | Sequence[Bytes],
    ) -> TapeReport:
        """Compute the change of every output along `tangents`, one per input, into `out`."""
    def vjp(
        self,
        inputs: Iterable[float | Bytes],
        points: int,
        cotangents: Iterable[float | Bytes],
        out: Bytes | Sequence[Bytes],
    ) -> TapeReport:
        """Compute the derivative of the outputs weighted by `cotangents`, one per output.

        `out` has one row per input.
        """
    def to_bytes(self) -> bytes:
        """The tape in the stored format."""
    @staticmethod
    def from_bytes(data: bytes) -> Tape:
        """Read a tape that `to_bytes` wrote."""

@final
class Buffer:
    """Memory allocated from a device's pool or borrowed from another library.

    Host memory implements the buffer protocol, without copies. The buffer tracks the unfinished
    work that uses it.
    """

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
    @property
    def pointer(self) -> int:
        """Its base address; 0 for zero bytes."""
    @property
    def pooled(self) -> bool:
        """Whether the device's pool allocated it."""
    @property
    def writable(self) -> bool:
        """Whether it is writable."""
    @property
    def freed(self) -> bool:
        """Whether it was freed."""
    @property
    def exports(self) -> int:
        """The number of exported views."""
    @property
    def evictable(self) -> bool:
        """Whether it may be evicted to the host while unused."""
    @property
    def resident(self) -> bool:
        """Whether it is on the device."""
    def allow_eviction(self) -> None:
        """Make it evictable: it may move to the host when memory is short and nothing uses it."""
    def evict(self, stream: NativeStream) -> None:
        """Evict it to pinned host memory now; the next use restores it byte for byte."""
    def synchronize(self) -> None:
        """Wait for all work that uses it."""
    def wait_until_written(self) -> None:
        """Wait until what was queued before has written the buffer; reads may still be under way."""
    def free(self) -> None:
        """Free the memory now; rejected while other objects hold views of it."""

@disjoint_base
class NativeArray:
    """A strided view of a buffer that implements the buffer protocol."""

    def __new__(
        cls, device: object, buffer: Buffer, dtype: object, layout: tuple[object, ...]
    ) -> Self: ...
    @property
    def device(self) -> Any:
        """The device."""
    @property
    def dtype(self) -> Any:
        """The type of the elements."""
    @property
    def layout(self) -> Any:
        """Shape, strides and offset together."""
    @property
    def buffer(self) -> Buffer:
        """The buffer."""
    def __add__(self, value: Any, /) -> Any: ...
    def __radd__(self, value: Any, /) -> Any: ...
    def __sub__(self, value: Any, /) -> Any: ...
    def __rsub__(self, value: Any, /) -> Any: ...
    def __mul__(self, value: Any, /) -> Any: ...
    def __rmul__(self, value: Any, /) -> Any: ...
    def __truediv__(self, value: Any, /) -> Any: ...
    def __rtruediv__(self, value: Any, /) -> Any: ...
    def __floordiv__(self, value: Any, /) -> Any: ...
    def __rfloordiv__(self, value: Any, /) -> Any: ...
    def __mod__(self, value: Any, /) -> Any: ...
    def __rmod__(self, value: Any, /) -> Any: ...
    def __and__(self, value: Any, /) -> Any: ...
    def __rand__(self, value: Any, /) -> Any: ...
    def __or__(self, value: Any, /) -> Any: ...
    def __ror__(self, value: Any, /) -> Any: ...
    def __xor__(self, value: Any, /) -> Any: ...
    def __rxor__(self, value: Any, /) -> Any: ...
    def __lshift__(self, value: Any, /) -> Any: ...
    def __rlshift__(self, value: Any, /) -> Any: ...
    def __rshift__(self, value: Any, /) -> Any: ...
    def __rrshift__(self, value: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __invert__(self) -> Any: ...

@final
class NativePlan:
    """An elementwise operation specialized for operand types; caches what calls have in common."""

    def __new__(
        cls,
        label: str,
        expression: int,
        computed: int,
        dtype: object,
        counts: bool,
        kind: type[NativeArray],
    ) -> Self: ...

@final
class NativeReduction:
    """A reduction specialized for one shape and type; caches what calls have in common."""

    def __new__(
        cls,
        label: str,
        numbers: Sequence[float],
        source_bytes: int,
        layout: tuple[object, ...],
        nbytes: int,
        dtype: object,
        flops: float,
        kind: type[NativeArray],
    ) -> Self: ...
    def apply(self, source: NativeArray) -> Any:
        """Reduce a contiguous array into a new allocation; None where memory has accounting."""

@final
class NativeOperators:
    """Elementwise operators by name, called through cached kernel plans."""

    def __new__(
        cls,
        plan: Callable[[str, Any, Any], NativePlan | None],
        unary: Callable[[str, Any], Any],
        binary: Callable[[str, Any, Any], Any],
    ) -> Self: ...
    def install(self) -> None:
        """Install this as the array operators; only the first call has an effect."""
    def unary(self, name: str, x: Any) -> Any:
        """Apply a unary elementwise operation."""
    def binary(self, name: str, first: Any, second: Any) -> Any:
        """Apply a binary elementwise operation; NotImplemented for unsupported operands."""

def expression(text: str) -> int:
    """The code of an expression over `a0`, `a1` and `a2`, which selects the kernel."""

@final
class NativeStream:
    """A stream of one device."""

    @property
    def number(self) -> int:
        """The stream's id on its device."""
    @property
    def handle(self) -> int:
        """The `CUstream` handle for other libraries; raises on devices other than GPUs."""
    def enter(self) -> None:
        """Count a `with` block that begins."""
    def leave(self) -> None:
        """Count a `with` block that ended."""
    def usage(self) -> tuple[int, int]:
        """The number of submitted and of queued pieces of work."""
    def synchronize(self) -> None:
        """Wait for everything submitted so far."""
    def record(self) -> NativeEvent:
        """Record an event after everything submitted so far."""
    def begin_capture(self) -> None:
        """Begin a capture: work of this thread on the stream is captured instead of run."""
    def abandon_capture(self) -> None:
        """Abort this thread's capture, if any."""
    def wait(self, event: NativeEvent) -> None:
        """Make later work of the stream wait for the event."""

@final
class NativeEvent:
    """An event recorded in a stream."""

    def query(self) -> bool:
        """Whether the event is complete."""
    def synchronize(self) -> None:
        """Wait for the event."""
    def elapsed_ns(self, earlier: NativeEvent) -> int:
        """Nanoseconds of device time since an earlier event."""

@final
class NativeGraph:
    """Captured work that can be replayed."""

    def __new__(cls, stream: NativeStream, name: str) -> NativeGraph:
        """End this thread's capture on a stream's device; `name` labels the graph in records."""
    @property
    def number(self) -> int:
        """Its id in records."""
    def replay(self, stream: NativeStream) -> None:
        """Queue the whole graph on a stream; on the CPU's default stream it runs synchronously."""
    def profile(self, stream: NativeStream) -> list[tuple[int, int]]:
        """Run the nodes one by one, wait, and return when each began and ended."""
    def with_delays(
        self, streams: Sequence[NativeStream], nodes: Sequence[tuple[int, int]], slots: Buffer
    ) -> NativeGraph:
        """Capture the graph anew with a delay before some nodes, each given with its slot in `slots`.

        `streams` has one for each stream that the graph was captured on; they must outlive it.
        """
    def dependencies(self) -> list[list[int]]:
        """For each captured node, the nodes of other streams that it comes after."""
    def nodes(self) -> list[tuple[str, str, int, int, float, str | None]]:
        """The captured nodes, in order: kind, label, stream, bytes, flops and operation."""
    def close(self) -> None:
        """Release the memory that it uses; replays already queued still run."""

@type_check_only
class CudaLibrary(TypedDict, total=False):
    path: str
    version: tuple[int, int]
    missing: str
    hint: str

@type_check_only
class CudaDevice(TypedDict):
    name: str
    capability: int
    memory_bytes: int
    multiprocessors: int
    l2_bytes: int
    shared_bytes: int
    usable: bool

@type_check_only
class CudaFindings(TypedDict):
    driver: CudaLibrary
    compiler: CudaLibrary
    devices: list[CudaDevice]
    newer_compiler: NotRequired[str]
    missing: NotRequired[tuple[str, str, str]]

def cuda_probe(folders: Sequence[str | PathLike[str]]) -> CudaFindings:
    """The driver, NVRTC and GPUs found; the first call searches, wheel folders included."""

def cuda_cublaslt() -> CudaLibrary:
    """The path and version of cuBLASLt, or why it cannot be loaded; the first call loads it."""

def cuda_compile(
    text: str,
    architecture: str,
    *,
    name: str,
    options: Sequence[str],
    headers: Sequence[tuple[str, str]],
) -> bytes:
    """Compile CUDA C++ for an architecture such as `sm_90a`; needs NVRTC and no GPU."""

def cuda_time_launches(context: Context, launches: int) -> int:
    """Host nanoseconds for `launches` bare driver launches of an empty kernel."""

def cuda_tune_gemms(context: Context, tunes: bool) -> None:
    """Turn the timing of GEMMs of many rows on or off, for problems that have not run yet."""

def cuda_attention_limits() -> tuple[list[int], int]:
    """Head sizes that attention kernels are instantiated for, and the divisor of block sizes."""

def cuda_packed_row_bytes(code: int, inputs: int) -> tuple[int, int] | None:
    """Bytes of a row of quantized weights, and of its scales, on a GPU; None without kernels."""

def cuda_layout_macros(code: int) -> list[tuple[str, str]] | None:
    """The macros of the kernels that read a format of quantized weights; None without kernels."""

def cuda_sources() -> list[tuple[str, str]]:
    """The sources of the built-in kernels by file name."""

@final
class NativeKernel:
    """A CUDA C++ kernel compiled for one device."""

    def __new__(
        cls,
        context: Context,
        text: str,
        kernel: str,
        *,
        name: str,
        options: Sequence[str],
        headers: Sequence[tuple[str, str]],
    ) -> NativeKernel: ...
    @property
    def parameters(self) -> list[int]:
        """The size in bytes of each parameter."""
    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        arguments: Sequence[tuple[Buffer, int, int, bool] | tuple[str, float]],
        stream: NativeStream,
        *,
        label: str,
        bytes: int,
        flops: float,
    ) -> None:
        """Queue the kernel on a stream.

        An argument is a scalar, tagged with its type such as "i32", or a buffer with a byte offset,
        the bytes that the kernel may access from there, and whether it writes them.
        """

@final
class NativeMemory:
    """Tenants, reservations, logs and statistics of one device's memory."""

    def add_tenant(self, name: str, limit_bytes: int) -> int:
        """Add a tenant with a limit in bytes; returns its id."""
    def set_tenant_limit(self, tenant: int, limit_bytes: int) -> None:
        """Change a tenant's limit; existing allocations above the new limit stay."""
    def tenant_usage(self, tenant: int) -> tuple[str, int, int, int, int]:
        """Name, limit, used, peak and reserved bytes of a tenant."""
    def reserve(self, tenant: int, bytes: int) -> NativeReservation:
        """Reserve memory for a tenant until the reservation is released."""
    def outstanding(self) -> list[tuple[int, int, int, int, str, int]] | None:
        """Outstanding allocations, oldest first; None unless the device tracks allocations."""
    def take_log(self) -> str | None:
        """The allocation log since the last call as text; None unless the device keeps one."""
    def report(self) -> dict[str, Any]:
        """Statistics of the device, the pools, the counters and evictable memory."""
    def statistics(self) -> dict[str, int]:
        """Counters of the memory pool."""
    def trim(self) -> int:
        """Return unused pool segments to the device; returns the bytes released."""
    def verify(self) -> None:
        """Check the pool's invariants; slow."""
    def write_pinned(self, buffer: Buffer, offset: int, data: Any) -> None:
        """Write bytes into pinned memory after all work that uses it completes."""
    def read_pinned(self, buffer: Buffer, offset: int, into: Any) -> None:
        """Read bytes of pinned memory after all work that uses it completes."""

@final
class NativeReservation:
    """Memory reserved for a tenant."""

    @property
    def nbytes(self) -> int:
        """Reserved bytes."""
    @property
    def held(self) -> bool:
        """Whether the reservation is still held."""
    def release(self) -> None:
        """Release the reservation; idempotent."""

@final
class NativeScheduler:
    """Admission, grants and decisions for one device."""

    def __new__(
        cls,
        context: Context,
        *,
        memory_bytes: int,
        units_per_second: dict[str, int],
        window_units: dict[str, int],
        class_weights: tuple[int, int, int],
        decisions: int,
    ) -> NativeScheduler: ...
    def add_partition(
        self,
        name: str,
        *,
        weight: int,
        memory_bytes: int | None = None,
        reservable: dict[str, int] | None = None,
        limits: dict[str, tuple[int, int]] | None = None,
        tenant: int | None = None,
    ) -> int:
        """Add a partition with a name, memory, reservable rates and a weight.

        Without limits it spans the whole device. With a tenant, the memory pool backs the
        reservations of its tasks.
        """
    def remove_partition(self, partition: int) -> None:
        """Remove a partition without tasks."""
    def submit(
        self,
        name: str,
        *,
        partition: int,
        qos: str,
        weight: int,
        memory_bytes: int,
        reserved: dict[str, tuple[int, int]],
        limits: dict[str, tuple[int, int]],
        assumed_ns: int,
    ) -> NativeTask:
        """Add a task; it is admitted immediately if its reservation is available."""
    def poll(self) -> None:
        """Process every event that is due."""
    def next_event_ns(self) -> int | None:
        """The time of the next timed event, if any; drives virtual time."""
    def take_decisions(
        self,
    ) -> tuple[list[tuple[int, int, int | None, str, int, str | None, int, str, str]], int]:
        """The decisions since the last call, and how many were dropped."""
    def snapshot(self) -> dict[str, Any]:
        """A snapshot of tasks, partitions and lanes."""
    def cancel(self, task: int) -> None:
        """Cancel a task by its id."""

@final
class NativeTask:
    """A task; dropping this object ends it."""

    @property
    def number(self) -> int:
        """Its id."""
    @property
    def state(self) -> str:
        """Its state."""
    @property
    def ended(self) -> bool:
        """Whether it has ended."""
    def snapshot(self) -> dict[str, Any]:
        """A snapshot of it."""
    def wait_admitted(self) -> None:
        """Wait until it is admitted."""
    def start(self) -> None:
        """Start it; it must be admitted."""
    def pause(self, keep: bool) -> None:
        """Pause its grants; without `keep` its reservation is released."""
    def resume(self) -> str:
        """Resume it; returns its state, pending or admitted if its reservation was released."""
    def finish(self) -> None:
        """End it successfully."""
    def fail(self, message: str) -> None:
        """End it with an error."""
    def cancel(self) -> None:
        """Cancel it."""
    def bind(self, stream: NativeStream) -> None:
        """Bind a stream: all of its work requests grants of this task and is charged to it."""
    def unbind(self, stream: NativeStream) -> None:
        """Unbind a stream: its work runs without grants again."""

@final
class Context:
    """A device with its memory pool, dispatch controller, transfer engine and records."""

    def __new__(
        cls,
        kind: Literal["cpu", "sim", "cuda"],
        *,
        memory_bytes: int | None = None,
        pool_bytes: int | None = None,
        limit_bytes: int | None = None,
        host_bytes: int | None = None,
        timing: bool = True,
        records: int = 16_384,
        tracking: bool = False,
        logging: bool = False,
        ordinal: int = 0,
        cache_folder: str | PathLike[str] | None = None,
        watchdog_seconds: float | None = None,
        allow_tf32: bool = False,
    ) -> Context: ...
    @property
    def name(self) -> str:
        """The device's name, from the vendor or the profile."""
    @property
    def kind(self) -> str:
        """The kind of device."""
    @property
    def memory_bytes(self) -> int:
        """Total device memory in bytes."""
    @property
    def alignment_bytes(self) -> int:
        """The alignment of every allocation in bytes."""
    @property
    def host_memory(self) -> bool:
        """Whether NumPy can access the device's memory without a copy."""
    @property
    def plain_memory(self) -> bool:
        """Whether memory has neither tenants nor call-site tracking."""
    @property
    def memory(self) -> NativeMemory:
        """Tenants, reservations, logs and statistics of the device's memory."""
    def now_ns(self) -> int:
        """Nanoseconds on the device's clock."""
    def default_stream(self) -> NativeStream:
        """The default stream."""
    def create_stream(self, priority: str) -> NativeStream:
        """Create a stream with priority low, normal or high."""
    def allocate(
        self,
        bytes: int,
        stream: NativeStream,
        *,
        tenant: int = 0,
        site: tuple[str, int] | None = None,
    ) -> Buffer:
        """Allocate from the pool in the order of a stream.

        `tenant` is charged; `site` is the call site, as file and line number.
        """
    def allocate_pinned(self, bytes: int, stream: NativeStream) -> Buffer:
        """Allocate pinned host memory, which the device copies to and from without staging."""
    def borrow(self, object: Any) -> Buffer:
        """Borrow the memory of an object with the buffer protocol."""
    def launch(
        self,
        name: str,
        function: Callable[..., None],
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        stream: NativeStream,
        *,
        bytes: int,
        flops: float,
    ) -> None:
        """Run a Python host function as one operation of a stream.

        On the CPU the function takes no arguments and runs before this returns. On a GPU and on the
        simulated device it takes one list, with a bytearray for each buffer, reads first; on the
        simulated device it runs when virtual time reaches it.
        """
    def operate(
        self,
        name: str,
        operands: Sequence[tuple[Buffer, int, int, int] | None],
        numbers: Sequence[float],
        stream: NativeStream,
        *,
        label: str,
        bytes: int,
        flops: float,
    ) -> None:
        """Queue an operation of the table; `OPERATIONS` lists its operands and numbers in order.

        An operand is None, or a pool buffer, a byte offset, the accessible bytes from there and its
        format code in `FORMATS`.
        """
    def elementwise(
        self,
        label: str,
        expression: int,
        computed: int,
        inputs: tuple[NativeArray | int, ...],
        result: NativeArray,
        stream: NativeStream,
        flops: float,
    ) -> None:
        """Queue an elementwise operation: `expression` of the inputs, into `result`.

        Inputs are arrays that broadcast to the result, or integers with the bits of a scalar: of a
        double where `computed`, a format code, is floating-point.
        """
    def fill(
        self, name: str, buffer: Buffer, offset: int, value: int, bytes: int, stream: NativeStream
    ) -> None:
        """Set every byte of a range of a pool buffer."""
    def delay(
        self, name: str, buffer: Buffer, offset: int, after: Sequence[Buffer], stream: NativeStream
    ) -> None:
        """Let a stream wait for the nanoseconds in a slot of a pool buffer, in stream order.

        It is ordered after earlier and before later work on the buffers of `after`.
        """
    def copy(
        self,
        name: str,
        source: Buffer,
        source_offset: int,
        destination: Buffer,
        destination_offset: int,
        bytes: int,
        stream: NativeStream,
    ) -> None:
        """Copy between non-overlapping ranges of two pool buffers of this device."""
    def upload(
        self, name: str, source: Any, buffer: Buffer, offset: int, stream: NativeStream
    ) -> None:
        """Copy host bytes into a pool buffer through the transfer engine and wait.

        The copy is charged to the task of the stream, if it has one.
        """
    def download(
        self, name: str, buffer: Buffer, offset: int, into: Any, stream: NativeStream
    ) -> None:
        """Copy bytes of a pool buffer into a host object through the transfer engine and wait.

        The copy is charged to the task of the stream, if it has one.
        """
    def start_trace(self, capacity: int) -> bool:
        """Begin to keep what the device runs, up to `capacity` launches; False if it has no tracer."""
    def stop_trace(self) -> WorkTrace:
        """Wait for the work in flight, end the trace and return it."""
    def totals(self) -> dict[str, Any]:
        """Totals over all records."""
    def take_records(
        self,
    ) -> tuple[
        list[
            tuple[
                int,
                str,
                str,
                int,
                int,
                float,
                int,
                int | None,
                int | None,
                str | None,
                int | None,
                int | None,
            ]
        ],
        int,
    ]:
        """The records since the last call, and how many were dropped."""

def dlpack_export(
    buffer: Buffer,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: tuple[int, int],
    *,
    device: tuple[int, int],
    versioned: bool,
    read_only: bool,
    copied: bool,
    consumer: int | None = None,
) -> Any:
    """Export a range of a buffer as a DLPack capsule.

    `strides` are in elements; `dtype` is DLPack's code and bits. `consumer` is the handle of the
    stream on which the consumer uses a GPU's memory; that stream waits for our work. Without one
    nothing is synchronized.
    """

def dlpack_import(
    context: Context, capsule: Any
) -> tuple[Buffer, int, list[int], list[int], tuple[int, int]]:
    """Take over a DLPack capsule of memory that the context's device can access."""

def cuda_borrow(
    context: Context,
    owner: object,
    pointer: int,
    nbytes: int,
    stream: NativeStream,
    *,
    writable: bool,
    producer: int | None = None,
) -> Buffer:
    """Borrow memory of the context's GPU from another library; `owner` keeps it alive.

    `producer` is the handle of the stream that writes the elements; the given stream waits for it.
    """

def measure_pool(
    pairs: int, *, smallest_bytes: int = 256, largest_bytes: int = 4 << 20, live: int = 1_000
) -> int:
    """Time pairs of one allocation and one free on a new pool of the simulated device.

    At each step a random one of `live` allocations is replaced. Returns nanoseconds for all pairs.
    """

def measure_scheduler(
    loads: Sequence[tuple[str, int, int, int, int]],
    *,
    units_per_second: int = 1_000_000_000,
    virtual_ns: int = 1_000_000_000,
) -> dict[str, Any]:
    """Run backlogged tasks against each other in virtual time.

    A load is class, weight, reserved units per second (0 for none), units of each grant and
    requests outstanding. Returns a dictionary: `units`, `grants` and `longest_wait_ns` of each
    load, `decisions`, and `elapsed_ns` of wall time.
    """

def weights_bytes(code: int, outputs: int, inputs: int) -> int:
    """The packed size in bytes of weights of a format and shape."""

def pack_weights(code: int, source: Any, scales: Any, outputs: int, inputs: int, out: Any) -> None:
    """Pack weights from their file format into the layout of the CPU's kernels."""

def dequantize_weights(code: int, weights: Any, outputs: int, inputs: int, out: Any) -> None:
    """Unpack packed weights to `out`, single precision, row-major."""

def rope_cos_sin(
    dimensions: int, positions: int, base: float, scaling: str, values: Sequence[float], out: Any
) -> None:
    """Write the cosines and sines of every position to `out`: positions by dimensions, float32.

    `scaling` is none, linear, ntk, yarn or llama3; `values` are its factor and its other
    parameters, in the order of its definition.
    """

def provoke_panic(message: str) -> None:
    """Panic inside native code, for tests of the guard that converts panics to exceptions."""

_EventColumns = tuple[Any, ...]
"""Kind (uint8), side (uint8), instrument (uint16), order (uint64), price (int32), quantity (uint32)."""

def generate_order_events(
    columns: _EventColumns, seed: int, instruments: int, resting: int
) -> None:
    """Fill columns with the events of a random market."""

@final
class OrderBooks:
    """Order books of several instruments."""

    def __new__(
        cls, instruments: int, *, levels: str, lookup: str, width: int, ids: int
    ) -> OrderBooks: ...
    def replay(
        self,
        events: _EventColumns,
        tops: tuple[Any, ...],
        *,
        grouped: bool = False,
        depth: int = 0,
        depths: tuple[Any, ...] | None = None,
    ) -> tuple[int, tuple[int, str] | None]:
        """Apply events and write what follows from each; returns how many were rejected, and the first.

        `tops` are bid price (int32) and quantity (uint64), ask price and quantity, traded (uint32),
        notional (int64), microprice and VWAP (float64); `depths` are the first four with `depth`
        levels an event.
        """
    def fills(self, events: _EventColumns) -> tuple[list[int], list[int], list[int], list[int]]:
        """Apply events; returns rows of events, order ids, prices and quantities of all fills."""
    def depth(
        self, instrument: int, levels: int
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Prices and quantities of both sides of an instrument, from the best on."""
    def clear(self) -> None:
        """Forget all orders and trades, and keep the memory."""
    def verify(self) -> int:
        """Check all invariants, slowly; returns how many orders rest."""

@final
class BlockManager:
    """Assigns the blocks of a paged KV cache to sequences."""

    def __new__(
        cls, blocks: int, block_tokens: int, *, prefix_caching: bool = True
    ) -> BlockManager: ...
    def lookup(self, tokens: Sequence[int]) -> int:
        """Leading tokens of a prompt that the prefix cache holds."""
    def open(self, tokens: Sequence[int], capacity: int) -> tuple[int, int]:
        """Open a sequence and reserve slots; returns it and how many leading tokens are cached.

        The capacity includes the cached tokens.
        """
    def reserve(self, sequence: int, tokens: int) -> tuple[int, int] | None:
        """Reserve slots for more tokens; returns the copy on write to make, if any.

        The copy is the blocks to copy from and to. All or nothing: an `OutOfMemoryError` leaves
        everything as it was.
        """
    def commit(self, sequence: int, tokens: Sequence[int]) -> None:
        """Commit tokens whose keys and values were written."""
    def fork(self, sequence: int) -> int:
        """Fork a sequence; the two share blocks, copied on write."""
    def close(self, sequence: int) -> None:
        """Close a sequence and release its blocks."""
    def block_table(self, sequence: int) -> list[int]:
        """The block table of a sequence."""
    def length(self, sequence: int) -> int:
        """Tokens committed to a sequence."""
    def write_step(
        self, batch: Sequence[tuple[int, int]], sizes: tuple[int, int, int], out: Any
    ) -> None:
        """Write a step's positions, slot mapping, query starts, lengths and block tables, in order.

        `batch` is sequences with how many tokens each gains; `sizes` are the rows, sequences and
        table width that the kernels run with; `out` is a writable int32 buffer. What the step does
        not fill is padded: slot -1, length 0.
        """
    def cached_blocks(self) -> list[tuple[int, int | None, list[int]]]:
        """Every block of the prefix cache: its id, the index of its parent, and its tokens."""
    def adopt(self, cached: Sequence[tuple[int, int | None, Sequence[int]]]) -> list[int | None]:
        """Adopt blocks of another prefix cache; returns the block to fill for each, if any."""
    def clear_cached(self) -> int:
        """Evict every unreferenced block; returns how many."""
    def statistics(self) -> dict[str, int]:
        """Block counts by state, and event counters."""
    def verify(self) -> None:
        """Check all invariants; slow."""

@final
class StoredTensor:
    """One tensor of a memory-mapped file; its `memoryview` is zero-copy."""

    @property
    def name(self) -> str:
        """Its name in the file."""
    @property
    def format(self) -> str:
        """Its storage format, a key of `BLOCK_FORMATS`."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, slowest axis first."""
    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
    @property
    def offset(self) -> int:
        """Its byte offset in the file."""

@final
class StoredTexts:
    """A list of strings in a mapped file."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> str: ...
    def indices(self, within: str | None = None) -> dict[str, int]:
        """The index of each text; a repeated text has its last index.

        With `within`, only texts that are substrings of it.
        """
    def repeated(self) -> str | None:
        """A repeated text, or None."""
    def pairs(self, within: str | None = None) -> list[tuple[str, str]]:
        """The texts, each split at its first space after the first character.

        With `within`, only pairs whose concatenation is a substring of it.
        """

@final
class GgufFile:
    """A memory-mapped, validated GGUF file.

    The file must not change while it is open: that would change what is read, or end the process.
    """

    def __new__(cls, path: str | PathLike[str]) -> GgufFile: ...
    @property
    def version(self) -> int:
        """The version of the format."""
    @property
    def alignment(self) -> int:
        """The alignment of tensor offsets."""
    def keys(self) -> list[str]:
        """The metadata keys, in file order."""
    def value(
        self, key: str
    ) -> bool | int | float | str | list[bool] | list[int] | list[float] | list[str]:
        """The value of a key; raises KeyError where there is none."""
    def count(self, key: str) -> int | None:
        """The length of a key's list; None if it is not a list."""
    def texts(self, key: str) -> StoredTexts:
        """The strings of a key's list, read from the file on demand."""
    def tensors(self) -> list[StoredTensor]:
        """The tensors, in file order."""

@final
class Ctranslate2File:
    """A memory-mapped, validated `model.bin` of CTranslate2; it must not change while it is open."""

    def __new__(cls, path: str | PathLike[str]) -> Ctranslate2File: ...
    @property
    def spec(self) -> str:
        """The name of the model's specification, such as WhisperSpec."""
    @property
    def revision(self) -> int:
        """The revision of the specification."""
    def aliases(self) -> dict[str, str]:
        """Other names of variables, each with the name it stands for."""
    def tensors(self) -> list[StoredTensor]:
        """The variables, in file order."""

@final
class GgmlWhisperFile:
    """A memory-mapped, validated ggml file of a Whisper model; it must not change while it is open."""

    def __new__(cls, path: str | PathLike[str]) -> GgmlWhisperFile: ...
    def hyperparameters(self) -> dict[str, int]:
        """The numbers at the head of the file, by name."""
    def tokens(self) -> list[bytes]:
        """The bytes of each token; special ones are not in the file."""
    def tensors(self) -> list[StoredTensor]:
        """The tensors, in file order."""

@final
class SoundFile:
    """A recording: WAV (PCM, floats, A-law, mu-law) or FLAC."""

    def __new__(cls, path: str | PathLike[str]) -> SoundFile: ...
    @staticmethod
    def from_bytes(data: bytes) -> SoundFile:
        """A recording in memory."""
    @property
    def rate(self) -> int:
        """Samples a second, of each channel."""
    @property
    def channels(self) -> int:
        """Channels of the file."""
    @property
    def frames(self) -> int:
        """Samples of each channel."""
    @property
    def encoding(self) -> str:
        """How samples are stored, such as "pcm 16"."""
    def mono(self, start: int, count: int) -> bytes:
        """Samples from `start` on, averaged over the channels, as float32."""

@final
class SafeTensorsFile:
    """A memory-mapped, validated safetensors file; it must not change while it is open."""

    def __new__(cls, path: str | PathLike[str]) -> SafeTensorsFile: ...
    def metadata(self) -> dict[str, str]:
        """The free-form string metadata of the header."""
    def tensors(self) -> list[StoredTensor]:
        """The tensors, in the order of the header."""

@final
class OnnxFile:
    """A memory-mapped ONNX file, read whole; it must not change while it is open."""

    def __new__(cls, path: str | PathLike[str]) -> OnnxFile: ...
    @property
    def producer(self) -> str:
        """The program that wrote it."""
    @property
    def operator_sets(self) -> dict[str, int]:
        """The version of each set of operators, by its domain; the standard's is empty."""
    @property
    def graph(self) -> OnnxGraph:
        """The graph of the model."""

@final
class OnnxGraph:
    """A graph of an ONNX file: the model's, or one inside an attribute."""

    @property
    def name(self) -> str:
        """Its name."""
    @property
    def inputs(self) -> list[str]:
        """The names of its inputs."""
    @property
    def outputs(self) -> list[str]:
        """The names of its outputs."""
    def tensors(self) -> list[StoredTensor]:
        """The initializers, in file order; of one stored with variable length, `offset` is 0."""
    def nodes(self) -> list[OnnxNode]:
        """The nodes, in file order: each comes after those it reads."""

@final
class OnnxNode:
    """An operation on values that are known by name."""

    @property
    def name(self) -> str:
        """Its name; may be empty."""
    @property
    def operation(self) -> str:
        """The operation, such as "Conv"."""
    @property
    def domain(self) -> str:
        """The set of operators that it belongs to; empty for the standard's."""
    @property
    def inputs(self) -> list[str]:
        """The names of the values it reads; empty where an optional one is left out."""
    @property
    def outputs(self) -> list[str]:
        """The names of the values it writes."""
    def attributes(
        self,
    ) -> dict[
        str, float | int | bytes | StoredTensor | OnnxGraph | list[float] | list[int] | list[bytes]
    ]:
        """Its attributes by name."""

def replay_allocations(
    log: str,
    *,
    capacity_bytes: int,
    slab_bytes: int | None = None,
    small_limit_bytes: int | None = None,
    cross_stream: str = "grow first",
    direct: bool = False,
    touch: bool = True,
) -> dict[str, int]:
    """Replay an allocation log against a pool, or directly against the device, in virtual time.

    `cross_stream` is "grow first", "wait first" or "never". The result is deterministic.
    """

def host_linear(x: Any, weights: Any, bias: Any, out: Any, *, relu: bool = False) -> None:
    """Write x @ weights.T + bias to `out`, in the calling thread unless it is long.

    All are float32 buffers; the bias may be None. Rows of `x` may overlap each other; the others are contiguous.
    """

def kernel_levels() -> list[str]:
    """The instruction sets that kernels can use on this CPU; the last is the one in use."""

def kernel_threads() -> tuple[int, int]:
    """The number of threads that CPU kernels use, and the number available."""

def limit_kernel_threads(count: int) -> None:
    """Set the maximum number of threads of CPU kernels in this process."""

@final
class EventTable:
    """The events of a trace, with the columns of `assay.observe.schema`.

    Polars, PyArrow and others take it without a copy: `polars.DataFrame(table)`.
    """

    @staticmethod
    def concatenate(tables: Sequence[EventTable]) -> EventTable:
        """The rows of the tables, one table after another."""
    def shifted(self, offset_ns: int) -> EventTable:
        """The same rows on a clock that is `offset_ns` ahead."""
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def write_shard(self, path: str | PathLike[str]) -> None:
        """Stores it as a shard, at a path where nothing is."""

def read_event_shard(path: str | PathLike[str]) -> tuple[EventTable, dict[str, str], bool, int]:
    """The complete batches of a shard: table, metadata, whether it was finished, bytes cut off."""

@type_check_only
class KinetoFacts(TypedDict):
    described: dict[str, str]
    processes: dict[str, str]
    descriptions: list[str]
    base_ns: int | None
    rank: int | None
    sums: dict[str, tuple[int, int]]
    flows: int
    repairs: dict[str, int]
    degradations: list[str]

def read_kineto(
    path: str | PathLike[str],
    args: bool = True,
    kinds: Sequence[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[EventTable, KinetoFacts]:
    """Read a trace of PyTorch's profiler, or another in Chrome's JSON: the events, and facts of it.

    Without `args` members of an event that have no column are left out. `progress` is called with
    the bytes of the file that were read, and all of them.
    """

_Late = tuple[int | None, int | None]

@final
class KinetoBatches:
    """Reads such a trace in a thread of its own; iterates over its events, a batch at a time.

    `known` is what holds for all events, where the file says it behind them: nanoseconds to add, and
    the rank.
    """

    def __new__(
        cls,
        path: str | PathLike[str],
        known: _Late,
        progress: Callable[[int, int], object] | None = None,
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> EventTable: ...
    def finish(self) -> tuple[KinetoFacts, _Late]:
        """Facts of the trace once all of it was read, and what its batches lack to be `known`."""

def set_trace_step(step: int | None) -> None:
    """Say which step of the engine this thread's work belongs to from now on; None: to none."""

@final
class HostLog:
    """Sections of host code of one engine, in the order in which they ended.

    A section begins where the one before it ended, so that no time between them is lost.
    """

    def __new__(cls, capacity: int) -> HostLog: ...
    def begin(self, thread: int) -> int:
        """Begin a section now, in the thread of this ID; returns the time."""
    def lap(self, section: int, step: int | None, copied_bytes: int = 0) -> int:
        """End a section, and begin the next; returns the time."""
    def now_ns(self) -> int:
        """The time now on the log's clock."""
    @property
    def dropped(self) -> int:
        """Sections that were dropped."""
    def __len__(self) -> int: ...

@final
class WorkTrace:
    """The work of one device while a trace was captured, and when each launch of it ran."""

    def names(self) -> list[tuple[str, str | None, str | None]]:
        """The distinct names of launches: label, operation of the table, kernel."""
    def counts(self) -> tuple[int, int, int]:
        """How many pieces of work were queued, have times, and have none."""
    @property
    def dropped(self) -> int:
        """Launches that were not kept, for want of room."""
    @property
    def clock_error_ns(self) -> int:
        """How far the device's clock may be off the host's, in nanoseconds."""
    @property
    def resolution_ns(self) -> int:
        """The resolution of the device's clock, in nanoseconds."""

@final
class CapturedEvents:
    """The events of a capture."""

    def __new__(cls) -> CapturedEvents: ...
    def add_host(
        self,
        log: HostLog,
        sections: Sequence[tuple[str, str, tuple[str, str] | None]],
        phases_by_step: Mapping[int, str],
        *,
        offset_ns: int,
        pid: int,
        device: int,
    ) -> None:
        """Add the sections of an engine; `sections` names them by number."""
    def add_work(
        self,
        trace: WorkTrace,
        log: HostLog,
        meanings: Sequence[tuple[str | None, int | None, bool]],
        phases_by_step: Mapping[int, str],
        *,
        offset_ns: int,
        pid: int,
        device: int,
        host_calls: bool,
    ) -> dict[int, tuple[int, int, int, int]]:
        """Add the work of a device; `meanings` says what each name of `trace.names()` is.

        Returns first start, last end and union of the launches by step, and how many there are.
        """
    def __len__(self) -> int: ...
    def take(self) -> EventTable:
        """Take the events as a table; none are left."""

@final
class CuptiSession:
    """Records what runs on the NVIDIA GPUs of this process; one session at a time."""

    def __new__(
        cls,
        *,
        folders: Sequence[str | PathLike[str]],
        activities: Sequence[str] | None = None,
        period_s: float = 0.25,
    ) -> Self: ...
    @property
    def dropped(self) -> int:
        """Records that CUPTI lost."""
    @property
    def incomplete(self) -> int:
        """Work that had not ended when the session did."""
    @property
    def degradations(self) -> list[str]:
        """What is missing, and why."""
    @property
    def version(self) -> int:
        """CUPTI's version, such as 130000."""
    @property
    def library(self) -> str:
        """Where CUPTI was opened."""
    @property
    def clock(self) -> str:
        """The clock of the events."""
    def drain(self) -> EventTable:
        """The events delivered since the last call."""
    def stop(self) -> EventTable:
        """Ends the session; returns the events since the last `drain`."""

def write_trace_control(
    folder: str | PathLike[str],
    *,
    armed: bool,
    activities: Sequence[str],
    period_ms: int,
    libraries: Sequence[str | PathLike[str]],
) -> None:
    """Writes the control file of a folder that only this user may write, all of it at once."""

def check_trace_library(path: str | PathLike[str]) -> None:
    """Refuses an injected library that other users may write or replace."""
