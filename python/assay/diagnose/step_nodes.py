"""The nodes of a predicted step beside what the trace shows of each.

A row is a site of one layer: what the prediction and the engine fuse differently is compared as a
whole (`itemizing/matching.py`). Rows are in the order of the prediction; what it does not have
follows the node after which it ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.diagnose.itemizing.matching import Site, Sites
from assay.diagnose.mechanisms.view import MechanismView
from assay.lazy_import import pl
from assay.planner.graph import Graph

Key = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class StepNode:
    """One operation of a layer: predicted, observed, and the difference, in nanoseconds.

    Predicted figures are None where the prediction has no such node, observed ones where it did not
    run. Starts count from the begin of the step.
    """

    operation: str | None
    """None for kernels that are no operation of the model."""
    layer: int | None
    bound: str | None = None
    predicted_start_ns: float | None = None
    expected_ns: float | None = None
    lo_ns: float | None = None
    hi_ns: float | None = None
    floor_ns: float | None = None
    start_ns: float | None = None
    observed_ns: float | None = None
    """Wall time that it owns: other kernels hide nothing of it, and it hides others."""
    kernels: float = 0.0
    residual_ns: float | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    """Its part of each term of the waterfall; a gap belongs to the operation that it waits for."""


def step_nodes(view: MechanismView) -> list[StepNode]:
    """Every node of the waterfall's step; none where nothing was predicted."""
    if not view.graph.nodes:
        return []
    observed = _observed(view)
    names = {name for name, _ in observed if name is not None}
    sites = Sites(sorted(names), view.residuals.graphs or (view.graph,))
    predicted = sites.predicted(view.graph)
    starts = _starts(view.graph, sites)
    return [
        _node(key, predicted.get(key), starts.get(key), observed.get(key))  # type: ignore[arg-type]
        for key in _ordered(list(starts), observed)
    ]


def _node(
    key: Key, site: Site | None, start: float | None, seen: dict[str, Any] | None
) -> StepNode:
    expected = None if site is None else site.expected_ns
    took = None if seen is None else float(seen["observed_ns"])
    return StepNode(
        *key,
        bound=None if site is None else site.bound,
        predicted_start_ns=start,
        expected_ns=expected,
        lo_ns=None if site is None else site.lo_ns,
        hi_ns=None if site is None else site.hi_ns,
        floor_ns=None if site is None else site.floor_ns,
        start_ns=None if seen is None else seen["start_ns"],
        observed_ns=took,
        kernels=0.0 if seen is None else seen["kernels"],
        residual_ns=None if took is None or expected is None else took - expected,
        terms={} if seen is None else seen["terms"],
    )


def _observed(view: MechanismView) -> dict[Key, dict[str, Any]]:
    """What ran in the waterfall's step by operation and layer, in order of time."""
    steps = view.steps if view.step is None else view.steps.filter(pl.col("step") == view.step)
    count = max(steps.height, 1)
    lane = ["rank", "device", "step"]
    begins = steps.select(*lane, pl.col("start_ns").alias("begin"))
    keys = ["operation", "layer"]
    shown = view.intervals.filter(view.in_shown_step).with_columns(
        pl.col("operation", "term").cast(pl.String)
    )
    terms: dict[Key, dict[str, float]] = {}
    for operation, layer, term, spent in shown.group_by(*keys, "term", maintain_order=True).agg(
        pl.col("dur_ns").sum()
    ).iter_rows():  # fmt: skip
        terms.setdefault((operation, layer), {})[term] = spent / count
    owned = shown.filter(pl.col("row").is_not_null()).group_by(keys).agg(pl.col("dur_ns").sum())
    times = {(operation, layer): spent / count for operation, layer, spent in owned.iter_rows()}
    # Kernels that others hide own no time and have run all the same.
    ran = (
        view.residuals.kernels.join(begins, on=lane, nulls_equal=True)
        .group_by("operation", "layer", "step")
        .agg((pl.col("start_ns") - pl.col("begin")).min().alias("start"), pl.len().alias("kernels"))
        .group_by(keys)
        .agg(pl.col("start").mean(), pl.col("kernels").sum() / count)
        .sort("start", *keys, nulls_last=True)
    )
    first_runs = {
        (operation, layer): (start, kernels) for operation, layer, start, kernels in ran.rows()
    }
    # A gap that no operation ends is the last of the trace: it has terms and nothing else.
    return {
        key: {
            "start_ns": first_runs.get(key, (None, 0.0))[0],
            "kernels": first_runs.get(key, (None, 0.0))[1],
            "observed_ns": times.get(key, 0.0),
            "terms": terms.get(key, {}),
        }
        for key in dict.fromkeys([*first_runs, *terms])
    }


def _starts(graph: Graph, sites: Sites) -> dict[Key, float]:
    """When each site begins if every node takes what is expected, in order of the graph."""
    ends: dict[str, float] = {}
    streams: dict[int, float] = {}
    starts: dict[Key, float] = {}
    for node in graph.nodes:
        ready = max((ends.get(name, 0.0) for name in node.dependencies), default=0.0)
        start = max(ready, streams.get(node.stream, 0.0))
        ends[node.name] = streams[node.stream] = start + node.expected_ns
        if node.stream >= 0:
            starts.setdefault((sites.of(node.operation), node.layer), start)
    return starts


def _ordered(predicted: list[Key], observed: Mapping[Key, Any]) -> list[Key]:
    """Keys of both: the prediction's order, with what it lacks after what ran before it."""
    known = set(predicted)
    after: dict[Key | None, list[Key]] = {}
    last: Key | None = None
    for key in observed:
        if key in known:
            last = key
        else:
            after.setdefault(last, []).append(key)
    order = list(after.get(None, ()))
    for key in predicted:
        order += [key, *after.get(key, ())]
    return order
