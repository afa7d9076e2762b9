"""Passes over activations that only move bytes: norms, activations, rotations, copies."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Variable, by_definition, cited
from assay.stack.kernels import gemm
from assay.stack.kernels.combine import transfer_time

scope = Scope("kernels.elementwise", "Passes over activations")

_ROOFLINE = cited(
    "Williams, Waterman and Patterson 2009, Roofline: an insightful visual performance model "
    "for multicore architectures"
)
_FUSION = cited(
    "Ivanov et al. 2021, Data movement is all you need: a case study on optimizing transformers"
)
_SHAPE = by_definition("shape of the pass")


def _shape(name: str, symbol: str, unit: str, meaning: str) -> Variable:
    return scope.variable(
        name, symbol, unit, meaning, bounds=POSITIVE, reference=_SHAPE, boundary="scenario"
    )


tokens = _shape("tokens", "n", "1", "rows of the activations")
width = _shape("width", "d", "1", "elements of a row")
element = _shape("element", "b", "byte", "bytes of an element")
reads = _shape("reads", "n_r", "1", "arrays of this size that are read")
writes = _shape("writes", "n_w", "1", "arrays of this size that are written")

read_size = scope.variable(
    "read_size", "S_r", "byte", "bytes read", display="MB",
    equals=reads * tokens * width * element, reference=_FUSION,
)  # fmt: skip
write_size = scope.variable(
    "write_size", "S_w", "byte", "bytes written", display="MB",
    equals=writes * tokens * width * element, reference=_FUSION,
)  # fmt: skip
time = scope.variable(
    "time", "t", "s", "time of a pass over cold activations", display="us",
    equals=gemm.constants.launch_time
    + transfer_time(read_size, gemm.constants.read_bandwidth, gemm.constants.ramp)
    + transfer_time(write_size, gemm.constants.write_bandwidth, gemm.constants.ramp),
    reference=_ROOFLINE,
)  # fmt: skip
