"""The waterfall of one step out of many."""

from __future__ import annotations

from typing import Final

from assay.diagnose.terms import TERMS, Term, Waterfall
from assay.lazy_import import pl

LOW: Final = 0.05
HIGH: Final = 0.95
ROWS: Final = 50
"""Rows that a term lists, the longest first."""


def of_interest(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps that a summary stands for: whole decode steps of one batch, or what there is instead."""
    for chosen in (
        steps.filter((pl.col("phase") == "decode") & pl.col("is_whole") & pl.col("is_predicted")),
        steps.filter((pl.col("phase") == "decode") & pl.col("is_whole")),
        steps.filter(pl.col("is_whole")),
    ):
        if chosen.height:
            return _of_one_batch(chosen)
    return steps


def _of_one_batch(steps: pl.DataFrame) -> pl.DataFrame:
    """Those of the most frequent batch, of equally frequent ones the largest; all where none is known."""
    if "batch" not in steps.columns or steps["batch"].is_null().all():
        return steps
    counts = steps.drop_nulls("batch").group_by("batch").len().sort("len", "batch")
    return steps.filter(pl.col("batch") == counts["batch"][-1])


def median_waterfall(steps: pl.DataFrame, intervals: pl.DataFrame) -> Waterfall:
    """The waterfall of the median step, with each term's spread over the steps like it."""
    like = of_interest(steps).sort("observed_ns", "step")
    row = like.row((like.height - 1) // 2, named=True)
    own = intervals.filter(
        (pl.col("step") == row["step"])
        & pl.col("rank").eq_missing(row["rank"])
        & pl.col("device").eq_missing(row["device"])
    )
    rows = _rows(own)
    terms = tuple(
        Term(
            name,
            row[name],
            float(like[name].quantile(LOW, "linear") or 0.0),
            float(like[name].quantile(HIGH, "linear") or 0.0),
            rows.get(name, ()),
        )
        for name in TERMS
    )
    return Waterfall(row["step"], row["observed_ns"], terms)


def _rows(intervals: pl.DataFrame) -> dict[str, tuple[int, ...]]:
    """The events behind each term: what ran, or what explains a gap."""
    grouped = (
        intervals.with_columns(pl.coalesce("row", "cause").alias("behind"))
        .filter(pl.col("behind").is_not_null())
        .group_by("term", "behind")
        .agg(pl.col("dur_ns").sum())
        .sort("dur_ns", "behind", descending=[True, False])
        .group_by(pl.col("term").cast(pl.String))
        .agg(pl.col("behind").head(ROWS))
    )
    return {name: tuple(rows) for name, rows in grouped.rows()}
