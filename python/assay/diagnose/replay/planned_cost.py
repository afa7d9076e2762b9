"""The step-cost model for what a trace has not seen: the planner's predictions, as ratios.

A prediction of the step that was observed is divided out: what the trace shows stands, and the
planner says only how it changes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from assay.diagnose.replay.changes import WhatIfChange, clock_ratio
from assay.diagnose.replay.step_cost import StepShape
from assay.observe.operations import parts
from assay.planner.graph import Graph
from assay.planner.predict import predict_graph
from assay.planner.sources import hardware_spec
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec

RATIO_ERROR: Final = 0.1
"""Standard deviation of the logarithm of a predicted ratio, as a share of that logarithm: over the
pairs of 19 measured decode steps of vLLM on an H200 it is 0.087 (batch 1 to 256, context 208 to
12,080)."""
HOST: Final = -1
"""The stream of the planner's host nodes."""
_CLOCK: Final = "kernels.device.clock_ratio"


@dataclass(frozen=True, slots=True)
class Setting:
    """A model on hardware under one batch configuration."""

    model: ModelSpec
    hardware: HardwareSpec
    batch: BatchConfig

    def graph(self) -> Graph:
        """The predicted step."""
        return predict_graph(self.model, self.hardware, self.batch)

    def replayed(self) -> Setting:
        """The same with steps that are replayed as CUDA graphs."""
        batch = dataclasses.replace(self.batch, cuda_graphs=True)
        return Setting(self.model, self.hardware, batch)

    def changed(self, changes: tuple[WhatIfChange, ...]) -> Setting:
        """The setting under changes of batch, context, formats, clock and accelerator."""
        hardware, fields = self.hardware, dict[str, int | str]()
        for change in changes:
            if change.kind == "gpu":
                hardware = hardware_spec(str(change.value))
        for change in changes:
            if change.kind == "clock":
                ratio = clock_ratio(str(change.value), _clock_hz(hardware), change.text)
                given = dict(hardware.given)
                given[_CLOCK] = given.get(_CLOCK, 1.0) * ratio
                hardware = dataclasses.replace(hardware, given=given)
            elif change.kind == "batch":
                fields["sequences"] = int(change.value)
            elif change.kind == "context":
                fields["context"] = int(change.value)
            elif change.kind == "kv":
                fields["kv_dtype"] = str(change.value)
            elif change.kind == "weights":
                fields["weight_dtype"] = str(change.value)
        batch = dataclasses.replace(self.batch, **fields)  # type: ignore[arg-type]
        return Setting(self.model, hardware, batch)


def _clock_hz(hardware: HardwareSpec) -> float | None:
    return hardware.given.get("gpu.clock")


def operation_times(graph: Graph) -> dict[str, float]:
    """Expected nanoseconds of each operation on the device, over all layers."""
    times_ns: dict[str, float] = {}
    for node in graph:
        if node.stream != HOST:
            times_ns[node.operation] = times_ns.get(node.operation, 0.0) + node.expected_ns
    return times_ns


def host_ns(graph: Graph) -> float:
    """Expected nanoseconds of the step without kernels."""
    return sum(node.expected_ns for node in graph if node.stream == HOST)


def ratios(before: Graph, after: Graph, operations: set[str]) -> dict[str, float]:
    """For each operation of a trace, its predicted time after over before.

    A kernel that fuses several takes the ratio of their sum. Operations that the planner does not
    have are left out.
    """
    old, new = operation_times(before), operation_times(after)
    # A lower clock slows the step as a whole: its nodes are at the clock of their benchmarks.
    slowdown = _slowdown(after) / _slowdown(before)
    factors = {}
    for operation in operations:
        wanted = set(parts(operation))
        shared = [name for name in old if wanted & set(parts(name))]
        total = sum(old[name] for name in shared)
        if total > 0:
            factors[operation] = slowdown * sum(new.get(name, 0.0) for name in shared) / total
    return factors


def _slowdown(graph: Graph) -> float:
    return graph.totals["step"].value / sum(node.expected_ns for node in graph)


class PlannedCost:
    """Steps of a load: the observed step, times the planner's ratio for the shape of each step."""

    def __init__(self, setting: Setting, observed: BatchConfig, observed_ns: float) -> None:
        """`observed_ns` is the median step of a trace, or of its replay, which ran `observed`."""
        self.setting = setting
        reference = Setting(setting.model, setting.hardware, observed)
        self._factor = observed_ns / _step_ns(reference)
        self._known: dict[tuple[int, int, int], float] = {}

    def step_ns(self, shape: StepShape) -> float:
        """The time of a step of this shape; shapes are rounded, so that each is predicted once."""
        key = (
            _rounded(shape.decodes),
            _rounded(shape.decode_context),
            _rounded(shape.prefill_tokens),
        )
        if key not in self._known:
            batch = dataclasses.replace(
                self.setting.batch, sequences=key[0], context=max(key[1], 1), prefill_tokens=key[2]
            )
            predicted = _step_ns(Setting(self.setting.model, self.setting.hardware, batch))
            self._known[key] = self._factor * predicted
        return self._known[key]


def _step_ns(setting: Setting) -> float:
    return setting.graph().totals["step"].value


def _rounded(value: float) -> int:
    """A count, rounded above 32 to a multiple of a power of two: at most 3 % off."""
    step = 1 << max(int(value).bit_length() - 5, 0)
    return round(value / step) * step
