"""Kernels take at least their floor, and at most the upper end of the roofline's interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.diagnose.mechanisms.classes import GEMMS
from assay.diagnose.residuals import Residuals
from assay.diagnose.violation import Invariant, Violation
from assay.lazy_import import pl
from assay.observe.operations import STEP_OPERATIONS, parts

NAME = "kernel time"
ROWS = 20


def check(residuals: Residuals) -> list[Violation]:
    """Compare each operation, over its layers and in each, with its interval."""
    table = residuals.operations.filter(pl.col("expected_ns").is_not_null())
    if not table.height:
        return [
            Violation(NAME, "not measured", "all operations", None, None, None, "ns",
                      reason="the prediction has no node for the operations of the trace")
        ]  # fmt: skip
    violations = []
    for (phase, operation), part in table.group_by("phase", "operation", maintain_order=True):
        if not _is_shared_out(str(phase), str(operation)):
            violations += _operation(residuals, str(phase), str(operation), part)
    return sorted(violations, key=lambda violation: -_excess(violation))


def _is_shared_out(phase: str, operation: str) -> bool:
    """Whether a prediction shares out a total among the kernels outside of layers, this one too.

    It is that of a decode step: of many prompt tokens, a final norm takes many times its share.
    """
    return phase != "decode" and all(
        part in STEP_OPERATIONS and part not in GEMMS for part in parts(operation)
    )


def _operation(
    residuals: Residuals, phase: str, operation: str, layers: pl.DataFrame
) -> list[Violation]:
    outside = layers.filter(
        (pl.col("kernel_ns") > pl.col("hi_ns")) | (pl.col("kernel_ns") < pl.col("floor_ns"))
    )
    if not outside.height:
        return []
    # One finding for an operation that is outside in most layers.
    if 2 * outside.height > layers.height:
        return [_violation(residuals, phase, operation, layers.height, outside)]
    # One in ten of all nodes is outside a 90 % interval: a layer must also differ from the others.
    usual = float(np.median(layers["kernel_ns"].to_numpy()))
    odd = outside.filter(
        (pl.col("kernel_ns") > usual * pl.col("hi_ns") / pl.col("expected_ns"))
        | (pl.col("kernel_ns") < usual * pl.col("lo_ns") / pl.col("expected_ns"))
    )
    return [
        _violation(residuals, phase, operation, layers.height, kernels)
        for kernels in odd.partition_by("layer")
    ]


def _violation(
    residuals: Residuals, phase: str, operation: str, count: int, outside: pl.DataFrame
) -> Violation:
    sums: dict[str, Any] = outside.select(
        pl.col("kernel_ns", "floor_ns", "lo_ns", "hi_ns", "expected_ns").sum()
    ).row(0, named=True)
    where = operation if phase == "decode" else f"{operation} in {phase}"
    if count > 1 and outside.height == 1:
        where += f", layer {outside['layer'][0]}"
    elif count > 1:
        where += f", {outside.height} of {count} layers"
    if sums["kernel_ns"] < sums["floor_ns"]:
        reason = "faster than its floor: the bytes, FLOPs or ceilings of the prediction are wrong"
    else:
        reason = f"{sums['kernel_ns'] / sums['expected_ns']:.2f} times the expected time"
    return Violation(
        NAME, "violated", where, sums["kernel_ns"], sums["floor_ns"], sums["hi_ns"], "ns",
        _longest(residuals, phase, operation, outside), reason,
    )  # fmt: skip


def _longest(
    residuals: Residuals, phase: str, operation: str, outside: pl.DataFrame
) -> tuple[int, ...]:
    rows = residuals.kernels.filter(
        (pl.col("phase") == phase)
        & (pl.col("operation") == operation)
        & pl.col("layer").fill_null(-1).is_in(outside["layer"].fill_null(-1).implode())
    )
    return tuple(rows.top_k(ROWS, by="dur_ns")["row"].to_list())


def _excess(violation: Violation) -> float:
    return (violation.observed or 0.0) - (violation.hi or 0.0)


def smallest_detectable(residuals: Residuals) -> pl.DataFrame:
    """The slowdown of each operation that this invariant would find, against the prediction alone.

    One row an operation and phase: `of_expected` is how much slower than expected it must become,
    `of_observed` how much slower than it is now (0 where it is outside already); both relative.
    """
    known = residuals.operations.filter(pl.col("expected_ns").is_not_null())
    sums = known.group_by("phase", "operation", maintain_order=True).agg(
        pl.col("kernel_ns", "expected_ns", "hi_ns").sum()
    )
    return sums.select(
        "phase",
        "operation",
        of_expected=pl.col("hi_ns") / pl.col("expected_ns") - 1,
        of_observed=(pl.col("hi_ns") / pl.col("kernel_ns") - 1).clip(0),
    )


KERNEL_TIME = Invariant(
    NAME, "every operation takes at least its floor and at most the roofline's upper end", check
)
