"""Memory-bound operations: elementwise, reductions, norms and other layers of models.

On a CPU the same inputs are used again, as activations are: small ones come from the cache. On a
GPU inputs rotate past the cache: operations with an `out` argument are captured in graphs, array
functions are called one by one, and PyTorch's likewise. The host time of a call has a figure of
its own. The ceiling is copying as many bytes, or reading them for reductions, in the same rounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from assay.bench.harness import ceilings, checks, counting, inputs
from assay.bench.harness.case import Absent, Case, PreparedCase, Settings, Size, Subject, Suite
from assay.bench.harness.clocks import Call, DeviceClock, HostClock, PinnedCore, PinnedCoreClock
from assay.bench.harness.graph_batches import batch_into_graphs
from assay.bench.harness.text import shape_text
from assay.bench.rivals.numpy import numpy_rival
from assay.bench.rivals.pytorch import pytorch_graph, pytorch_rival
from assay.bench.suites import array_ops, neural_ops
from assay.bench.suites.operation import Operation, OperationSetup, PreparedOperation
from assay.runtime.hardware import Device

OPERATIONS: Final[tuple[Operation, ...]] = (*array_ops.OPERATIONS, *neural_ops.OPERATIONS)
DTYPES: Final = tuple(dict.fromkeys(name for operation in OPERATIONS for name in operation.dtypes))
SIZES: Final[tuple[Size, ...]] = ((1, 4096), (1024, 4096))
GPU_SIZES: Final[tuple[Size, ...]] = ((8192, 4096),)
GPU_COPY_BYTES: Final = 1 << 30
"""Bytes of one copy of a GPU's ceiling: its memory needs many microseconds to reach full rate."""
SMALL: Final = 1024
"""Elements of the operation whose host time is measured."""
QUICK_SIZES: Final[tuple[Size, ...]] = ((4, 256),)


def cases(settings: Settings) -> list[Case]:
    """Every operation in every type it takes, at every size."""
    usual = GPU_SIZES if settings.device.capabilities.is_gpu else SIZES
    sizes = settings.sizes or (QUICK_SIZES if settings.quick else usual)
    dtypes = settings.dtypes or DTYPES
    return [
        Case(
            f"{operation.name} {dtype} {shape_text(size)}",
            "GB/s",
            functools.partial(_prepare, operation, _setup(settings, dtype, size)),
            {"operation": operation.name, "dtype": dtype, "rows": size[0], "columns": size[1]},
        )
        for operation in OPERATIONS
        for dtype in operation.dtypes
        if dtype in dtypes
        for size in sizes
    ] + [
        Case(
            f"add of {SMALL:,} elements, host time per call{suffix}",
            "us",
            functools.partial(_host_time, settings.device, pinned),
            {"operation": "add", "dtype": "f32", "elements": SMALL, "one_core": pinned},
        )
        for suffix, pinned in (("", False), (", on one core", True))
    ]


def _setup(settings: Settings, dtype: str, size: Size) -> OperationSetup:
    """The setup of an operation; on a GPU with more copies than the cache holds."""
    rows, columns = size
    setup = OperationSetup(settings.device, dtype, rows, columns)
    if not settings.device.capabilities.is_gpu or settings.quick:
        return setup
    nbytes = 2 * rows * columns * (4 if dtype == "f32" else 2)
    return replace(setup, copies=inputs.rotated_copies(settings.device, nbytes, settings.quick))


def _prepare(operation: Operation, setup: OperationSetup) -> PreparedCase:
    device = setup.device
    prepared = operation.make(setup)
    counted = counting.count(device, prepared.call)
    calls = [functools.partial(prepared.call, number) for number in range(setup.copies)]
    captured = setup.copies > 1 and not operation.allocates
    call, times = (
        batch_into_graphs(device, calls, counted.bytes) if captured else (prepared.call, 1)
    )
    in_numpy = prepared.in_numpy
    return PreparedCase(
        Subject("assay", call, DeviceClock(device), times * counted.bytes),
        prepared.check,
        ceiling=_ceiling(operation, setup, counted.bytes),
        rivals=[
            in_numpy if not callable(in_numpy) else numpy_rival(in_numpy, counted.bytes, device),
            _torch(prepared, setup, times, counted.bytes),
        ],
        bytes=counted.bytes,
        flops=counted.flops,
        working_set_bytes=int(counted.bytes) * setup.copies,
        note="" if times == 1 else f"graphs of {times} operations",
    )


def _ceiling(operation: Operation, setup: OperationSetup, nbytes: float) -> Subject:
    device = setup.device
    if not device.capabilities.is_gpu:
        ceiling = ceilings.read if operation.reads_only else ceilings.copy
        return ceiling(device, int(nbytes))
    if operation.reads_only:
        return ceilings.cold_read(device, nbytes, quick=setup.copies == 1)
    return ceilings.copy(device, GPU_COPY_BYTES)


def _torch(
    prepared: PreparedOperation, setup: OperationSetup, times: int, nbytes: float
) -> Subject | Absent:
    """PyTorch's operation, in a graph of as many nodes where ours is in one."""

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        operation = prepared.in_torch(module, upload)
        if times == 1:
            return operation
        return pytorch_graph(
            module, [functools.partial(operation, index) for index in range(times)]
        )

    return pytorch_rival(setup.device, in_torch, times * nbytes)


def _host_time(device: Device, pinned: bool) -> PreparedCase:
    """Host time of a call, while the device works asynchronously.

    `pinned` keeps the thread on one core; otherwise the system schedules it.
    """
    hosts = [inputs.standard_normal((SMALL,), seed) for seed in range(2)]
    first, second = (inputs.upload(device, host) for host in hosts)
    core = PinnedCore() if pinned else None
    clock = HostClock() if core is None else PinnedCoreClock(core)

    def call(_: int) -> Any:
        return first + second

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        a, b = (upload(host) for host in hosts)
        return lambda _: a + b

    return PreparedCase(
        Subject("assay", call, clock),
        checks.returned_array("NumPy", call, lambda _: np.add(*hosts), 0.0),
        ceiling=ceilings.launch(device, core) if device.capabilities.is_gpu else None,
        rivals=[pytorch_rival(device, in_torch, 1.0, clock=clock)],
        note="host time per call, while the device works",
    )


SUITE = Suite("ops", cases, dtypes=DTYPES, axes=(2,), size_meaning="ROWSxCOLUMNS", seeding="inputs")
