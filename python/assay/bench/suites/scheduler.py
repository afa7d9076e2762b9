"""The scheduler: reserved bandwidth, weighted shares, and decisions per second.

On a virtual clock, where every run is the same; and on a GPU, with tenants that run kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from assay import _native
from assay.bench.harness.case import Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.suites.tenants import GuaranteedSteps, WeightedTenants
from assay.runtime.hardware import Device

Load = tuple[str, int, int, int, int]
"""QoS class, weight, reserved units per second, units per grant, grants requested at once."""

UNITS_PER_SECOND: Final = 1_000_000_000
VIRTUAL_NS: Final = 1_000_000_000
RESERVED: Final = UNITS_PER_SECOND // 2
GUARANTEED: Final[Load] = ("guaranteed", 1, RESERVED, 100_000, 4)
FLOOD: Final[tuple[Load, ...]] = tuple(
    ("best-effort", 100, 0, units, 64) for units in (1_000, 10_000, 100_000, 1_000_000)
)
WEIGHTS: Final = (1, 2, 4, 8)
GRANT_UNITS: Final = (10_000, 30_000, 100_000, 300_000)
BACKLOG: Final = 2_000_000
"""Units that a task requests at once: more than others use before its next grant."""


def _weighted_tasks(weights: Sequence[int]) -> list[Load]:
    """Saturating tasks with grants of different sizes."""
    return [
        ("burstable", weight, 0, units, BACKLOG // units)
        for weight, units in zip(weights, GRANT_UNITS, strict=True)
    ]


TENANTS: Final = (7, 3)
"""Weights of two tenants that both saturate the GPU."""

PASS_BYTES: Final = (128 << 20, 256 << 20)
"""Bytes of a pass of each: kernels of different lengths, all larger than the cache."""

SHARE_TOLERANCE: Final = 0.05
"""Allowed deviation of a share of GPU time from its weight."""

STEP_PASSES: Final = 24
"""Passes of a step; together about as long as decoding one token of an 8B model."""

STEP_NS: Final = 3_000_000
WINDOW_NS: Final = 130_000
"""In-flight work beside a guaranteed tenant: one pass, which a step may have to wait for."""


def cases(settings: Settings) -> list[Case]:
    """Tenants on a GPU, or the scheduler alone in virtual time."""
    if settings.device.capabilities.is_gpu:
        return _tenants(settings.device, settings.quick)
    return _virtual(settings)


def _virtual(settings: Settings) -> list[Case]:
    """All tasks on one lane of a gigabyte per second."""
    virtual_ns = VIRTUAL_NS // 10 if settings.quick else VIRTUAL_NS
    contended = [GUARANTEED, *FLOOD]
    return [
        Case(
            "reserved bandwidth kept beside floods",
            "%",
            lambda: _virtual_case(contended, virtual_ns, _reserved_share),
        ),
        *(
            Case(
                f"smallest share over its weight, {':'.join(map(str, weights))}",
                "%",
                functools.partial(
                    _virtual_case,
                    _weighted_tasks(weights),
                    virtual_ns,
                    functools.partial(_fairness, weights),
                ),
            )
            for weights in (WEIGHTS, (1, 1, 1, 1))
        ),
        Case(
            "longest wait beside a guaranteed task",
            "ms",
            lambda: _virtual_case(contended, virtual_ns, _wait),
        ),
        Case("decisions", "k decisions/s", lambda: _decisions(contended, virtual_ns)),
    ]


def _run(loads: Sequence[Load], virtual_ns: int) -> dict[str, Any]:
    return _native.measure_scheduler(
        loads, units_per_second=UNITS_PER_SECOND, virtual_ns=virtual_ns
    )


def _seconds(virtual_ns: int) -> float:
    return virtual_ns * 1e-9


def _reserved_share(outcome: dict[str, Any], virtual_ns: int) -> float:
    return float(outcome["units"][0] / (RESERVED * _seconds(virtual_ns)))


def _fairness(weights: Sequence[int], outcome: dict[str, Any], virtual_ns: int) -> float:
    total = sum(outcome["units"])
    shares = zip(outcome["units"], weights, strict=True)
    return float(min(units / total / (weight / sum(weights)) for units, weight in shares))


def _wait(outcome: dict[str, Any], virtual_ns: int) -> float:
    return float(max(outcome["longest_wait_ns"]) * 1e-9)


def _virtual_case(
    loads: Sequence[Load], virtual_ns: int, figure: Callable[[dict[str, Any], int], float]
) -> PreparedCase:
    return PreparedCase(
        Subject("assay", lambda _: figure(_run(loads, virtual_ns), virtual_ns), SelfTimedClock()),
        _conserving(loads, virtual_ns),
        note="virtual time: the same on every run",
    )


def _conserving(loads: Sequence[Load], virtual_ns: int) -> Check:
    """Saturating tasks use all of the lane, and two runs are identical."""

    def error(_: int) -> float:
        first, second = _run(loads, virtual_ns), _run(loads, virtual_ns)
        if first["units"] != second["units"]:
            return float("nan")
        capacity = UNITS_PER_SECOND * _seconds(virtual_ns)
        return float(abs(sum(first["units"]) - capacity) / capacity)

    return Check("the lane's capacity", error, 0.02)


def _decisions(loads: Sequence[Load], virtual_ns: int) -> PreparedCase:
    count = _run(loads, virtual_ns)["decisions"]

    def call(_: int) -> float:
        return float(_run(loads, virtual_ns)["elapsed_ns"]) * 1e-9

    return PreparedCase(
        Subject("assay", call, SelfTimedClock(), count),
        _conserving(loads, virtual_ns),
        note="one core; every decision writes a record",
    )


def _tenants(device: Device, quick: bool) -> list[Case]:
    """Two weighted tenants, and a guaranteed one beside a saturating one."""
    heavy, light = TENANTS
    return [
        Case(
            f"GPU time of weight {heavy} beside {light}",
            "%",
            lambda: _shared(device, 0.05 if quick else 0.25),
        ),
        *(
            Case(
                f"p99 step of a guaranteed tenant, {how}, {pace}",
                "ms",
                functools.partial(
                    _guaranteed,
                    device,
                    as_graph=how == "graphs",
                    pause=pause,
                    reserved=reserved,
                    steps=20 if quick else 40,
                ),
            )
            for how in ("graphs", "launches")
            for pace, pause, reserved in (("at a pace", 2e-3, 0.6), ("without rest", 0.0, 0.95))
        ),
    ]


def _shared(device: Device, seconds: float) -> PreparedCase:
    tenants = WeightedTenants(device, TENANTS, PASS_BYTES)
    return PreparedCase(
        Subject("assay", lambda _: tenants.shares(seconds)[0][0], SelfTimedClock()),
        Check(
            "counted passes, and weights to 5 points",
            lambda _: tenants.error(seconds),
            SHARE_TOLERANCE,
        ),
        note="device time by events around each kernel",
    )


def _guaranteed(
    device: Device, *, as_graph: bool, pause: float, reserved: float, steps: int
) -> PreparedCase:
    steps_under_load = GuaranteedSteps(
        device,
        passes=STEP_PASSES,
        nbytes=PASS_BYTES[0],
        step_ns=STEP_NS,
        as_graph=as_graph,
        reserved=reserved,
        window_ns=WINDOW_NS,
    )

    def p99(flooded: bool) -> float:
        return float(np.quantile(steps_under_load.times(steps, flooded=flooded, pause=pause), 0.99))

    return PreparedCase(
        Subject("beside a flood", lambda _: p99(True), SelfTimedClock()),
        Check("counted passes", lambda _: steps_under_load.count_error(), 0.0),
        ceiling=Subject("alone", lambda _: p99(False), SelfTimedClock()),
        note=f"{reserved:.0%} of the GPU reserved",
    )


SUITE = Suite("scheduler", cases)
