"""The guard of a fleet after promotion: all replicas have the change, and go back on a regression."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from assay.errors import AssayError
from assay.improve.experiments.watching import PromotionWatch
from assay.improve.fleet.guards import OBJECTIVE
from assay.improve.fleet.promotion import StagedPromotion
from assay.improve.fleet.protocol import Sample


@dataclass(frozen=True, slots=True)
class WatchedFleet:
    """What the guard saw."""

    windows: int
    reason: str = ""
    """Why all replicas were brought back; empty where they were not."""
    problems: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """In words."""
        seen = f"brought back: {self.reason}" if self.reason else "no regression was seen"
        return f"watched for {self.windows} windows after promotion: {seen}"


def watch_fleet(promotion: StagedPromotion, seconds: float) -> WatchedFleet:
    """Measure all replicas window by window, until the time is over, Ctrl-C, or a regression.

    The figure of a window is the mean over replicas of the ratio to their own baselines: what hits the
    whole fleet is told from the change by nobody any more, and is taken for a regression too. A
    replica that is lost brings the others back.
    """
    comparison, fleet = promotion.comparison, promotion.fleet
    assert comparison is not None
    spread = comparison.spreads[OBJECTIVE] / math.sqrt(len(fleet.names))
    guard = PromotionWatch.of(
        margin=2.0 * spread, least_sd=spread, allowed=1.0 - promotion.settings.slo_share
    )
    begun, windows, reason = promotion.clock(), 0, ""
    try:
        while not reason and promotion.clock() - begun < seconds:
            samples = fleet.measure(fleet.names)
            windows += 1
            ratio = promotion.against_baseline(samples)
            bad = _bad_share(samples)
            promotion.record("watch", {"window": windows, "ratio": ratio, "bad_share": bad})
            reason = guard.add(ratio if math.isfinite(ratio) else None, bad)
            promotion.say(f"window {windows}: {math.expm1(ratio):+.1%} to the start")
    except KeyboardInterrupt:
        promotion.say("the watch is over")
    except AssayError as error:
        reason = error.message
    if not reason:
        return WatchedFleet(windows)
    promotion.say(f"going back: {reason}")
    return WatchedFleet(windows, reason, tuple(fleet.revert(reason)))


def _bad_share(samples: Mapping[str, Sample]) -> float:
    """Requests that failed or missed the service levels."""
    requests = sum(sample.requests for sample in samples.values())
    held = sum(sample.held for sample in samples.values())
    return 1.0 - held / requests if requests else 1.0
