"""Copies on the critical path: the device copies and computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.diagnose.mechanisms.findings import Finding, MechanismClaim
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView
from assay.lazy_import import LazyModule

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")


def find(view: MechanismView) -> Finding:
    """Copies that ran alone."""
    kind = view.intervals["kind"].cast(pl.String)
    alone = (
        view.of_terms("lost_overlap") & kind.is_in(["memcpy", "memset"]).fill_null(False).to_numpy()
    )
    if not alone.any():
        return None
    shown = view.intervals.filter(alone & view.in_shown_step)
    return MechanismClaim(alone, (f"{shown['row'].n_unique():,} copies ran while no kernel did",))


MECHANISM = Mechanism(
    "copy on the critical path",
    "a copy between host and device, or a fill, runs while no kernel does and the next one waits",
    "copies and fills that no kernel overlaps",
    "copy on a stream of its own from pinned memory, a step ahead, or keep the data on the device",
    find,
)
