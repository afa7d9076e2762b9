"""Which ceilings a calibration measures: bandwidths, rates, costs and copies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

from assay._native import kernel_threads, limit_kernel_threads
from assay.bench.calibration import attention, linear
from assay.bench.calibration.sampling import Measurement, threads_text
from assay.bench.harness.case import Case, PreparedCase, Settings
from assay.bench.harness.text import bytes_text
from assay.bench.suites import ceilings as suite, gpu_gemm, transfers
from assay.runtime.fingerprint import cache_bytes
from assay.runtime.hardware import Device

SIZES: Final = tuple(1 << power for power in (15, 18, 20, 22, 24, 26))
"""Working sets from the first-level cache of a core to the last one."""
GPU_SIZES: Final = tuple(1 << power for power in (20, 22, 24, 26, 28, 32))
FP8_SIDE: Final = 4096
"""Of a GEMM of FP8 operands; linear layers of FP8 weights have 16-bit activations."""
MEMORY_BYTES: Final = 256 << 20
"""A working set in memory, unless the last-level cache is larger than half of it."""


def measurements(device: Device) -> Iterator[Measurement]:
    """Every ceiling of the device, each prepared only when it is measured."""
    if device.capabilities.is_gpu:
        yield from _gpu(device)
        return
    for threads in thread_counts():
        sizes = (*SIZES, memory_bytes(device))
        yield from (bandwidth("read", device, size, threads) for size in sizes)
        yield _prepared(
            "arithmetic f32", "GFLOP/s", "arithmetic", suite.arithmetic, device, threads
        )
    for size in (SIZES[3], memory_bytes(device)):
        yield bandwidth("copy", device, size, thread_counts()[-1])
    yield _prepared("launch", "us", "launch", suite.launch, device)
    yield _prepared("graph node", "us", "graph node", suite.graph_node, device)
    yield from linear.measurements(device, thread_counts(), limited)
    yield from attention.measurements(device, thread_counts(), limited)


def _gpu(device: Device) -> Iterator[Measurement]:
    yield from (bandwidth("read", device, size) for size in GPU_SIZES)
    yield bandwidth("copy", device, suite.MAX_COPY_BYTES)
    yield _prepared("arithmetic f32", "GFLOP/s", "arithmetic", suite.arithmetic, device)
    yield _prepared("launch", "us", "launch", suite.launch, device)
    yield _prepared("graph node", "us", "graph node", suite.graph_node, device)
    yield from (_from_case(case) for case in transfers.cases(Settings(device)))
    yield from linear.measurements(device, (None,), limited)
    side = (FP8_SIDE,) * 3
    fp8 = gpu_gemm.fp8(device, side)
    parameters = {"operation": "matmul", "dtype": "fp8", "size": list(side)}
    yield Measurement(fp8.name, fp8.unit, parameters, fp8.prepare)
    yield from attention.measurements(device, (None,), limited)


def thread_counts() -> tuple[int, ...]:
    """One thread, and all of them."""
    _, available = kernel_threads()
    return (1,) if available == 1 else (1, available)


@contextlib.contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Limit the threads of CPU kernels in this process."""
    if threads is None:
        yield
        return
    before, _ = kernel_threads()
    limit_kernel_threads(threads)
    try:
        yield
    finally:
        limit_kernel_threads(before)


def memory_bytes(device: Device) -> int:
    """A working set that no cache of a CPU holds."""
    return max(MEMORY_BYTES, 2 * (cache_bytes(device) or 0))


def bandwidth(what: str, device: Device, nbytes: int, threads: int | None = None) -> Measurement:
    """Reading or copying a working set; bytes read and written both count."""
    prepare = suite.read if what == "read" else suite.copy
    parameters = {"operation": what, "bytes": nbytes}
    return Measurement(
        f"{what} {bytes_text(nbytes)}{threads_text(threads)}",
        "GB/s",
        parameters if threads is None else {**parameters, "threads": threads},
        lambda: prepare(device, nbytes, repeats=True),
        _setting(threads),
    )


def _prepared(
    name: str,
    unit: str,
    operation: str,
    prepare: Callable[[Device], PreparedCase],
    device: Device,
    threads: int | None = None,
) -> Measurement:
    return Measurement(
        f"{name}{threads_text(threads)}",
        unit,
        {"operation": operation} | ({} if threads is None else {"threads": threads}),
        lambda: prepare(device),
        _setting(threads),
    )


def _from_case(case: Case) -> Measurement:
    return Measurement(case.name, case.unit, case.parameters, case.prepare)


def _setting(threads: int | None) -> Callable[[], AbstractContextManager[object]]:
    return lambda: limited(threads)
