"""What a plan may not exceed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.planner.capacity.option import Option


@dataclass(frozen=True)
class Budget:
    """Limits of GPUs, of watts at the meter that servers can draw, and of USD an hour, at the peak."""

    gpus: float = math.inf
    watts: float = math.inf
    usd_per_hour: float = math.inf
    available: Mapping[str, int] = field(default_factory=dict)
    """GPUs that there are, by accelerator; others are not limited."""

    def excess(self, option: Option) -> str:
        """The budget that an option exceeds, or cannot be shown to keep; empty where it keeps all."""
        spent = {
            "gpus": float(option.gpus),
            "watts": option.rated_watts,
            "usd_per_hour": option.peak_usd_per_hour,
        }
        for name, value in spent.items():
            most = getattr(self, name)
            if math.isfinite(most) and value is None:
                return f"{name}: not known of {option.gpu}"
            if value is not None and value > most:
                return f"{name}: {value:,.6g} of {most:,.6g}"
        there = self.available.get(option.gpu, math.inf)
        if option.gpus > there:
            return f"{option.gpu}: {option.gpus:,} of {there:,} that there are"
        return ""
