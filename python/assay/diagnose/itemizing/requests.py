"""The waterfall of each request that a trace names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.diagnose.itemizing.intervals import overlap
from assay.diagnose.terms import TERMS
from assay.lazy_import import pl

if TYPE_CHECKING:
    from assay.observe.trace import Trace

KEY: Final = "request_id"
"""The member of a range's args that names its request."""


def columns() -> dict[str, Any]:
    """The columns of the table of requests."""
    types: dict[str, Any] = {"request": pl.String, "start_ns": pl.Int64, "observed_ns": pl.Int64}
    return types | dict.fromkeys(TERMS, pl.Int64)


def requests_table(trace: Trace, intervals: pl.DataFrame) -> pl.DataFrame:
    """One row a request, from the start of its first range to the end of its last.

    Its terms are those of the steps meanwhile, of the first device; time outside of steps is
    unknown.
    """
    named = (
        trace.events.lazy()
        .filter(
            pl.col("kind").is_in(["range", "host"])
            & pl.col("args").str.contains(f'"{KEY}"', literal=True)
        )
        .select(
            request=pl.col("args").str.extract(rf'"{KEY}"\s*:\s*"?([^",}}]+)'),
            start="start_ns",
            end=pl.col("start_ns") + pl.col("dur_ns"),
        )
        .filter(pl.col("request").is_not_null())
        .group_by("request")
        .agg(pl.col("start").min(), pl.col("end").max())
        .sort("start", "request")
        .collect()
    )
    start, end = named["start"].to_numpy(), named["end"].to_numpy()
    table: dict[str, Any] = {"request": named["request"], "start_ns": start}
    table["observed_ns"] = end - start
    lanes = intervals.select("rank", "device").unique(maintain_order=True)
    own = intervals.join(lanes.head(1), on=["rank", "device"], how="semi", nulls_equal=True)
    for name in TERMS:
        part = own.filter(pl.col("term") == name)
        begin = part["start_ns"].to_numpy()
        table[name] = overlap(start, end, begin, begin + part["dur_ns"].to_numpy())
    covered = np.sum([table[name] for name in TERMS], axis=0)
    table["unknown"] = table["unknown"] + (end - start - covered)
    return pl.DataFrame(table, schema=columns())
