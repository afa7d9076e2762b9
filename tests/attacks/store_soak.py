"""A store in a folder and one in a bucket under faults for a time, in turn; ends at the first thing lost.

python tests/attacks/store_soak.py --seconds 7200
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "store"), str(ROOT / "python")]

import fault_worker  # noqa: E402
from fault_campaign import Campaign  # noqa: E402
from s3_server import environment, s3_server  # noqa: E402

ROUND = 50
"""Faults between two words."""


def soak(seconds: float, seed: int) -> Counter[str]:
    """Inject faults for so many seconds; raises where something does not hold."""
    fault_worker.use_small_objects()
    injected: Counter[str] = Counter()
    end_s = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as scratch, s3_server() as server:
        os.environ.update({"ASSAY_SCRATCH": scratch, **environment(server)})
        number = 0
        while time.monotonic() < end_s:
            folder = Path(scratch) / str(number)
            folder.mkdir()
            with Campaign(folder, seed + number, server if number % 2 else None) as campaign:
                campaign.inject(ROUND, end_s)
            injected += campaign.injected
            number += 1
            left_s = max(end_s - time.monotonic(), 0.0)
            print(f"{injected.total():,} faults, {left_s:,.0f} s left", file=sys.stderr, flush=True)
            server.objects.clear()
    return injected


def main() -> None:
    """Read the options and soak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    injected = soak(given.seconds, given.seed)
    print(f"{injected.total():,} faults, nothing lost or believed: {dict(injected)}")


if __name__ == "__main__":
    main()
