"""The scheduler: promises kept, shares, and how fast it decides.

On the virtual clock, where every run is the same; and on a GPU, among tenants that really compute.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from assay import _native
from assay.bench.harness.case import Case, Check, Contestant, Settings, Suite, Trial
from assay.bench.harness.clocks import ToldClock
from assay.bench.suites.tenants import Sharing, Steps
from assay.runtime.hardware import Device

Load = tuple[str, int, int, int, int]
"""Class, weight, reserved units a second, units of a turn, turns asked for at once."""

UNITS_PER_SECOND: Final = 1_000_000_000
VIRTUAL_NS: Final = 1_000_000_000
RESERVED: Final = UNITS_PER_SECOND // 2
GUARANTEED: Final[Load] = ("guaranteed", 1, RESERVED, 100_000, 4)
FLOOD: Final[tuple[Load, ...]] = tuple(
    ("best-effort", 100, 0, units, 64) for units in (1_000, 10_000, 100_000, 1_000_000)
)
WEIGHTS: Final = (1, 2, 4, 8)
TURNS: Final = (10_000, 30_000, 100_000, 300_000)
BACKLOG: Final = 2_000_000
"""Units that a task asks for at once: more than others take before its next turn."""


def _sharers(weights: Sequence[int]) -> list[Load]:
    """Tasks that always want more, in turns of different sizes."""
    return [
        ("burstable", weight, 0, units, BACKLOG // units)
        for weight, units in zip(weights, TURNS, strict=True)
    ]


TENANTS: Final = (7, 3)
"""Weights of two tenants that both want the whole GPU."""

PASS_BYTES: Final = (128 << 20, 256 << 20)
"""What a pass of each goes over: kernels of different lengths, all beyond any cache."""

POINTS: Final = 0.05
"""How far a share of GPU time may be from its weight's."""

STEP_PASSES: Final = 24
"""Passes of a step, which takes about as long as decoding one token of an 8B model."""

STEP_NS: Final = 3_000_000
WINDOW_NS: Final = 130_000
"""Work under way at once beside a guaranteed tenant: one pass, so that is what a step waits for."""


def cases(settings: Settings) -> list[Case]:
    """What the device can show: on a GPU with real work, otherwise in virtual time."""
    if settings.device.capabilities.is_gpu:
        return _tenants(settings.device, settings.quick)
    return _virtual(settings)


def _virtual(settings: Settings) -> list[Case]:
    """All on one lane of a gigabyte a second."""
    virtual_ns = VIRTUAL_NS // 10 if settings.quick else VIRTUAL_NS
    crowd = [GUARANTEED, *FLOOD]
    return [
        Case(
            "reserved bandwidth kept beside floods",
            "%",
            lambda: _told(crowd, virtual_ns, _kept),
        ),
        *(
            Case(
                f"smallest share over its weight, {':'.join(map(str, weights))}",
                "%",
                functools.partial(
                    _told, _sharers(weights), virtual_ns, functools.partial(_fairness, weights)
                ),
            )
            for weights in (WEIGHTS, (1, 1, 1, 1))
        ),
        Case(
            "longest wait beside a guaranteed task", "ms", lambda: _told(crowd, virtual_ns, _wait)
        ),
        Case("decisions", "k decisions/s", lambda: _decisions(crowd, virtual_ns)),
    ]


def _run(loads: Sequence[Load], virtual_ns: int) -> dict[str, Any]:
    return _native.measure_scheduler(
        loads, units_per_second=UNITS_PER_SECOND, virtual_ns=virtual_ns
    )


def _seconds(virtual_ns: int) -> float:
    return virtual_ns * 1e-9


def _kept(found: dict[str, Any], virtual_ns: int) -> float:
    return float(found["units"][0] / (RESERVED * _seconds(virtual_ns)))


def _fairness(weights: Sequence[int], found: dict[str, Any], virtual_ns: int) -> float:
    total = sum(found["units"])
    shares = zip(found["units"], weights, strict=True)
    return float(min(units / total / (weight / sum(weights)) for units, weight in shares))


def _wait(found: dict[str, Any], virtual_ns: int) -> float:
    return float(max(found["longest_wait_ns"]) * 1e-9)


def _told(
    loads: Sequence[Load], virtual_ns: int, figure: Callable[[dict[str, Any], int], float]
) -> Trial:
    return Trial(
        Contestant("assay", lambda _: figure(_run(loads, virtual_ns), virtual_ns), ToldClock()),
        _conserving(loads, virtual_ns),
        note="virtual time: the same on every run",
    )


def _conserving(loads: Sequence[Load], virtual_ns: int) -> Check:
    """Tasks that always want turns use all of the lane, and two runs give the same."""

    def error(_: int) -> float:
        first, second = _run(loads, virtual_ns), _run(loads, virtual_ns)
        if first["units"] != second["units"]:
            return float("nan")
        capacity = UNITS_PER_SECOND * _seconds(virtual_ns)
        return float(abs(sum(first["units"]) - capacity) / capacity)

    return Check("the lane's capacity", error, 0.02)


def _decisions(loads: Sequence[Load], virtual_ns: int) -> Trial:
    count = _run(loads, virtual_ns)["decisions"]

    def call(_: int) -> float:
        return float(_run(loads, virtual_ns)["elapsed_ns"]) * 1e-9

    return Trial(
        Contestant("assay", call, ToldClock(), count),
        _conserving(loads, virtual_ns),
        note="one core; every decision leaves a record",
    )


def _tenants(device: Device, quick: bool) -> list[Case]:
    """Two tenants by weight, and a guaranteed one beside a flood."""
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


def _shared(device: Device, seconds: float) -> Trial:
    sharing = Sharing(device, TENANTS, PASS_BYTES)
    return Trial(
        Contestant("assay", lambda _: sharing.shares(seconds)[0][0], ToldClock()),
        Check("counted passes, and weights to 5 points", lambda _: sharing.error(seconds), POINTS),
        note="device time by events around each kernel",
    )


def _guaranteed(
    device: Device, *, as_graph: bool, pause: float, reserved: float, steps: int
) -> Trial:
    contest = Steps(
        device,
        passes=STEP_PASSES,
        nbytes=PASS_BYTES[0],
        step_ns=STEP_NS,
        as_graph=as_graph,
        reserved=reserved,
        window_ns=WINDOW_NS,
    )

    def last(flooded: bool) -> float:
        return float(np.quantile(contest.times(steps, flooded=flooded, pause=pause), 0.99))

    return Trial(
        Contestant("beside a flood", lambda _: last(True), ToldClock()),
        Check("counted passes", lambda _: contest.miscounted(), 0.0),
        ceiling=Contestant("alone", lambda _: last(False), ToldClock()),
        note=f"{reserved:.0%} of the GPU reserved",
    )


SUITE = Suite(
    "scheduler",
    "promises, shares and decisions of the scheduler; on a GPU, tenants that share it",
    cases,
)
