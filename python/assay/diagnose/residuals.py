"""Observed minus predicted: every nanosecond of every step in one term of a waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from assay.diagnose.itemizing import lanes, requests, tables
from assay.diagnose.itemizing.clocks import Clocks
from assay.diagnose.itemizing.decomposition import Decomposition, decompose
from assay.diagnose.itemizing.matching import graph_of_step, graph_phase
from assay.diagnose.terms import Waterfall
from assay.diagnose.waterfall import median_waterfall
from assay.errors import InputError
from assay.lazy_import import pl
from assay.planner.graph import Graph

if TYPE_CHECKING:
    from assay.observe.trace import Trace


@dataclass(frozen=True, slots=True)
class Residuals:
    """A trace against a graph. Tables are Polars data frames.

    `intervals`: disjoint intervals of wall time, one row each: step, term, start_ns, dur_ns, row (of
    the event table, null for a gap), operation, layer, and rank and device of the step. Within a
    step they cover it without overlap. A gap has the operation and layer of the event that ends it,
    and in `cause` the row of the call, wait or profiler record that explains it.
    `steps`: one row a step: step, rank, device, phase, batch, context, start_ns, observed_ns,
    is_whole (false of a last step, which ends with its last event), is_predicted, expected_ns,
    lo_ns, hi_ns, floor_ns (null without a graph for it), and a column for each term, which add up
    to observed_ns.
    `operations`: one row an operation, phase and layer: count (kernels a step), observed_ns (wall
    time that it owns, mean a step), kernel_ns (durations of its kernels, mean a step),
    expected_ns, lo_ns, hi_ns, floor_ns, residual_ns; null without a node for it.
    `kernels`: one row a kernel, copy or fill of a step, hidden ones too: row, step, rank, device,
    operation, layer, start_ns, dur_ns, and phase, is_whole and is_predicted of its step.
    `requests`: one row a request where ranges of the trace name them (`request_id` in their args),
    else empty: request, start_ns, observed_ns and the terms, which add up to observed_ns.
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
    graphs: tuple[Graph, ...] = ()
    """All graphs, that of decode steps first; `graph` is the first."""
    telemetry: pl.DataFrame | None = None
    kernels: pl.DataFrame = field(default_factory=lambda: pl.DataFrame())


NO_PREDICTION: Final = Graph((), {}, "", "", "", {})
"""The graph of a trace that nothing is predicted for."""


def residuals(
    trace: Trace, graph: Graph | Sequence[Graph], telemetry: pl.DataFrame | None = None
) -> Residuals:
    """Put every nanosecond of a trace's steps into one term of a waterfall.

    The trace has steps and operations: its own, or those of `recover`. Of several graphs each step
    takes the first of its phase and batch; a step without one has no floor, and without any graph
    only the gaps are told apart. Samples of telemetry
    (`assay.observe.telemetry.reading.read`) tell throttled clocks.
    """
    graphs = (graph,) if isinstance(graph, Graph) else tuple(graph)
    if not all(len(graph) for graph in graphs):
        raise InputError("residuals: expected a graph with nodes, got an empty one")
    decoding = graphs[0] if graphs else NO_PREDICTION
    device = lanes.device_events(trace)
    decompositions: list[Decomposition] = []
    notes: list[str] = []
    for lane in lanes.find_lanes(trace, device):
        matched = {
            row["step"]: number
            for row in lane.steps.iter_rows(named=True)
            if (number := graph_of_step(row, graphs)) is not None
        }
        clocks = Clocks.during(lane, trace.header, telemetry, decoding)
        decompositions.append(decompose(trace, device, lane, graphs, matched, clocks))
    notes += dict.fromkeys(note for decomposition in decompositions for note in decomposition.notes)
    pieces = pl.concat([decomposition.intervals for decomposition in decompositions])
    steps = tables.steps_table(decompositions, graphs, pieces)
    kernels = tables.kernels_table(decompositions, steps)
    notes += _about_steps(steps, graphs)
    return Residuals(
        trace=trace,
        graph=decoding,
        intervals=pieces,
        steps=steps,
        operations=tables.operations_table(decompositions, graphs, steps, kernels),
        requests=requests.requests_table(trace, pieces),
        waterfall=median_waterfall(steps, pieces),
        degradations=tuple(dict.fromkeys([*trace.header.degradations, *notes])),
        graphs=graphs,
        telemetry=telemetry,
        kernels=kernels,
    )


def _about_steps(steps: pl.DataFrame, graphs: Sequence[Graph]) -> list[str]:
    """What the graphs do not stand for."""
    if not graphs:
        return ["no prediction: kernel time is unknown, not split at a floor"]
    notes = []
    without = steps.filter(~pl.col("is_predicted"))
    if without.height:
        kinds = without.select(
            pl.col("phase").fill_null("unknown phase"),
            pl.col("batch").cast(pl.String).fill_null("?"),
        ).unique(maintain_order=True)
        listed = ", ".join(f"{phase} of batch {batch}" for phase, batch in kinds.head(4).rows())
        given = ", ".join(
            f"{graph_phase(graph)} of batch {graph.batch.get('sequences')}" for graph in graphs
        )
        notes.append(
            f"{without.height} of {steps.height} steps ({listed}) have no prediction, which is for "
            f"{given}: their kernel time is unknown, not split at a floor"
        )
    unsized = steps.filter(pl.col("is_predicted") & pl.col("batch").is_null())
    if unsized.height and "sequences" in graphs[0].batch:
        notes.append(
            f"the batch of {unsized.height} of {steps.height} steps is not known: taken as the "
            "predicted one"
        )
    return notes
