"""Missing overlap: kernels meant to run beside others ran alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.diagnose.mechanisms.classes import COLLECTIVE
from assay.diagnose.mechanisms.findings import Finding, MechanismClaim
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView
from assay.lazy_import import LazyModule

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")


def find(view: MechanismView) -> Finding:
    """Kernels in lost overlap, collectives left out."""
    kind = view.intervals["kind"].cast(pl.String)
    alone = view.of_terms("lost_overlap") & (kind == "kernel").fill_null(False).to_numpy()
    alone &= ~view.with_operation(COLLECTIVE)
    if not alone.any():
        return None
    return MechanismClaim(alone, ("kernels of a second stream ran while the main stream idled",))


MECHANISM = Mechanism(
    "missing overlap",
    "work of another stream that was to hide behind the main one runs by itself",
    "kernels that the prediction has on another stream, and that nothing overlaps",
    "launch the second stream earlier, give it fewer SMs, or drop the dependency between them",
    find,
)
