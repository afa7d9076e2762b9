"""Compiles and launches the kernels of this repository without its runtime: driver, NVRTC, PyTorch.

PyTorch owns the memory, computes the references and is the baseline of speed.
"""

import ctypes
import functools
import glob
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from assay._native import cuda_sources

KERNELS = Path(os.environ.get("ASSAY_KERNELS", Path(__file__).resolve().parents[1] / "kernels"))
CLUSTER_DIMENSION, PROGRAMMATIC_SERIALIZATION = 4, 6
MAP_TYPES = {torch.float16: 6, torch.bfloat16: 9}
MAP_SWIZZLE_128, MAP_PROMOTE_256 = 3, 3
MAP_WORDS, MAP_ALIGNMENT = 16, 64
MAX_DYNAMIC_SHARED_BYTES = 8


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: an identifier, then 64 bytes of value."""

    _fields_ = (("identifier", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16))


class LaunchConfiguration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


@functools.cache
def driver() -> Any:
    """The driver library, with a current context."""
    torch.zeros(1, device="cuda")
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def compiler() -> Any:
    """The NVRTC library of an installed wheel, or of the system."""
    libraries = [
        path
        for folder in sys.path
        for path in sorted(glob.glob(f"{folder}/nvidia/*/lib/libnvrtc*.so*"))
        if ".alt." not in path
    ]
    for path in libraries:
        if "builtins" in path:
            ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    library = [path for path in libraries if "builtins" not in path]
    return ctypes.CDLL(library[0] if library else "libnvrtc.so")


def check(result: int, what: str) -> None:
    """Raises RuntimeError with the driver's message if the result is an error."""
    if result:
        text = ctypes.c_char_p()
        driver().cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"{what}: CUDA error {result}: {text.value!r}")


@functools.cache
def sources() -> dict[str, str]:
    """The sources by file name: those of the folder, and the header that the extension generates."""
    paths = {path.name: path.read_text() for path in KERNELS.rglob("*.cu*")}
    return dict(cuda_sources()) | paths


@functools.cache
def compile_kernel(file: str, architecture: str, options: tuple[str, ...]) -> bytes:
    """The cubin of one file of the kernels folder."""
    nvrtc = compiler()
    headers = {name: text for name, text in sources().items() if name.endswith(".cuh")}
    names = (ctypes.c_char_p * len(headers))(*[name.encode() for name in headers])
    texts = (ctypes.c_char_p * len(headers))(*[text.encode() for text in headers.values()])
    program = ctypes.c_void_p()
    source = sources()[file].encode()
    nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source, file.encode(), len(headers), texts, names
    )
    flags = [f"--gpu-architecture={architecture}", "--std=c++17", *options]
    values = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
    failed = nvrtc.nvrtcCompileProgram(program, len(flags), values)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        raise RuntimeError(f"{file} {options}:\n{log.value.decode()}")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw


class Kernel:
    """One compiled entry point."""

    def __init__(self, file: str, entry: str | None = None, **options: object) -> None:
        major, minor = torch.cuda.get_device_capability()
        architecture = "sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}"
        flags = tuple(f"-D{name}={value}" for name, value in sorted(options.items()))
        self.name = f"{file} {' '.join(flags)}"
        cubin = compile_kernel(file, architecture, flags)
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(driver().cuModuleLoadData(ctypes.byref(self.module), cubin), self.name)
        symbol = (entry or file.removesuffix(".cu")).encode()
        status = driver().cuModuleGetFunction(ctypes.byref(self.function), self.module, symbol)
        check(status, self.name)

    def attribute(self, element: int) -> int:
        """A function attribute: 3 local bytes, 4 registers."""
        value = ctypes.c_int()
        check(driver().cuFuncGetAttribute(ctypes.byref(value), element, self.function), self.name)
        return value.value

    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *arguments: object,
        shared: int = 0,
        overlap: bool = False,
        cluster: int = 0,
    ) -> None:
        """Launches on PyTorch's current stream; an int is 32 bits wide, a c_* value what it says."""
        values: list[Any] = []
        for argument in arguments:
            if argument is None:
                values.append(ctypes.c_void_p(0))
            elif isinstance(argument, torch.Tensor):
                values.append(ctypes.c_void_p(argument.data_ptr()))
            elif isinstance(argument, bool | int):
                values.append(ctypes.c_int(argument))
            elif isinstance(argument, float):
                values.append(ctypes.c_float(argument))
            else:
                values.append(argument)
        pointers = (ctypes.c_void_p * len(values))(
            *[ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values]
        )
        if shared > 32 * 1024:  # with static shared memory, beyond the default limit
            set_to = driver().cuFuncSetAttribute(self.function, MAX_DYNAMIC_SHARED_BYTES, shared)
            check(set_to, self.name)
        attributes = (LaunchAttribute * 2)()
        count = 0
        if overlap:
            attributes[count].identifier = PROGRAMMATIC_SERIALIZATION
            attributes[count].value[0] = 1
            count += 1
        if cluster:
            attributes[count].identifier = CLUSTER_DIMENSION
            attributes[count].value[:3] = [cluster, 1, 1]
            count += 1
        extents = [[given] if isinstance(given, int) else list(given) for given in (grid, block)]
        configuration = LaunchConfiguration(
            *((ctypes.c_uint * 3)(*extent, *[1] * (3 - len(extent))) for extent in extents),
            shared,
            torch.cuda.current_stream().cuda_stream,
            ctypes.addressof(attributes) if count else None,
            count,
        )
        launched = driver().cuLaunchKernelEx(
            ctypes.byref(configuration), self.function, pointers, None
        )
        check(launched, self.name)


def tensor_map(view: torch.Tensor, box_tokens: Sequence[int]) -> ctypes.Array[ctypes.c_uint64]:
    """The TMA tensor map of a view, with these boxes and the 128-byte swizzle."""
    rank = view.dim()
    storage = (ctypes.c_uint64 * (MAP_WORDS + MAP_ALIGNMENT // 8))()
    shift = -ctypes.addressof(storage) % MAP_ALIGNMENT
    sizes, strides, steps = view.shape[::-1], view.stride()[::-1], view.stride()[-1]
    assert steps == 1
    result = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(storage) + shift),
        MAP_TYPES[view.dtype],
        rank,
        ctypes.c_void_p(view.data_ptr()),
        (ctypes.c_uint64 * rank)(*sizes),
        (ctypes.c_uint64 * (rank - 1))(*(2 * stride for stride in strides[1:])),
        (ctypes.c_uint32 * rank)(*box_tokens[::-1]),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,
        MAP_SWIZZLE_128,
        MAP_PROMOTE_256,
        0,
    )
    check(result, f"tensor map of {tuple(view.shape)}")
    return (ctypes.c_uint64 * MAP_WORDS).from_buffer_copy(storage, shift)


def prefill(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    out: torch.Tensor,
    queries: int,
    paged: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
    hopper: bool = True,
    causal: int = 1,
    heads_per_tile: int = 1,
) -> Callable[[], None]:
    """A launch of prefill attention over blocks x kv_heads x tokens x head_dim.

    Without block tables, query starts and lengths each block is a sequence with `queries` rows.
    The Hopper kernel packs `heads_per_tile` heads in a tile.
    """
    heads, head = q.shape[1:]
    blocks, kv_heads, block, _ = keys.shape
    tables, query_start_loc, seq_lens = paged or (None, None, None)
    sequences = blocks if tables is None else tables.shape[0]
    columns = 0 if tables is None else tables.shape[1]
    element = {torch.float16: "fp16", torch.bfloat16: "bf16"}[q.dtype]
    if not hopper:
        tile = 64
        tokens = 64 if head <= 128 else 32
        kernel = Kernel("attention_prefill.cu", ELEMENT=element, HEAD_DIM=head, CAUSAL=causal)
        block_stride, head_stride, token_stride = keys.stride()[:3]
        return lambda: kernel(
            (-(-queries // tile), heads, sequences), 128, q, keys, values, tables, query_start_loc, seq_lens, out,
            queries, block, heads, kv_heads, block, columns, ctypes.c_longlong(block_stride),
            head_stride, token_stride, head**-0.5,
            shared=(4 * tokens + (64 if tokens < 64 else 0)) * head * 2,
        )  # fmt: skip
    box_tokens = 128 if tables is None else min(128, block & -block)
    tile_queries, head_tiles = 128 // heads_per_tile, heads // heads_per_tile
    kernel = Kernel(
        "attention_prefill_hopper.cu",
        ELEMENT=element,
        HEAD_DIM=head,
        HEADS_PER_TILE=heads_per_tile,
        CAUSAL=causal,
        BOX_TOKENS=box_tokens,
    )
    maps = [
        tensor_map(q, (tile_queries, heads_per_tile, 64)),
        *(tensor_map(tensor, (1, 1, box_tokens, 64)) for tensor in (keys, values)),
    ]
    tile_counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    work_tiles = -(-queries // tile_queries) * head_tiles * sequences
    grid = min(torch.cuda.get_device_properties(0).multi_processor_count, work_tiles)
    return lambda: kernel(
        grid, 384, *maps, tables, query_start_loc, seq_lens, out, tile_counter, q.shape[0], queries, block,
        head_tiles, head_tiles // kv_heads, sequences, block, columns, head**-0.5, shared=6 * 128 * head * 2 + 1024,
    )  # fmt: skip


def capture(work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """The work as a CUDA graph, captured after one eager run."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            work()
    return graph


def milliseconds(work: Callable[[], object], repeats: int = 15) -> tuple[float, float, float]:
    """Median, minimum and maximum time of replays of a CUDA graph of the work."""
    graph = capture(work)
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(repeats):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times), min(times), max(times)


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The norm of the difference over the norm of the expected values; NaN where any is NaN."""
    difference = (got.double() - expected.double()).norm()
    return float(difference / expected.double().norm().clamp_min(1e-30))
