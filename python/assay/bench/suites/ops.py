"""Passes over activations: elementwise operations, reductions, norms, and what models are made of.

Inputs are used again and again, as activations are: small ones come from the cache. The ceiling
is copying as many bytes, or for reductions reading them, in the same rounds.
"""

from __future__ import annotations

import functools
from typing import Final

from assay.bench import counting, rivals, yardsticks
from assay.bench.case import Case, Contestant, Settings, Size, Suite, Trial
from assay.bench.clocks import DeviceClock
from assay.bench.suites import array_ops, neural_ops
from assay.bench.suites.operation import Operation, Place
from assay.bench.text import shape_text

OPERATIONS: Final[tuple[Operation, ...]] = (*array_ops.OPERATIONS, *neural_ops.OPERATIONS)
DTYPES: Final = tuple(dict.fromkeys(name for one in OPERATIONS for name in one.dtypes))
SIZES: Final[tuple[Size, ...]] = ((1, 4096), (1024, 4096))
QUICK_SIZES: Final[tuple[Size, ...]] = ((4, 256),)


def cases(settings: Settings) -> list[Case]:
    """Every operation in every type it takes, at every size."""
    sizes = settings.sizes or (QUICK_SIZES if settings.quick else SIZES)
    wanted = settings.dtypes or DTYPES
    return [
        Case(
            f"{operation.name} {dtype} {shape_text(size)}",
            "GB/s",
            functools.partial(_prepare, operation, Place(settings.device, dtype, *size)),
            {
                "operation": operation.name,
                "dtype": dtype,
                "rows": size[0],
                "columns": size[1],
            },
        )
        for operation in OPERATIONS
        for dtype in operation.dtypes
        if dtype in wanted
        for size in sizes
    ]


def _prepare(operation: Operation, place: Place) -> Trial:
    work = operation.make(place)
    counted = counting.count(place.device, work.call)
    yardstick = yardsticks.read if operation.reads_only else yardsticks.copy
    in_numpy = work.in_numpy
    return Trial(
        Contestant("assay", work.call, DeviceClock(place.device), counted.bytes),
        work.check,
        ceiling=yardstick(place.device, int(counted.bytes)),
        rivals=[
            in_numpy if not callable(in_numpy) else rivals.numpy(in_numpy, counted.bytes),
            rivals.torch(place.device, work.in_torch, counted.bytes),
        ],
        bytes=counted.bytes,
        flops=counted.flops,
        working_set_bytes=int(counted.bytes),
    )


SUITE = Suite(
    "ops",
    "passes over activations: elementwise, reductions, norms and the parts of models",
    cases,
    dtypes=DTYPES,
    axes=(2,),
    size_meaning="ROWSxCOLUMNS",
)
