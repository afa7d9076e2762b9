"""Triangle multiplication by others on the same GPU, in bfloat16, timed by events of their stream."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from assay.errors import CheckFailedError
from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, Missing, Program, WorkloadRival
from assay.workloads.protein.pytorch_rival import triangle, triangle_tensors
from assay.workloads.protein.weights import EPSILON, TriangleWeights

UPDATES: Final = 5
"""Updates of a run, one after the other: events around a single one would time its launches."""


class _HasShape(Protocol):
    @property
    def hidden(self) -> int: ...

    @property
    def weights(self) -> TriangleWeights: ...


class PyTorchTriangle(WorkloadRival):
    """PyTorch, eager or through `torch.compile`."""

    packages = MappingProxyType({"torch": None})
    install = "pip install torch"

    def __init__(self, source: _HasShape, *, compiled: bool) -> None:
        """With the weights of this workload."""
        self.name = "torch.compile" if compiled else "PyTorch"
        self._source, self._compiled = source, compiled
        self._update: Callable[[Any, Any], Any] | None = None

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        """Pairs and weights on the GPU."""
        torch = _torch(device)
        if isinstance(torch, Missing):
            return torch
        if self._update is None:
            weights = triangle_tensors(torch, self._source.weights, "cuda", torch.bfloat16)

            def update(pairs: Any, mask: Any) -> Any:
                return triangle(torch, pairs, weights, incoming=False, mask=mask)

            # Compiled once for all seeds: it takes longer than all rounds.
            self._update = torch.compile(update) if self._compiled else update
        try:
            return _TorchTriangle(torch, data, self._update)
        except CheckFailedError as error:
            return Missing(error.message)


class CuEquivarianceTriangle(WorkloadRival):
    """NVIDIA's kernels: another place of the gate, so that outputs are not ours."""

    name = "cuEquivariance"
    packages = MappingProxyType({"cuequivariance-torch": None})
    install = "pip install cuequivariance-torch cuequivariance-ops-torch-cu13"
    is_exact = False
    note = (
        "cuEquivariance gates after the last product, as AlphaFold 2 does, and not before it, as TriMul "
        "does: as much work, other outputs, which are not verified"
    )

    def __init__(self, source: _HasShape) -> None:
        """With the weights of this workload."""
        self._source = source

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        """Only as many hidden channels as outside are offered there."""
        torch = _torch(device)
        if isinstance(torch, Missing):
            return torch
        try:
            library = importlib.import_module("cuequivariance_torch")
        except ImportError:
            return Missing("not installed")
        channels, hidden = data.arrays["pairs"].shape[-1], self._source.hidden
        if channels != hidden:
            return Missing(f"has as many hidden channels as outside: {channels}, not {hidden}")
        weights = triangle_tensors(torch, self._source.weights, "cuda", torch.bfloat16)
        projections = torch.cat([weights.left, weights.right])
        gates = torch.cat([weights.left_gate, weights.right_gate])

        def update(pairs: Any, mask: Any) -> Any:
            return library.triangle_multiplicative_update(
                pairs,
                direction="outgoing",
                mask=mask,
                norm_in_weight=weights.norm.weight,
                norm_in_bias=weights.norm.bias,
                p_in_weight=projections,
                g_in_weight=gates,
                norm_out_weight=weights.out_norm.weight,
                norm_out_bias=weights.out_norm.bias,
                p_out_weight=weights.out,
                g_out_weight=weights.out_gate,
                eps=EPSILON,
            )

        try:
            program = _TorchTriangle(torch, data, update)
            program.run()
        # Whatever its compilers raise: a rival that does not run must not end the rest of the run.
        except Exception as error:
            first = [*str(error).splitlines(), type(error).__name__][0]
            return Missing(f"does not run: {first}")
        return program


def _torch(device: Device) -> Any:
    try:
        import torch
    except ModuleNotFoundError:
        return Missing("not installed")
    if not torch.cuda.is_available():
        return Missing(f"has no device {device.name}")
    return torch


class _TorchTriangle(Program):
    def __init__(self, torch: Any, data: DataSet, update: Callable[[Any, Any], Any]) -> None:
        self._torch, self._update = torch, update
        self._loaded: DataSet | None = None
        self._out: Any = None
        self._seconds = 0.0
        self.load(data)

    def load(self, data: DataSet) -> None:
        if data is self._loaded:
            return
        torch = self._torch
        pairs, mask = data.arrays["pairs"], data.arrays.get("mask")
        self._pairs = torch.from_numpy(pairs).to("cuda", torch.bfloat16)
        self._mask = None if mask is None else torch.from_numpy(mask).to("cuda", torch.bfloat16)
        self._replay = self._captured()
        self._loaded = data

    def run(self) -> Mapping[str, float]:
        torch = self._torch
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.inference_mode():
            start.record()
            self._out = self._replay()
            end.record()
        end.synchronize()
        self._seconds = start.elapsed_time(end) * 1e-3
        return {}

    def _updates(self) -> Any:
        out = None
        for _ in range(UPDATES):
            out = self._update(self._pairs, self._mask)
        return out

    def _captured(self) -> Callable[[], Any]:
        """The updates as one graph, as ours are: launch by launch, launches would be in their time."""
        torch = self._torch
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream())
        with torch.inference_mode(), torch.cuda.stream(side):
            # Compiled, tuned and allocated before the capture.
            for _ in range(2):
                self._updates()
        torch.cuda.synchronize()
        try:
            with torch.inference_mode(), torch.cuda.graph(graph):
                out = self._updates()
        except RuntimeError as error:
            torch.cuda.synchronize()
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise CheckFailedError(f"cannot be captured as a graph, as ours is: {first}") from error

        def replay() -> Any:
            graph.replay()
            return out

        return replay

    def own_seconds(self) -> float | None:
        return self._seconds

    def outputs(self) -> Arrays:
        if self._out is None:
            return {}
        return {"update": np.ascontiguousarray(self._out.float().cpu().numpy())}

    def poison(self) -> None:
        self._out = None
