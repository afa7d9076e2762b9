"""The waterfall of the median step, from the rows of residuals.parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from assay.diagnose.terms import TERMS
from assay.diagnose.waterfall import HIGH, LOW, of_interest
from assay.intervals import Interval

if TYPE_CHECKING:
    import polars as pl

OBSERVED: Final = "observed"
FLOOR_SHARE: Final = "floor share"
TERMS_NOTE: Final = (
    "The terms are those of one step, so that they add up to its time; one of them may lie outside "
    "of what 90 % of the steps have."
)
CAUSES_NOTE: Final = (
    "Causes overlap, and may take parts of several terms (a profiler lengthens launch gaps too): they "
    "do not add up."
)


def waterfall(steps: pl.DataFrame) -> list[tuple[str, Interval]]:
    """Each term of the median step in us with its spread over the steps like it.

    Then their sum, and the floor's share of it where there is a floor.
    """
    like = of_interest(steps).sort("observed_ns", "step")
    if not like.height:
        return []
    row = like.row((like.height - 1) // 2, named=True)
    terms = [(name, _figure(like, row, name)) for name in TERMS if name in like.columns]
    terms.append((OBSERVED, _figure(like, row, "observed_ns")))
    floor = float(row.get("floor") or 0.0)
    if floor > 0:
        share = floor / float(row["observed_ns"])
        terms.append((FLOOR_SHARE, Interval(share, share, share)))
    return terms


def _figure(like: pl.DataFrame, row: dict[str, float], name: str) -> Interval:
    low, high = (float(like[name].quantile(share, "linear") or 0.0) for share in (LOW, HIGH))
    return Interval(float(row[name] or 0.0) / 1e3, low / 1e3, high / 1e3)
