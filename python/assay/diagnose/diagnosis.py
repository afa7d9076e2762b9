"""A diagnosis: what ran, what it should have taken, where the difference went, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from assay.answers import Answer, data_of
from assay.diagnose.baseline import BaselineChange
from assay.diagnose.critical_path.path import CriticalPath
from assay.diagnose.hypothesis import Hypothesis, RankedHypotheses
from assay.diagnose.mechanisms.view import MechanismView
from assay.diagnose.residuals import Residuals
from assay.diagnose.step_nodes import StepNode, step_nodes
from assay.diagnose.violation import Violation
from assay.lazy_import import pl
from assay.observe import schema
from assay.planner.graph import Graph

KERNELS: Final = 20
"""Kernels by time that a diagnosis lists."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What ran, and what a prediction of it assumes."""

    trace: str
    model: str | None
    gpu: str | None
    engine: str | None
    tensor: int
    cuda_graphs: bool
    can_predict: bool
    batch: int | None = None
    context: int | None = None
    context_source: str | None = None
    """given, trace, or attention: the length at which it takes as long as it did."""
    context_range: tuple[int, int] | None = None
    """What the interval of the prediction allows, where attention gave the length."""


@dataclass(frozen=True)
class Diagnosis(Answer):
    """Everything that `assay diagnose` says of a trace."""

    situation: Situation
    residuals: Residuals
    graph: Graph
    """Of the step that the waterfall is of; without nodes where nothing is predicted."""
    causes: RankedHypotheses
    path: CriticalPath
    violations: Sequence[Violation]
    degradations: tuple[str, ...]
    changes: tuple[BaselineChange, ...] = ()
    """Against healthy traces, where some were given."""

    @property
    def assumptions(self) -> list[str]:
        """What the predictions assume: many lines that a reader may ask for."""
        return [note for graph in self.residuals.graphs for note in graph.degradations]

    def nodes(self) -> list[StepNode]:
        """Every operation of the waterfall's step, predicted beside observed."""
        return step_nodes(MechanismView(self.residuals, self.graph, self.path))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data; the terms of the waterfall add up to `step_ns`."""
        waterfall = self.residuals.waterfall
        step, floor = self.graph.totals.get("step"), self.graph.totals.get("floor")
        view = MechanismView(self.residuals, self.graph, self.path)
        return {
            **asdict(self.situation),
            **_sizes(view),
            "phase": _phase(view),
            "step": waterfall.step,
            "step_ns": waterfall.observed_ns,
            "predicted_ns": step.value if step else None,
            "lo": step.lo if step else None,
            "hi": step.hi if step else None,
            "floor_ns": floor.value if floor else None,
            "waterfall": [asdict(term) for term in waterfall.terms],
            "causes": [_cause(cause) for cause in self.causes],
            "violations": [asdict(violation) for violation in self.violations],
            "changes": [asdict(change) for change in self.changes],
            "operations": _operations(self.residuals, _phase(view)),
            "nodes": [asdict(step_node) for step_node in step_nodes(view)],
            "kernels": _kernels(view),
            "critical_path": _critical_path(view),
            "intervals": _intervals(view),
            "steps": _steps(self.residuals),
            "predictions": [_prediction(graph) for graph in self.residuals.graphs],
            "degradations": list(self.degradations),
        }


def _sizes(view: MechanismView) -> dict[str, int | None]:
    """Batch and context of the step that is shown."""
    shown = view.steps.filter(pl.col("step") == view.step)
    return {
        name: shown[name][0] if shown.height and view.graph.nodes else None
        for name in ("batch", "context")
    }


def _phase(view: MechanismView) -> str | None:
    phases = view.steps["phase"].drop_nulls()
    return str(phases[0]) if len(phases) else None


def _cause(cause: Hypothesis) -> dict[str, Any]:
    return {
        **data_of(cause, "name ns_per_token lo hi status"),
        "evidence": [evidence.to_data() for evidence in cause.evidence],
        "fix": cause.fix,
        "mechanism": cause.mechanism,
        "part_of": list(cause.part_of),
        "within": cause.within or None,
        "beyond_step": cause.beyond_step,
    }


def _operations(residuals: Residuals, phase: str | None) -> list[dict[str, Any]]:
    """Operations of the waterfall's phase, summed over layers, the longest first."""
    summed = (
        "observed_ns",
        "kernel_ns",
        "expected_ns",
        "lo_ns",
        "hi_ns",
        "floor_ns",
        "residual_ns",
    )
    table = residuals.operations.filter(pl.col("phase").eq_missing(pl.lit(phase)))
    grouped = table.group_by(pl.col("operation").cast(pl.String)).agg(
        pl.col("layer").drop_nulls().n_unique().alias("layers"),
        pl.col("count").sum(),
        *(
            pl.when(pl.col(name).null_count() < pl.len()).then(pl.col(name).sum()).alias(name)
            for name in summed
        ),
    )
    return grouped.sort("observed_ns", "operation", descending=[True, False]).to_dicts()


def _kernels(view: MechanismView) -> list[dict[str, Any]]:
    """Kernels and copies of the waterfall's step by name, the longest first."""
    low, high = view.window
    events = view.residuals.trace.events.lazy()
    inside = events.filter(
        pl.col("kind").is_in(list(schema.DEVICE_KINDS))
        & (pl.col("start_ns") >= low)
        & (pl.col("start_ns") < high)
    )
    grouped = (
        inside.group_by(
            pl.col("name").cast(pl.String), pl.col("op").cast(pl.String).alias("operation")
        )
        .agg(pl.len().alias("count"), pl.col("dur_ns").sum().alias("ns"))
        .sort("ns", "name", descending=[True, False])
        .head(KERNELS)
    )
    return grouped.collect().to_dicts()


def _critical_path(view: MechanismView) -> dict[str, Any]:
    """The path of the waterfall's step: its segments, and their time by what they are."""
    assert view.path is not None
    segments = view.path.between(*view.window).with_columns(
        pl.col("part").cast(pl.String), pl.col("name", "operation").cast(pl.String)
    )
    label = pl.coalesce("operation", "name")
    by = (
        segments.group_by("part", label.alias("label"))
        .agg(pl.len().alias("count"), pl.col("dur_ns").sum().alias("ns"))
        .sort("ns", "part", "label", descending=[True, False, False])
    )
    spare = view.path.slack
    hidden = (
        view.intervals.filter(view.in_shown_step)
        .select(pl.col("op").cast(pl.String).alias("operation"), "row")
        .drop_nulls()
        .unique()
        .join(spare, on="row")
        .group_by("operation")
        .agg(pl.col("slack_ns").min())
        .sort("operation")
    )
    return {
        "parts": by.to_dicts(),
        "segments": segments.select(
            "start_ns", "dur_ns", "part", "row", "name", "operation", "layer"
        ).to_dicts(),
        "slack": hidden.to_dicts(),
    }


def _intervals(view: MechanismView) -> list[dict[str, Any]]:
    """The intervals of the waterfall's step."""
    shown = view.intervals.filter(view.in_shown_step)
    return shown.select(
        "start_ns",
        "dur_ns",
        pl.col("term").cast(pl.String),
        pl.col("operation").cast(pl.String),
        "layer",
        "row",
    ).to_dicts()


def _steps(residuals: Residuals) -> list[dict[str, Any]]:
    names = ("step", "rank", "phase", "batch", "prefill_tokens", "context", "start_ns",
             "observed_ns", "expected_ns", "lo_ns", "hi_ns", "floor_ns")  # fmt: skip
    return residuals.steps.select(names).to_dicts()


def _prediction(graph: Graph) -> dict[str, Any]:
    names = ("sequences", "context", "prefill_tokens", "tensor", "weight_dtype", "kv_dtype",
             "cuda_graphs")  # fmt: skip
    return {
        **{name: graph.batch.get(name) for name in names},
        **graph.totals_json(),
        "missing": dict(graph.missing),
        "degradations": list(graph.degradations),
    }
