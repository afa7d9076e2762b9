"""What was to run beside other work did: streams and copies hide as the prediction says."""

from __future__ import annotations

from assay.diagnose.residuals import Residuals
from assay.diagnose.violation import Invariant, Violation
from assay.lazy_import import pl
from assay.planner.graph import Graph

NAME = "stream concurrency"
ROWS = 20


def check(residuals: Residuals) -> list[Violation]:
    """Compare the time in which hidden work ran alone with the time the graph leaves uncovered."""
    graph = residuals.graph
    step = graph.totals.get("step")
    if not len(graph) or step is None:
        return [
            Violation(NAME, "not measured", "step", None, None, None, "ns",
                      reason="no prediction of what overlaps")
        ]  # fmt: skip
    # Less than the step's own uncertainty cannot be told from its prediction.
    hi = uncovered_ns(graph) + (step.hi - step.value)
    term = next(term for term in residuals.waterfall.terms if term.name == "lost_overlap")
    if term.ns <= hi:
        return []
    rows = residuals.intervals.filter(
        (pl.col("step") == residuals.waterfall.step) & (pl.col("term") == "lost_overlap")
    )
    by_operation = (
        rows.group_by(pl.col("operation").cast(pl.String).fill_null("copies"))
        .agg(pl.col("dur_ns").sum())
        .sort("dur_ns", descending=True)
    )
    named = ", ".join(f"{name} {ns / 1e3:,.0f} us" for name, ns in by_operation.head(3).rows())
    return [
        Violation(
            NAME, "violated", f"step {residuals.waterfall.step}", term.ns, 0.0, hi, "ns",
            term.rows[:ROWS], f"ran alone: {named}",
        )
    ]  # fmt: skip


def uncovered_ns(graph: Graph) -> float:
    """How much longer the predicted step is for its nodes beside the main stream."""
    everything = _makespan(graph, beside=True)
    return max(everything - _makespan(graph, beside=False), 0.0)


def _makespan(graph: Graph, beside: bool) -> float:
    """When the last node ends: nodes of a stream in order, each after its dependencies."""
    ends: dict[str, float] = {}
    streams: dict[int, float] = {}
    for node in graph.nodes:
        if node.stream < 0 or (node.stream > 0 and not beside):
            continue
        ready = [ends[name] for name in node.dependencies if name in ends]
        begin = max([streams.get(node.stream, 0.0), *ready])
        ends[node.name] = streams[node.stream] = begin + node.expected_ns
    return max(ends.values(), default=0.0)


CONCURRENCY = Invariant(
    NAME, "copies and work of other streams run beside the main stream's kernels", check
)
