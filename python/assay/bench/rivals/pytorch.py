"""PyTorch on the same device, as a rival."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from assay.bench.harness.case import Absent, Subject
from assay.bench.harness.clocks import Call, Clock, HostClock
from assay.bench.harness.inputs import NumPyArray
from assay.runtime.hardware import Device

_IS_MEASURED: Final = contextvars.ContextVar("is_measured", default=True)


@contextlib.contextmanager
def without_pytorch() -> Iterator[None]:
    """Prepare cases without PyTorch, which takes seconds and memory to set up."""
    token = _IS_MEASURED.set(False)
    try:
        yield
    finally:
        _IS_MEASURED.reset(token)


class TorchClock:
    """Device time of PyTorch's calls on a GPU, by CUDA events on its current stream."""

    def __init__(self, module: Any) -> None:
        """Measure on PyTorch's current stream."""
        self.module = module

    def measure(self, call: Call, first: int, count: int) -> float:
        """Seconds of device time of one call."""
        start, end = (self.module.cuda.Event(enable_timing=True) for _ in range(2))
        with self.module.inference_mode():
            start.record()
            for number in range(first, first + count):
                call(number)
            end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / count


def pytorch_rival(
    device: Device,
    make: Callable[[Any, Callable[[NumPyArray], Any]], Call],
    amount: float,
    *,
    clock: Clock | None = None,
) -> Subject | Absent:
    """PyTorch on the same device, or the reason why it is not measured.

    `make` gets the module and a function that uploads host values, and returns the call. Without
    `clock`, device time is measured.
    """
    if not _IS_MEASURED.get():
        return Absent("PyTorch", "not asked for")
    if importlib.util.find_spec("torch") is None:
        return Absent("PyTorch", "not installed")
    if not device.host_memory and not device.capabilities.is_gpu:
        return Absent("PyTorch", f"has no device {device.name}")
    module = importlib.import_module("torch")
    if device.capabilities.is_gpu:
        if not module.cuda.is_available():
            return Absent("PyTorch", "was built without CUDA or finds no GPU")
        call = make(module, lambda host: _on_host(module, host).to(device.name))
        return Subject("PyTorch", call, clock or TorchClock(module), amount)
    call = make(module, lambda host: _on_host(module, host))

    def call_without_autograd(number: int) -> object:
        with module.inference_mode():
            return call(number)

    return Subject("PyTorch", call_without_autograd, clock or HostClock(), amount)


def _on_host(module: Any, host: NumPyArray) -> Any:
    return module.from_numpy(np.require(host, requirements=["C", "W"]))


def pytorch_graph(module: Any, operations: Sequence[Callable[[], object]]) -> Call:
    """A call that replays these operations as one CUDA graph captured by PyTorch."""
    side_stream = module.cuda.Stream()
    side_stream.wait_stream(module.cuda.current_stream())
    with module.inference_mode():
        # PyTorch requires warm-up on a side stream before capture.
        with module.cuda.stream(side_stream):
            for operation in operations[:3]:
                operation()
        module.cuda.current_stream().wait_stream(side_stream)
        graph = module.cuda.CUDAGraph()
        with module.cuda.graph(graph):
            for operation in operations:
                operation()
    return lambda _: graph.replay()
