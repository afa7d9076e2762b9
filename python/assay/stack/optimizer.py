"""Optimizer state per weight, and the memory traffic of an update."""

from __future__ import annotations

from assay.model import Reference, Scope, Variable, cited
from assay.stack import works

scope = Scope("optimizer", "States of the optimizer")

_MIXED = cited("Micikevicius et al. 2018, Mixed Precision Training", "sec. 3.1")
_ADAM = cited("Kingma and Ba 2015, Adam: A Method for Stochastic Optimization", "algorithm 1")
_ZERO = cited(works.ZERO, "sec. 3.1")
_MUON = cited("Jordan et al. 2024, Muon: An optimizer for hidden layers in neural networks", "runtime analysis")


def _size(heading: str, reference: Reference) -> Variable:
    return scope.declare(heading, reference=reference, boundary="scenario", family="optimizer")


weight_bytes = _size("weight_bytes, b_w [byte]: bytes of a compute weight", _MIXED)
gradient_bytes = _size("gradient_bytes, b_g [byte]: bytes of an accumulated gradient", _MIXED)
master_bytes = _size("master_bytes, b_m [byte]: bytes of a master weight", _MIXED)
moment_bytes = _size("moment_bytes, b_v [byte]: bytes of one optimizer moment", _ADAM)
moments = scope.declare(
    "moments, n_v: moments per weight: 2 for Adam, 1 for SGD with momentum",
    reference=_ADAM,
    boundary="scenario",
    family="optimizer",
)
state_bytes = scope.declare(
    "state_bytes, K [byte]: bytes of a weight's optimizer state",
    equals=master_bytes + moments * moment_bytes,
    reference=_ZERO,
)
update_bytes = scope.declare(
    "update_bytes, b_u [byte]: bytes that the update of one weight reads and writes",
    equals=gradient_bytes + 2 * state_bytes + weight_bytes,
    reference=_ADAM,
)
clearing_bytes = scope.declare(
    "clearing_bytes, b_0 [byte]: bytes written for a weight in use after the update: the weight, and its "
    "gradient cleared",
    equals=gradient_bytes + weight_bytes,
    reference=_MIXED,
)
orthogonalization_steps = scope.declare(
    "orthogonalization_steps, n_NS: Newton-Schulz iterations that make an update orthogonal",
    reference=_MUON,
    boundary="scenario",
    family="optimizer",
)
