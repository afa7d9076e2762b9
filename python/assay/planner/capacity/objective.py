"""What a plan must keep: limits of latencies, and the share of requests that must keep all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from assay.errors import InputError

LIMITS: Final = {"ttft": "first_token", "tpot": "output_token", "e2el": "end_to_end"}
"""Names of limits, and the latency that each is of."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A service-level objective (SLO) in seconds; `share` of the requests keep every limit."""

    first_token: float = math.inf
    output_token: float = math.inf
    end_to_end: float = math.inf
    share: float = 0.99

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise InputError(
                f"--slo p: expected a share above 0 and below 100 %, got {self.share:.6g}",
                "write p=99%: as many of the requests keep every limit",
            )
        if not min(self.limits.values(), default=1.0) > 0:
            raise InputError("--slo: expected limits above 0")

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are stated, by name."""
        stated = {name: getattr(self, field) for name, field in LIMITS.items()}
        return {name: limit for name, limit in stated.items() if math.isfinite(limit)}

    def __str__(self) -> str:
        """In words."""
        limits = ", ".join(f"{name} <= {1e3 * limit:g} ms" for name, limit in self.limits.items())
        return f"{limits or 'no limit'} for {100 * self.share:g} % of the requests"
