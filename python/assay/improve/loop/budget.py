"""The budget of a run: how much time each phase may take, from one minute to days."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from assay.errors import InputError

SHARES: Final = {"capture": 2, "predict": 4, "candidates": 6, "experiments": 8, "soak": 4}
"""The phases in order, and their parts of the budget."""

TITLES: Final = {
    "capture": "capture and fingerprint",
    "predict": "predict and residuals",
    "candidates": "causes and candidates",
    "experiments": "experiments",
    "soak": "soak and report",
}

LEAST_S: Final = 60.0
"""The shortest budget: below it no experiment comes to a verdict."""
_TOTAL: Final = sum(SHARES.values())


class Budget:
    """Deadlines of phases; time that a phase does not use goes to the later ones.

    The last phase keeps its share whatever the others took: what was found must be measured again.

    >>> budget = Budget(240.0, clock=lambda: 0.0)
    >>> budget.share("experiments"), budget.left("experiments")
    (80.0, 200.0)
    """

    def __init__(
        self,
        total_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        least_s: float = 0.0,
        spent_s: float = 0.0,
    ) -> None:
        """Start now, with `spent_s` gone already."""
        if not total_s >= least_s or not total_s < float("inf"):
            raise InputError(
                f"budget: expected at least {least_s:g} s, got {total_s:g} s",
                "such as --budget 3m; a verdict needs repeated measurements",
            )
        self.total_s: Final = total_s
        self.clock: Final = clock
        self._begun = clock() - spent_s

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._begun

    @property
    def remaining(self) -> float:
        """Seconds until the end; negative once it has passed."""
        return self.total_s - self.spent

    def share(self, phase: str) -> float:
        """Seconds that a phase has of its own."""
        return self.total_s * SHARES[phase] / _TOTAL

    def left(self, phase: str) -> float:
        """Seconds until a phase must end; negative once it has passed."""
        parts = 0
        for name, part in SHARES.items():
            parts += part
            if name == phase:
                break
        return self.total_s * parts / _TOTAL - self.spent
