"""Promotions of a change that does nothing, and of changes that help: how many are promoted.

`make fleet`, or `python tests/improve/fleet/simulate_promotions.py --promotions 10000`. Prints a line
for each gain, and for watches after promotion; exits with 1 where more than 5 % of the changes that
do nothing are promoted or of the watches of equal settings are taken back.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from simulated_fleet import Noise, SimulatedFleet
from simulated_watch import alarms

from assay.improve.fleet.promotion import StagedPromotion
from assay.improve.fleet.settings import PromotionSettings

MOST_FALSE = 0.05


def outcomes(
    promotions: int, gain: float, replicas: int = 8, noise: Noise | None = None
) -> Counter[str]:
    """Verdicts of so many promotions over correlated replicas."""
    verdicts: Counter[str] = Counter()
    for number in range(promotions):
        fleet = SimulatedFleet((number, gain, replicas), replicas, gain, noise)
        promotion = StagedPromotion(fleet, PromotionSettings(seed=number))
        promotion.baseline()
        verdict = promotion.run().verdict
        assert set(fleet.changed.values()) == {verdict == "promoted"} == {fleet.kept}
        verdicts[verdict] += 1
    return verdicts


def _watch(count: int) -> float:
    """Watches of a gain of nothing in noise of 1 % that lasts, and of gains that turn into losses.

    The largest share that was taken back without reason.
    """
    most = 0.0
    for correlation, before in ((0.0, 0), (0.5, 0), (0.8, 0), (0.8, 24), (0.9, 24)):
        seen = alarms(count, 0.0, correlation=correlation, windows=100, before=before)
        most = max(most, len(seen) / count)
        print(
            f"watch, no gain, correlation {correlation}, {before} windows before: "
            f"{len(seen) / count:.2%} taken back",
            flush=True,
        )
    for later in (-0.02, -0.05):
        seen = alarms(count // 4, 0.05, later, windows=200, turns_at=50)
        delay = sorted(seen)[len(seen) // 2] - 49
        share = len(seen) / (count // 4)
        print(f"watch, gain +5% then {later:+.0%}: {share:.1%} taken back, median {delay} windows")
    return most


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--promotions", type=int, default=10_000)
    parser.add_argument("--with-gain", type=int, default=500, help="promotions for each gain")
    parser.add_argument("--watches", type=int, default=1000, help="watches of each kind")
    options = parser.parse_args()
    begun = time.monotonic()
    false = 0.0
    for gain, count in ((0.0, options.promotions), (0.02, options.with_gain), (0.05, options.with_gain),
                        (-0.05, options.with_gain)):  # fmt: skip
        verdicts = outcomes(count, gain)
        shares = ", ".join(
            f"{name} {verdicts[name] / count:.2%}"
            for name in ("promoted", "undecided", "regressed")
        )
        print(f"gain {gain:+.0%}: {count:,} promotions over 8 replicas: {shares}", flush=True)
        false = max(false, verdicts["promoted"] / count if gain <= 0.0 else 0.0)
    false = max(false, _watch(options.watches))
    print(f"{time.monotonic() - begun:.0f} s")
    return int(false > MOST_FALSE)


if __name__ == "__main__":
    sys.exit(main())
