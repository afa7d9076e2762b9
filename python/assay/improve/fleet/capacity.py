"""The capacity guard: the service levels must hold with as many replicas out as restarts take out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from assay.improve.fleet.protocol import Fleet, ReplicaRefusedError, Sample
from assay.improve.fleet.settings import PromotionSettings


def replicas_out(
    fleet: Fleet,
    settings: PromotionSettings,
    wanted: int,
    record: Callable[[int, Mapping[str, Sample]], None],
) -> int:
    """How many replicas may be out at once: the most, up to `wanted`, that the SLO bears.

    With k of n out, each of the others has n/(n - k) of its load. That load is put on every replica
    for a window, and the share of requests within the service levels is counted. Raises
    `ReplicaRefusedError` where not even one may be out.
    """
    count = len(fleet.names)
    held = 0.0
    for out in range(min(wanted, count - 1), 0, -1):
        samples = fleet.measure(fleet.names, count / (count - out))
        record(out, samples)
        requests = sum(sample.requests for sample in samples.values())
        held = sum(sample.held for sample in samples.values()) / max(requests, 1)
        if held >= settings.slo_share:
            return out
    raise ReplicaRefusedError(
        f"capacity: expected {settings.slo_share:.1%} of requests within the SLO with one of {count} "
        f"replicas out, got {held:.1%}",
        "nothing was changed; add replicas, lower the rate, or state a looser --slo",
    )
