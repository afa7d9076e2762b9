"""Replicas by period where they take time to start."""

from __future__ import annotations

import math
from collections.abc import Sequence


def kept_running(
    needed: Sequence[int], seconds: Sequence[float], start_seconds: float
) -> list[int]:
    """Replicas by period at the least cost, where one that starts is paid for so long before it serves.

    A replica that is not needed for a while stays where that is shorter than its start: each is its own case, so that
    this is the cheapest schedule where none runs before.

    >>> kept_running([3, 1, 3, 2], [3600, 600, 3600, 3600], 900)
    [3, 3, 3, 2]
    """
    counts = list(needed)
    if not start_seconds:
        return counts
    for level in range(1, max(needed) + 1):
        last: int | None = None
        for index, count in enumerate(needed):
            if count < level:
                continue
            if last is not None and math.fsum(seconds[last + 1 : index]) <= start_seconds:
                for between in range(last + 1, index):
                    counts[between] = max(counts[between], level)
            last = index
    return counts
