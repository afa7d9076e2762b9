"""What this machine can do at most: reading, copying, arithmetic, products, starting work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import xp
from assay.bench import checks, inputs, rivals, stored, yardsticks
from assay.bench.case import Case, Contestant, Settings, Suite, Trial
from assay.bench.clocks import Call, DeviceClock
from assay.bench.grouping import grouped
from assay.bench.suites import gemm
from assay.bench.text import bytes_text
from assay.runtime.graphs import capture_graph
from assay.runtime.hardware import Device

SIZES: Final = tuple(1 << power for power in (15, 18, 20, 22, 24, 26, 28, 29))
QUICK_SIZES: Final = (1 << 15, 1 << 20, 1 << 23)
SIDE: Final = 2048
QUICK_SIDE: Final = 256
NODES: Final = 200


def cases(settings: Settings) -> list[Case]:
    """Bandwidth by size, then rates, then costs."""
    device, quick = settings.device, settings.quick
    sizes = tuple(size for (size,) in settings.sizes) or (QUICK_SIZES if quick else SIZES)
    side = QUICK_SIDE if quick else SIDE
    listed = [_bandwidth("read", device, size, _read) for size in sizes]
    listed += [_bandwidth("copy", device, size, _copy) for size in sizes]
    listed.append(
        Case("arithmetic f32", "GFLOP/s", lambda: _arithmetic(device), {"operation": "arithmetic"})
    )
    listed += [gemm.case(device, dtype, (side, side, side)) for dtype in gemm.DTYPES]
    listed.append(Case("launch", "us", lambda: _launch(device), {"operation": "launch"}))
    listed.append(
        Case("graph node", "us", lambda: _graph_node(device), {"operation": "graph node"})
    )
    return listed


def _bandwidth(
    what: str, device: Device, nbytes: int, prepare: Callable[[Device, int], Trial]
) -> Case:
    return Case(
        f"{what} {bytes_text(nbytes)}",
        "GB/s",
        lambda: prepare(device, nbytes),
        {"operation": what, "bytes": nbytes},
    )


def _read(device: Device, nbytes: int) -> Trial:
    host = inputs.counts(max(nbytes // 4, 1), 1)
    source = inputs.place(device, host)
    out = xp.empty((1,), dtype=xp.float32, device=device)
    # Exact in double precision, then rounded once, as the operation does.
    total = np.array([host.sum(dtype=np.float64)]).astype(np.float32)
    call, times = _repeated(device, nbytes, lambda: yardsticks.read_into(source, out))

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        placed = put(host)
        return lambda _: placed.sum()

    return Trial(
        Contestant("assay", call, DeviceClock(device), times * host.nbytes),
        checks.written("the exact sum", call, out, lambda _: total, 0.0),
        rivals=[
            rivals.numpy(lambda _: host.sum(), host.nbytes),
            rivals.torch(device, in_torch, host.nbytes),
        ],
        bytes=host.nbytes,
        working_set_bytes=host.nbytes,
    )


def _repeated(device: Device, nbytes: int, operation: Callable[[], None]) -> tuple[Call, int]:
    """A call that does a short operation often, so that starting it costs little."""
    return grouped(device, [operation] * NODES, nbytes)


def _copy(device: Device, nbytes: int) -> Trial:
    """Half the bytes are read and half are written."""
    host = inputs.counts(max(nbytes // 8, 1), 1)
    source = inputs.place(device, host)
    out = xp.empty(source.shape, dtype=xp.float32, device=device)
    target = np.empty_like(host)
    call, times = _repeated(device, nbytes, lambda: yardsticks.copy_into(source, out))

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        origin, other = put(host), put(np.empty_like(host))
        return lambda _: other.copy_(origin)

    return Trial(
        Contestant("assay", call, DeviceClock(device), times * 2 * host.nbytes),
        checks.written("the source", call, out, lambda _: host, 0.0),
        rivals=[
            rivals.numpy(lambda _: np.copyto(target, host), 2 * host.nbytes),
            rivals.torch(device, in_torch, 2 * host.nbytes),
        ],
        bytes=2 * host.nbytes,
        working_set_bytes=2 * host.nbytes,
    )


def _arithmetic(device: Device) -> Trial:
    host = inputs.counts(yardsticks.ELEMENTS, 0)
    x = inputs.place(device, host)
    out = xp.empty(x.shape, dtype=xp.float32, device=device)
    flops = 2.0 * x.size * yardsticks.STEPS

    def call(_: int) -> None:
        yardsticks.alternate_into(x, out)

    return Trial(
        Contestant("assay", call, DeviceClock(device), flops),
        checks.written("1 - x", call, out, lambda _: 1.0 - host, 0.0),
        flops=flops,
        note="products and sums in registers: no memory is touched",
    )


def _launch(device: Device) -> Trial:
    """The smallest piece of work: its time is what starting any costs."""
    host = inputs.counts(16, 1)
    source = inputs.place(device, host)
    out = xp.empty(source.shape, dtype=xp.float32, device=device)

    def call(_: int) -> None:
        yardsticks.copy_into(source, out)

    return Trial(
        Contestant("assay", call, DeviceClock(device)),
        checks.written("the source", call, out, lambda _: host, 0.0),
        note="one operation over 64 bytes, called from Python",
    )


def _graph_node(device: Device) -> Trial:
    """The same piece of work many times in one replayed graph."""
    host = inputs.counts(16, 1)
    source = inputs.place(device, host)
    out = xp.empty(source.shape, dtype=xp.float32, device=device)

    def copies() -> None:
        for _ in range(NODES):
            yardsticks.copy_into(source, out)

    graph = capture_graph(copies, device=device)

    def call(_: int) -> None:
        graph.replay()

    return Trial(
        Contestant("assay", call, DeviceClock(device), NODES),
        checks.written("the source", call, out, lambda _: host, 0.0),
        note=f"a graph of {NODES} operations over 64 bytes, replayed from Python",
    )


SUITE = Suite(
    "ceilings",
    "what this machine can do at most; stored for the planner",
    cases,
    axes=(1,),
    size_meaning="bytes, such as 32K or 256M",
    finish=stored.store,
)
