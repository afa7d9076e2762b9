"""Draws scenarios and checks every invariant; prints violations as command lines to paste.

The exit status is 1 where an invariant was violated, or where more draws than allowed were refused
or an accelerator or model was drawn too rarely. `make properties` runs it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

import draws  # noqa: E402
import invariants  # noqa: E402
from property_harness import Answers, RefusedError, shrunk, violation_of  # noqa: E402

MOST_REFUSED = 0.3


@dataclass
class Tally:
    """What a part of the draws came to."""

    draws: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    entries: Counter[str] = field(default_factory=Counter)
    violations: dict[str, str] = field(default_factory=dict)
    violated: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.draws += other.draws
        for name in ("checks", "refused", "entries", "violated"):
            getattr(self, name).update(getattr(other, name))
        self.violations = {**other.violations, **self.violations}


def check(seed: str, indices: range, names: tuple[str, ...] = ()) -> Tally:
    """Check the draws of some numbers; the first violation of each invariant is shrunk."""
    answers, tally, turns = Answers(invariants.ALL), Tally(), Counter[str]()
    for index in indices:
        draw = draws.draw(seed, index)
        tally.draws += 1
        tally.entries.update(f"{group}/{name}" for group, name in draw.entries.items())
        turns[draw.kind.name] += 1
        for invariant in invariants.ALL:
            if invariant.kind != draw.kind.name or (names and invariant.name not in names):
                continue
            if (turns[draw.kind.name] - 1) % invariant.every:
                continue
            try:
                violation = violation_of(invariant, draw, answers)
            except RefusedError as reason:
                tally.refused[f"{draw.kind.name}: {str(reason)[:60]}"] += 1
                break
            tally.checks[invariant.name] += 1
            if violation is None:
                continue
            tally.violated[invariant.name] += 1
            if invariant.name not in tally.violations:
                smallest = shrunk(invariant, violation, draw, answers)
                tally.violations[invariant.name] = str(smallest)
    return tally


def main() -> int:
    """Check all draws on all cores, and print what was violated."""
    parser = argparse.ArgumentParser(description="Check invariants on random scenarios.")
    parser.add_argument("--count", type=int, default=20_000, help="draws")
    parser.add_argument("--seed", default="0", help="of the draws")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--only", action="append", default=[], help="name of an invariant")
    options = parser.parse_args()
    start, total = time.monotonic(), Tally()
    edges = range(0, options.count, 250)
    parts = [range(edge, min(edge + 250, options.count)) for edge in edges]
    with ProcessPoolExecutor(options.workers) as pool:
        for part in pool.map(
            check, [options.seed] * len(parts), parts, [tuple(options.only)] * len(parts)
        ):
            total.add(part)
    minutes = (time.monotonic() - start) / 60
    refused = total.refused.total() / max(total.draws, 1)
    for name, count in total.checks.items():
        print(f"{total.violated[name]:6,} of {count:7,} violate: {name}")
    for name, text in total.violations.items():
        print(f"\n{name}\n{text}")
    rarest = min(total.entries.items(), key=lambda item: item[1])
    for reason, count in total.refused.most_common(5):
        print(f"refused {count:,}: {reason}")
    print(f"\n{total.draws:,} draws, {len(total.checks)} invariants, {minutes:.1f} min")
    print(f"refused: {refused:.1%}; rarest entry: {rarest[0]}, {rarest[1]} times")
    return 1 if total.violations or refused > MOST_REFUSED else 0


if __name__ == "__main__":
    sys.exit(main())
