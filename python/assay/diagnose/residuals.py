"""Observed minus predicted: every nanosecond of every step in one term of a waterfall."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.diagnose.terms import Waterfall
from assay.planner.graph import Graph

if TYPE_CHECKING:
    import polars as pl

    from assay.observe.trace import Trace


@dataclass(frozen=True, slots=True)
class Residuals:
    """A trace against a graph. Tables are Polars data frames.

    `intervals`: disjoint intervals of wall time, one row each: step, term, start_ns, dur_ns, row (of
    the event table, null for a gap), operation, layer. Within a step they cover it without overlap.
    `steps`: one row a step: step, phase, batch, context, observed_ns, expected_ns, lo_ns, hi_ns,
    floor_ns, and a column for each term, which add up to observed_ns.
    `operations`: one row an operation, phase and layer: count, observed_ns (mean a step),
    expected_ns, lo_ns, hi_ns, floor_ns, residual_ns.
    `requests`: one row a request where the trace names them, else empty.
    """

    trace: Trace
    graph: Graph
    intervals: pl.DataFrame
    steps: pl.DataFrame
    operations: pl.DataFrame
    requests: pl.DataFrame
    waterfall: Waterfall
    """Of the median decode step (of the median step where none decodes)."""
    degradations: tuple[str, ...] = field(default=())
