"""Products of experts: which weights a batch touches, FLOPs, bytes and the floor on time."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Variable, by_definition, cited, maximum, number
from assay.stack.kernels import device, gemm

scope = Scope("kernels.moe", "Products of experts")

_SWITCH = cited(
    "Fedus, Zoph and Shazeer 2022, Switch transformers: scaling to trillion parameter models"
)
_OCCUPANCY = cited(
    "Feller 1968, An introduction to probability theory and its applications, vol. 1, 3rd edition",
    "ch. IV on occupancy",
)
_ROOFLINE = cited(
    "Williams, Waterman and Patterson 2009, Roofline: an insightful visual performance model "
    "for multicore architectures"
)
_SHAPE = by_definition("shape of the operation")


def _shape(name: str, symbol: str, unit: str, meaning: str) -> Variable:
    return scope.variable(
        name, symbol, unit, meaning, bounds=POSITIVE, reference=_SHAPE, boundary="scenario"
    )


tokens = _shape("tokens", "n", "1", "tokens of the batch")
experts = _shape("experts", "E", "1", "experts whose weights lie on the GPU")
chosen = _shape("chosen", "k", "1", "experts that a token is sent to")
columns = _shape("columns", "n_c", "1", "features out of one expert's product")
depth = _shape("depth", "n_k", "1", "features into one expert's product")
weight_element = _shape("weight_element", "b_W", "byte", "bytes of a weight")
activation_element = _shape("activation_element", "b_A", "byte", "bytes of an activation")

touched = scope.variable(
    "touched", "E_t", "1", "experts that at least one token is sent to, on even routing",
    equals=experts * (1 - (1 - chosen / experts) ** tokens), reference=_OCCUPANCY,
)  # fmt: skip
flops = scope.variable(
    "flops", "F", "FLOP", "floating-point operations of one product of all experts",
    display="GFLOP", equals=number("2 FLOP") * tokens * chosen * columns * depth,
    reference=_SWITCH,
)  # fmt: skip
weight_size = scope.variable(
    "weight_size", "S_W", "byte", "bytes of the touched experts' weights", display="MB",
    equals=touched * columns * depth * weight_element, reference=_SWITCH,
)  # fmt: skip
activation_size = scope.variable(
    "activation_size", "S_A", "byte", "bytes of activations in and out", display="MB",
    equals=tokens * chosen * (columns + depth) * activation_element, reference=_SWITCH,
)  # fmt: skip
floor_time = scope.variable(
    "floor_time", "t_min", "s", "least time: operations under the power limit, or bytes",
    display="us",
    equals=maximum(
        flops / (gemm.constants.sustained_rate * device.multiprocessors),
        (weight_size + activation_size) / gemm.constants.read_bandwidth,
    ),
    reference=_ROOFLINE,
)  # fmt: skip
