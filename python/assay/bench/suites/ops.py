"""Passes over activations: elementwise operations, reductions, norms, and what models are made of.

On a processor inputs are used again and again, as activations are: small ones come from the cache.
On a GPU they are rotated past the cache, so that memory is what is measured: operations that write
where they are told in graphs, array functions one by one, as PyTorch's beside them. What a call
costs the host has a figure of its own. The ceiling is copying as many bytes, or for reductions
reading them, in the same rounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from assay.bench.harness import ceilings, checks, counting, inputs
from assay.bench.harness.case import Absent, Case, Contestant, Settings, Size, Suite, Trial
from assay.bench.harness.clocks import Call, DeviceClock, HostClock, OneCore, OneCoreClock
from assay.bench.harness.graph_batches import batch_into_graphs
from assay.bench.harness.text import shape_text
from assay.bench.rivals.numpy import numpy_rival
from assay.bench.rivals.pytorch import pytorch_graph, pytorch_rival
from assay.bench.suites import array_ops, neural_ops
from assay.bench.suites.operation import Operation, Place, Work
from assay.runtime.hardware import Device

OPERATIONS: Final[tuple[Operation, ...]] = (*array_ops.OPERATIONS, *neural_ops.OPERATIONS)
DTYPES: Final = tuple(dict.fromkeys(name for one in OPERATIONS for name in one.dtypes))
SIZES: Final[tuple[Size, ...]] = ((1, 4096), (1024, 4096))
GPU_SIZES: Final[tuple[Size, ...]] = ((8192, 4096),)
GPU_COPY_BYTES: Final = 1 << 30
"""What the ceiling of a GPU copies at once: its memory gets up to speed over many microseconds."""
SMALL: Final = 1024
"""Elements of the operation whose host time is measured."""
QUICK_SIZES: Final[tuple[Size, ...]] = ((4, 256),)


def cases(settings: Settings) -> list[Case]:
    """Every operation in every type it takes, at every size."""
    usual = GPU_SIZES if settings.device.capabilities.is_gpu else SIZES
    sizes = settings.sizes or (QUICK_SIZES if settings.quick else usual)
    wanted = settings.dtypes or DTYPES
    return [
        Case(
            f"{operation.name} {dtype} {shape_text(size)}",
            "GB/s",
            functools.partial(_prepare, operation, _place(settings, dtype, size)),
            {
                "operation": operation.name,
                "dtype": dtype,
                "rows": size[0],
                "columns": size[1],
            },
        )
        for operation in OPERATIONS
        for dtype in operation.dtypes
        if dtype in wanted
        for size in sizes
    ] + [
        Case(
            f"add of {SMALL:,} elements, host time per call{where}",
            "us",
            functools.partial(_host_time, settings.device, held),
            {"operation": "add", "dtype": "f32", "elements": SMALL, "one_core": held},
        )
        for where, held in (("", False), (", on one core", True))
    ]


def _place(settings: Settings, dtype: str, size: Size) -> Place:
    """Where an operation is tried; on a GPU in as many places as the cache does not hold."""
    rows, columns = size
    plain = Place(settings.device, dtype, rows, columns)
    if not settings.device.capabilities.is_gpu or settings.quick:
        return plain
    nbytes = 2 * rows * columns * (4 if dtype == "f32" else 2)
    return replace(plain, copies=inputs.copies(settings.device, nbytes, settings.quick))


def _prepare(operation: Operation, place: Place) -> Trial:
    device = place.device
    work = operation.make(place)
    counted = counting.count(device, work.call)
    turns = [functools.partial(work.call, number) for number in range(place.copies)]
    captured = place.copies > 1 and not operation.allocates
    call, times = batch_into_graphs(device, turns, counted.bytes) if captured else (work.call, 1)
    in_numpy = work.in_numpy
    return Trial(
        Contestant("assay", call, DeviceClock(device), times * counted.bytes),
        work.check,
        ceiling=_ceiling(operation, place, counted.bytes),
        rivals=[
            in_numpy if not callable(in_numpy) else numpy_rival(in_numpy, counted.bytes, device),
            _torch(work, place, times, counted.bytes),
        ],
        bytes=counted.bytes,
        flops=counted.flops,
        working_set_bytes=int(counted.bytes) * place.copies,
        note="" if times == 1 else f"graphs of {times} operations",
    )


def _ceiling(operation: Operation, place: Place, nbytes: float) -> Contestant:
    device = place.device
    if not device.capabilities.is_gpu:
        yardstick = ceilings.read if operation.reads_only else ceilings.copy
        return yardstick(device, int(nbytes))
    if operation.reads_only:
        return ceilings.cold_read(device, nbytes, quick=place.copies == 1)
    return ceilings.copy(device, GPU_COPY_BYTES)


def _torch(work: Work, place: Place, times: int, nbytes: float) -> Contestant | Absent:
    """PyTorch's operation, as often in a graph as ours where ours are in one."""

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        one = work.in_torch(module, put)
        if times == 1:
            return one
        return pytorch_graph(module, [functools.partial(one, turn) for turn in range(times)])

    return pytorch_rival(place.device, in_torch, times * nbytes)


def _host_time(device: Device, held: bool) -> Trial:
    """What a call costs the host, whatever the device does meanwhile.

    A thread that is `held` stays on one core; the other goes wherever the system puts it.
    """
    hosts = [inputs.normal((SMALL,), seed) for seed in range(2)]
    first, second = (inputs.place(device, host) for host in hosts)
    core = OneCore() if held else None
    clock = HostClock() if core is None else OneCoreClock(core)

    def call(_: int) -> Any:
        return first + second

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        a, b = (put(host) for host in hosts)
        return lambda _: a + b

    return Trial(
        Contestant("assay", call, clock),
        checks.returned("NumPy", call, lambda _: np.add(*hosts), 0.0),
        ceiling=ceilings.launch(device, core) if device.capabilities.is_gpu else None,
        rivals=[pytorch_rival(device, in_torch, 1.0, clock=clock)],
        note="time of the host per call, while the device works",
    )


SUITE = Suite(
    "ops",
    "passes over activations: elementwise, reductions, norms and the parts of models",
    cases,
    dtypes=DTYPES,
    axes=(2,),
    size_meaning="ROWSxCOLUMNS",
)
