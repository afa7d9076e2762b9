"""The roofline of one kernel: no fitted constant can make it faster than this."""

from __future__ import annotations

from assay.model import Expression, Scope, Variable, cited, maximum
from assay.stack import works
from assay.stack.kernels import device

_ROOFLINE = cited(works.ROOFLINE, "The Roofline Model")


def declare(
    into: Scope,
    prefix: str,
    *,
    read: Expression,
    flops: Expression,
    multiple: Expression | int,
    what: str,
    library: bool = False,
) -> Variable:
    """Declare the time of bytes from memory at its bandwidth, or of FLOPs at the peak if longer.

    `read` counts only bytes that must come from memory, not those the L2 cache may hold;
    `multiple` is the peak of the operands' format over that of 16 bits.
    """
    return into.declare(
        f"{prefix}floor_time, t_min [s as us]: roofline of {what}: its least possible time",
        equals=maximum(read / device.memory_bandwidth, flops / (multiple * device.peak_flops)),
        reference=_ROOFLINE,
        library=library,
    )
