"""Ceilings of this machine: read and copy bandwidth, FMA peak, GEMM, launch overhead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import xp
from assay.bench.harness import ceilings, checks, inputs
from assay.bench.harness.case import Case, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import Call, DeviceClock
from assay.bench.harness.graph_batches import batch_into_graphs
from assay.bench.harness.text import bytes_text
from assay.bench.rivals.numpy import numpy_rival
from assay.bench.rivals.pytorch import pytorch_graph, pytorch_rival
from assay.bench.suites import gemm, transfers
from assay.runtime.array import Array
from assay.runtime.graphs import capture_graph
from assay.runtime.hardware import Device

SIZES: Final = tuple(1 << power for power in (15, 18, 20, 22, 24, 26, 28, 29))
QUICK_SIZES: Final = (1 << 15, 1 << 20, 1 << 23)
GPU_SIZES: Final = tuple(1 << power for power in (20, 24, 26, 28, 30, 32))
MAX_COPY_BYTES: Final = 1 << 30
"""Maximum bytes of a copy on a GPU: all of them are checked against the source."""
DRAWN_BYTES: Final = 64 << 20
"""Random bytes drawn on the host; larger inputs repeat them."""
SIDE: Final = 2048
QUICK_SIDE: Final = 256
GPU_SIDE: Final = 8192
NODES: Final = 200
GPU_NODES: Final = 500


def cases(settings: Settings) -> list[Case]:
    """Bandwidth by size, then rates, then costs."""
    device, quick = settings.device, settings.quick
    on_gpu = device.capabilities.is_gpu
    usual = QUICK_SIZES if quick else GPU_SIZES if on_gpu else SIZES
    sizes = tuple(size for (size,) in settings.sizes) or usual
    side = QUICK_SIDE if quick else GPU_SIDE if on_gpu else SIDE
    listed = [_bandwidth("read", device, size, read) for size in sizes]
    copied = [size for size in sizes if not on_gpu or size <= MAX_COPY_BYTES]
    listed += [_bandwidth("copy", device, size, copy) for size in copied]
    listed.append(
        Case("arithmetic f32", "GFLOP/s", lambda: arithmetic(device), {"operation": "arithmetic"})
    )
    listed += [gemm.case(device, dtype, (side, side, side)) for dtype in gemm.DTYPES]
    listed.append(Case("launch", "us", lambda: launch(device), {"operation": "launch"}))
    listed.append(Case("graph node", "us", lambda: graph_node(device), {"operation": "graph node"}))
    return listed + (transfers.cases(settings) if on_gpu else [])


def _bandwidth(
    what: str, device: Device, nbytes: int, prepare: Callable[[Device, int], PreparedCase]
) -> Case:
    return Case(
        f"{what} {bytes_text(nbytes)}",
        "GB/s",
        lambda: prepare(device, nbytes),
        {"operation": what, "bytes": nbytes},
    )


def read(device: Device, nbytes: int, *, repeats: bool = False) -> PreparedCase:
    """Reading a working set, many times over where it is small.

    With `repeats` a large one repeats the values that are drawn, as on a GPU: faster to set up,
    but what NumPy reads is smaller.
    """
    host, pieces, source = _drawn(device, nbytes // 4, repeats)
    out = xp.empty((1,), dtype=xp.float32, device=device)
    # Exact in FP64, then rounded once, as the operation does.
    total = np.array([pieces * host.sum(dtype=np.float64)]).astype(np.float32)
    call, times = _repeated(device, nbytes, lambda: ceilings.stream_read_into(source, out))

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        placed = upload(host).repeat(pieces)
        return _torch_call(device, module, placed.sum, times)

    return PreparedCase(
        Subject("assay", call, DeviceClock(device), times * source.nbytes),
        checks.output("the exact sum", call, out, lambda _: total, 0.0),
        rivals=[
            numpy_rival(lambda _: host.sum(), host.nbytes, device),
            pytorch_rival(device, in_torch, _torch_times(device, times) * source.nbytes),
        ],
        bytes=source.nbytes,
        working_set_bytes=source.nbytes,
    )


def _drawn(
    device: Device, count: int, repeats: bool = False
) -> tuple[inputs.NumPyArray, int, Array]:
    """Host values, how often the device repeats them, and the array on the device."""
    repeats = repeats or device.capabilities.is_gpu
    pieces = max(count * 4 // DRAWN_BYTES, 1) if repeats else 1
    size = max(count // pieces, 1)
    if device.capabilities.is_gpu:
        # GPU kernels add up in FP64, and a CPU's in FP32 lanes, as many as it has.
        host = inputs.small_integers(size, 1)
    else:
        host = inputs.integers_with_exact_sum(size, 1, pieces)
    placed = inputs.upload(device, host)
    return host, pieces, placed if pieces == 1 else inputs.repeat(device, placed, pieces)


def _torch_call(device: Device, module: Any, operation: Callable[[], object], times: int) -> Call:
    """PyTorch's operation; on a GPU as a graph of as many nodes as ours."""
    if not device.capabilities.is_gpu or times == 1:
        return lambda _: operation()
    return pytorch_graph(module, [operation] * times)


def _torch_times(device: Device, times: int) -> int:
    return times if device.capabilities.is_gpu else 1


def _repeated(device: Device, nbytes: int, operation: Callable[[], None]) -> tuple[Call, int]:
    """Short operations batched in graphs, so that launching them costs little."""
    return batch_into_graphs(
        device, [operation] * (1 if device.capabilities.is_gpu else NODES), nbytes
    )


def copy(device: Device, nbytes: int, *, repeats: bool = False) -> PreparedCase:
    """Half the bytes are read and half are written; `repeats` as in `read`."""
    host, pieces, source = _drawn(device, nbytes // 8, repeats)
    out = xp.empty(source.shape, dtype=xp.float32, device=device)
    target = np.empty_like(host)
    call, times = _repeated(device, nbytes, lambda: ceilings.stream_copy_into(source, out))

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        origin = upload(host).repeat(pieces)
        other = module.empty_like(origin)
        return _torch_call(device, module, lambda: other.copy_(origin), times)

    moved = 2 * source.nbytes
    return PreparedCase(
        Subject("assay", call, DeviceClock(device), times * moved),
        checks.output("the source", call, out, lambda _: np.tile(host, pieces), 0.0),
        rivals=[
            numpy_rival(lambda _: np.copyto(target, host), moved, device),
            pytorch_rival(device, in_torch, _torch_times(device, times) * moved),
        ],
        bytes=moved,
        working_set_bytes=moved,
    )


def arithmetic(device: Device) -> PreparedCase:
    """The FP32 peak of fused multiply-adds."""
    host = inputs.small_integers(ceilings.fma_elements(device), 0)
    x = inputs.upload(device, host)
    out = xp.empty(x.shape, dtype=xp.float32, device=device)
    flops = 2.0 * x.size * ceilings.FMA_STEPS

    def call(_: int) -> None:
        ceilings.fma_into(x, out)

    return PreparedCase(
        Subject("assay", call, DeviceClock(device), flops),
        checks.output("1 - x", call, out, lambda _: 1.0 - host, 0.0),
        flops=flops,
        note="fused multiply-adds in registers, without memory traffic",
    )


def launch(device: Device) -> PreparedCase:
    """The smallest operation: its time is the launch overhead."""
    host = inputs.small_integers(16, 1)
    source = inputs.upload(device, host)
    out = xp.empty(source.shape, dtype=xp.float32, device=device)

    def call(_: int) -> None:
        ceilings.stream_copy_into(source, out)

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        origin, other = upload(host), upload(host)
        return lambda _: module.add(origin, 1.0, out=other)

    return PreparedCase(
        Subject("assay", call, DeviceClock(device)),
        checks.output("the source", call, out, lambda _: host, 0.0),
        rivals=[pytorch_rival(device, in_torch, 1.0)] if device.capabilities.is_gpu else [],
        note="one operation over 64 bytes, called from Python",
    )


def graph_node(device: Device) -> PreparedCase:
    """The same operation many times in one replayed graph."""
    host = inputs.small_integers(16, 1)
    source = inputs.upload(device, host)
    out = xp.empty(source.shape, dtype=xp.float32, device=device)

    nodes = GPU_NODES if device.capabilities.is_gpu else NODES

    def copies() -> None:
        for _ in range(nodes):
            ceilings.stream_copy_into(source, out)

    graph = capture_graph(copies, device=device)

    def call(_: int) -> None:
        graph.replay()

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        origin, other = upload(host), upload(host)
        return pytorch_graph(module, [lambda: module.add(origin, 1.0, out=other)] * nodes)

    return PreparedCase(
        Subject("assay", call, DeviceClock(device), nodes),
        checks.output("the source", call, out, lambda _: host, 0.0),
        rivals=[pytorch_rival(device, in_torch, nodes)] if device.capabilities.is_gpu else [],
        note=f"a graph of {nodes} operations over 64 bytes, replayed from Python",
    )


SUITE = Suite(
    "ceilings", cases, axes=(1,), size_meaning="bytes, such as 32K or 256M", seeding="inputs"
)
