"""What a profiler costs the host for each record, where the trace does not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.lazy_import import pl

if TYPE_CHECKING:
    from assay.observe.trace import Trace


@dataclass(frozen=True, slots=True)
class RecordCost:
    """Host time that a record takes, in nanoseconds."""

    operation_ns: int
    """Of an operation of the framework: its begin and its end."""
    call_ns: int
    """Of a call of the GPU's runtime or driver."""
    source: str


PYTORCH: Final = RecordCost(813, 2832, "PyTorch 2.11's profiler beside an H200")
PYTORCH_WITH_SHAPES: Final = RecordCost(
    1284, 691, "PyTorch 2.11's profiler with record_shapes beside an H200"
)
"""Measured by assay.validate.fitting.profiler_cost: least squares over six loops, on one host."""

_SHAPES: Final = '"Input Dims"'


def record_cost(trace: Trace) -> RecordCost | None:
    """The cost of a record of a trace's profiler; None where it was not measured."""
    if trace.header.source != "kineto":
        return None
    has_operations = pl.col("kind") == "host"
    shown = trace.events.lazy().filter(has_operations).select("args").head(1000).collect()["args"]
    if shown.str.contains(_SHAPES, literal=True).any():
        return PYTORCH_WITH_SHAPES
    return PYTORCH
