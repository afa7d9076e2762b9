"""Memory-bound elementwise passes: norms, activations, RoPE, casts, copies."""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import Expression, Scope, Variable, cited, number
from assay.stack import works
from assay.stack.fits import approximate
from assay.stack.kernels import device, fitted
from assay.stack.kernels.combine import cold_share, declare_interval

scope = Scope("kernels.passes", "Passes over activations")

_FUSION = cited(works.DATA_MOVEMENT)
MOST_BYTES = number("1.6e10 byte")
"""Bytes of one kernel up to which the form is used: twice the largest in the tables."""

launch_time = fitted.constant(scope, "launch_time, t_0 [s as us]: time of an empty kernel in a CUDA graph", (0, None))
share = fitted.constant(scope, "share, r: achieved memory bandwidth, over the data sheet's", fitted.EFFICIENCY)
cached_share = fitted.constant(scope, "cached_share, r_c: L2 bandwidth over memory bandwidth")
reach_share = fitted.constant(scope, "reach_share, r_h: bytes that stay in L2, over its capacity")
spread = fitted.spread(scope)


@dataclass(frozen=True)
class Pass:
    """The variables of one declared pass."""

    size: Variable
    time: Variable


def declare(
    into: Scope,
    prefix: str,
    size: Expression,
    kernels: Expression | int = 1,
    *,
    what: str = "a pass",
    library: bool = False,
) -> Pass:
    """Declare bytes and time of passes that read and write `size` bytes in so many kernels."""
    moved = into.declare(
        f"{prefix}size, S [byte as MB]: bytes read and written in {what}",
        equals=size,
        reference=_FUSION,
        library=library,
    )
    # A kernel reads what the previous one wrote, from L2 where it fits.
    cold = cold_share(moved / kernels, reach_share * device.cache_capacity)
    per_byte = (cold / share + (1 - cold) / cached_share) / device.memory_bandwidth
    time = approximate(
        into,
        f"{prefix}time, t [s as us]: time of {what}",
        kernels * launch_time + moved * per_byte,
        valid=moved <= kernels * MOST_BYTES,
        reference=fitted.FITTED,
        library=library,
    )
    return Pass(moved, time)


moved = fitted.free(scope, "moved, x [byte]: bytes of arrays read and written, each once")
standalone = declare(scope, "", moved, library=True)
"""One pass over any number of bytes."""
declare_interval(scope, standalone.time, spread)
