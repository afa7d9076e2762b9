"""What a user asks of a run, besides engine and workload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.errors import InputError, unknown_name
from assay.improve.levers.lever import SAFETY, Safety

THRESHOLD: Final = 0.01
"""Practical threshold: a smaller gain is not worth a change of settings."""
QUICK_CHANGED: Final = 1 / 50
QUICK_CONFIDENCE: Final = 0.95
PRODUCTION_CHANGED: Final = 1 / 200
PRODUCTION_CONFIDENCE: Final = 0.999
"""Share of wrongly changed answers that a promotion must exclude, and how surely."""
DRY_RUN: Final = "a dry run: no setting was changed"
"""Why such a run makes no experiment."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run; the defaults are those of `assay run`."""

    budget_s: float = 180.0
    target: float | None = None
    """Gain to stop at once it is proven: 0.15 is 15 %."""
    top_n: int | None = None
    """Most candidates to try, the best ranked first."""
    only: tuple[str, ...] = ()
    """Levers to try, and no others."""
    skip: tuple[str, ...] = ()
    """Levers not to try."""
    max_risk: Safety = "may fail"
    """The riskiest safety class that is tried."""
    use_history: bool = True
    allow_lossy: bool = False
    production: bool = False
    """Promote only what excludes 1 wrongly changed answer in 200 with 99.9 %."""
    max_changed: float | None = None
    """Share of wrongly changed answers that a promotion must exclude; None is 1 in 50, in
    production 1 in 200."""
    dry_run: bool = False
    seed: int = 0
    threshold: float = THRESHOLD
    lever_files: tuple[Path, ...] = ()
    """Libraries of the user's own, besides the built-in one."""
    force: bool = False
    """Experiment although the engine is near its floor."""
    watch: bool = False
    """Keep guarding after promotion, and take back what regresses."""
    watch_s: float | None = None
    """Seconds to watch, on top of the budget; None until it is interrupted."""

    @property
    def most_changed(self) -> float:
        """The share of wrongly changed answers that a promotion must exclude."""
        if self.max_changed is not None:
            return self.max_changed
        return PRODUCTION_CHANGED if self.production else QUICK_CHANGED

    @property
    def answer_confidence(self) -> float:
        """How sure a promotion must be of that."""
        return PRODUCTION_CONFIDENCE if self.production else QUICK_CONFIDENCE

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.target is not None and not 0 < self.target < 100:
            raise InputError(f"target: expected a gain above 0, such as 15%, got {self.target:g}")
        if self.max_changed is not None and not 0 < self.max_changed < 1:
            raise InputError(
                f"max-changed: expected a share such as 1/200, got {self.max_changed:g}"
            )
        if self.top_n is not None and self.top_n < 1:
            raise InputError(f"top-n: expected 1 or more, got {self.top_n}")
        if self.max_risk not in SAFETY:
            raise unknown_name("risk", self.max_risk, SAFETY)
        if both := sorted({*self.only} & {*self.skip}):
            raise InputError(f"{both[0]}: expected it in only or in skip, got it in both")
