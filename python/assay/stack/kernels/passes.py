"""Passes over activations that only move bytes: norms, activations, rotations, casts, copies."""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import Expression, Scope, Variable, cited
from assay.stack.kernels import device, fitted
from assay.stack.kernels.combine import transfer_time

scope = Scope("kernels.passes", "Passes over activations")

_FUSION = cited(
    "Ivanov et al. 2021, Data movement is all you need: a case study on optimizing transformers"
)
_ROOFLINE = cited(
    "Williams, Waterman and Patterson 2009, Roofline: an insightful visual performance model "
    "for multicore architectures"
)

launch_time = fitted.constant(
    scope, "launch_time", "t_0", "s", "us", "time of an empty kernel in a graph", (0, None)
)
share = fitted.constant(
    scope, "share", "r", "1", "1", "rate of reading and writing, over the data sheet's"
)
ramp = fitted.constant(
    scope, "ramp", "x_0", "byte", "kB", "size at which a pass reaches half its rate", (0, None)
)


@dataclass(frozen=True)
class Pass:
    """The variables of one declared pass."""

    size: Variable
    time: Variable


def declare(
    into: Scope, prefix: str, size: Expression, kernels: Expression | int = 1, *,
    what: str = "a pass",
) -> Pass:  # fmt: skip
    """Declare bytes and time of passes that read and write `size` bytes in so many kernels."""
    moved = into.variable(
        f"{prefix}size", "S", "byte", f"bytes read and written in {what}", display="MB",
        equals=size, reference=_FUSION,
    )  # fmt: skip
    time = into.variable(
        f"{prefix}time", "t", "s", f"time of {what}", display="us",
        equals=kernels * launch_time
        + transfer_time(moved, share * device.memory_bandwidth, kernels * ramp),
        reference=_ROOFLINE,
    )  # fmt: skip
    return Pass(moved, time)
