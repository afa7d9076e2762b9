"""Two traces, operation by operation: where the difference of their steps comes from.

The time of a step is split without a rest: each instant belongs to the device event that began
first among those that run then, and an instant without one is a gap. So the mean step is the sum
of its operations' means and of the mean gap, and the same holds for the difference of two traces.
Medians do not add up; they stand beside, with the quartiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.answers import Answer, Progress, silent
from assay.errors import InputError
from assay.lazy_import import np, pl
from assay.observe import schema
from assay.observe.structure.opening import open_recovered
from assay.observe.trace import Trace

WHOLE: Final = "whole trace"
"""The phase of a trace without steps."""


@dataclass(frozen=True, slots=True)
class Side:
    """The steps of one phase of a trace, and the time of each operation in each step."""

    phase: str
    durations: np.ndarray
    parts: dict[tuple[str, bool], tuple[np.ndarray, int]]
    """By name, and whether it is an operation of the model: its time in steps, and its events."""
    batch: float | None
    """The median batch, where it is known."""


@dataclass(frozen=True, kw_only=True)
class TraceDiff(Answer):
    """Two traces, by phase and operation."""

    before: str
    after: str
    phases: Sequence[Mapping[str, Any]]
    degradations: Sequence[str]


def diff_traces(
    before: str | Path, after: str | Path, model: str | None = None, *, progress: Progress = silent
) -> TraceDiff:
    """Say which operations make the steps of one trace slower than those of another."""
    sides = [
        open_recovered(trace, model, details=False, progress=progress) for trace in (before, after)
    ]
    progress("comparing")
    difference = compare(sides[0].trace, sides[1].trace)
    degradations = [
        *difference["degradations"],
        *(
            f"{label}: {note}"
            for label, side in zip("AB", sides, strict=True)
            for note in (*side.trace.header.degradations, *side.degradations)
        ),
    ]
    return TraceDiff(
        before=str(before),
        after=str(after),
        phases=difference["phases"],
        degradations=degradations,
        notes=degradations,
    )


def compare(before: Trace, after: Trace) -> dict[str, Any]:
    """The difference of two traces with recovered structure, by phase and operation."""
    degradations: list[str] = []
    if not len(before.steps) or not len(after.steps):
        lacking = [label for label, trace in (("A", before), ("B", after)) if not len(trace.steps)]
        degradations.append(f"no steps in {' and '.join(lacking)}: whole traces are compared")
        pairs = [(_whole(before, "A"), _whole(after, "B"))]
    else:
        sides = _sides(before), _sides(after)
        common = [phase for phase in schema.PHASES if phase in sides[0] and phase in sides[1]]
        if not common:
            phases = [" and ".join(side) or "steps of no known phase" for side in sides]
            raise InputError(
                f"the traces have no phase in common: A has {phases[0]}, B has {phases[1]}",
                "compare traces of the same workload",
            )
        pairs = [(sides[0][phase], sides[1][phase]) for phase in common]
        pairs.sort(key=lambda pair: -len(pair[0].durations))
    if not any(first.parts.keys() & second.parts.keys() for first, second in pairs):
        raise InputError(
            f"the traces have no operation in common: A has {_some(pairs[0][0])}, "
            f"B has {_some(pairs[0][1])}",
            "give --model, or compare traces of the same model",
        )
    for first, second in pairs:
        if first.batch is not None and second.batch is not None and first.batch != second.batch:
            degradations.append(
                f"{first.phase}: A has a batch of {first.batch:g}, B of {second.batch:g}"
            )
    return {"phases": [_phase(*pair) for pair in pairs], "degradations": degradations}


def _some(side: Side) -> str:
    names = [name for name, _ in side.parts]
    return ", ".join(name[:40] for name in names[:3]) or "none"


def _device_events(trace: Trace) -> pl.DataFrame:
    device = pl.col("kind").cast(pl.String).is_in(list(schema.DEVICE_KINDS))
    return trace.events.filter(device).select(
        "rank",
        "step",
        pl.col("start_ns").alias("start"),
        (pl.col("start_ns") + pl.col("dur_ns")).alias("end"),
        pl.coalesce(pl.col("op").cast(pl.String), pl.col("name").cast(pl.String)).alias("label"),
        pl.col("op").is_not_null().alias("mapped"),
    )


def _whole(trace: Trace, label: str) -> Side:
    """All of a trace as one step, from the first device event to the last."""
    events = _device_events(trace)
    if not len(events):
        raise InputError(f"{label}: expected kernels or copies on a device, got none")
    start, end = events["start"].min(), events["end"].max()
    events = events.with_columns(
        pl.lit(0).alias("place"), pl.lit(start).alias("from"), pl.lit(end).alias("to")
    )
    return _side(WHOLE, np.array([end - start], np.int64), events, None)  # type: ignore[operator]


def _sides(trace: Trace) -> dict[str, Side]:
    """The steps of a trace by phase."""
    steps = trace.steps.filter(pl.col("phase").is_not_null() & (pl.col("dur_ns") >= 0))
    steps = steps.with_columns(pl.col("phase").cast(pl.String))
    events = _device_events(trace).filter(pl.col("step").is_not_null())
    sides = {}
    for (phase,), chosen in steps.group_by(["phase"], maintain_order=True):
        windows = chosen.with_row_index("place").select(
            "rank",
            "step",
            pl.col("place").cast(pl.Int64),
            pl.col("start_ns").alias("from"),
            (pl.col("start_ns") + pl.col("dur_ns")).alias("to"),
        )
        inside = events.join(windows, on=["rank", "step"], how="inner", nulls_equal=True)
        if not len(inside) and windows["rank"].null_count() != len(windows):
            # A trace of one process may name the rank in one of its tables only.
            inside = events.join(windows.drop("rank"), on="step", how="inner")
        batch = chosen["batch"].median()
        sides[str(phase)] = _side(
            str(phase),
            chosen["dur_ns"].to_numpy(),
            inside,
            float(batch) if isinstance(batch, (int, float)) else None,
        )
    return sides


def _side(phase: str, durations: np.ndarray, events: pl.DataFrame, batch: float | None) -> Side:
    """Times of operations in steps; `place` is the step, `from` and `to` its window."""
    start = pl.max_horizontal("start", "from")
    end = pl.max_horizontal(pl.min_horizontal("end", "to"), start)
    events = (
        events.with_columns(start.alias("start"), end.alias("end"))
        .sort("place", "start", "end")
        .with_columns(pl.col("end").cum_max().over("place").alias("reached"))
        .with_columns(pl.col("reached").shift(1).over("place").alias("before"))
    )
    # What ran already keeps the time in which both run.
    own = pl.col("end") - pl.max_horizontal("start", "before")
    sums = (
        events.with_columns(own.clip(0).alias("own"))
        .group_by("label", "mapped", "place")
        .agg(pl.col("own").sum(), pl.len().alias("count"))
    )
    parts = {}
    for (label, mapped), rows in sums.group_by(["label", "mapped"]):
        times = np.zeros(len(durations), np.int64)
        times[rows["place"].to_numpy()] = rows["own"].to_numpy()
        parts[str(label), bool(mapped)] = (times, int(rows["count"].sum()))
    return Side(phase, durations, parts, batch)


def _phase(before: Side, after: Side) -> dict[str, Any]:
    totals = int(before.durations.sum()), int(after.durations.sum())
    steps = len(before.durations), len(after.durations)
    delta = totals[1] / steps[1] - totals[0] / steps[0]
    rows = [
        {"name": name, "mapped": mapped, **_row(
            before.parts.get((name, mapped)), after.parts.get((name, mapped)), steps, delta)}
        for name, mapped in {**before.parts, **after.parts}
    ]  # fmt: skip
    rows.sort(key=lambda row: (-abs(row["delta_ns"]), row["name"]))
    gaps = [
        (side.durations - sum((times for times, _ in side.parts.values()), np.int64(0)), 0)
        for side in (before, after)
    ]
    gap = _row(gaps[0], gaps[1], steps, delta)
    del gap["count_before"], gap["count_after"]
    return {
        "phase": before.phase,
        "steps_before": steps[0],
        "steps_after": steps[1],
        "step_ns_before": totals[0] / steps[0],
        "step_ns_after": totals[1] / steps[1],
        "delta_ns": delta,
        "median_ns_before": float(np.median(before.durations)),
        "median_ns_after": float(np.median(after.durations)),
        "gap": gap,
        "operations": rows,
    }


def _row(
    before: tuple[np.ndarray, int] | None, after: tuple[np.ndarray, int] | None,
    steps: tuple[int, int], total: float,
) -> dict[str, Any]:  # fmt: skip
    """Means that add up, events of a step, and medians with quartiles; null without the part."""
    means = [
        int(part[0].sum()) / count if part else 0.0
        for part, count in zip((before, after), steps, strict=True)
    ]
    row: dict[str, Any] = {
        "count_before": before[1] / steps[0] if before else 0.0,
        "count_after": after[1] / steps[1] if after else 0.0,
        "ns_before": means[0],
        "ns_after": means[1],
        "delta_ns": means[1] - means[0],
        "share": (means[1] - means[0]) / total if total else None,
    }
    for label, part in (("before", before), ("after", after)):
        quartiles = np.percentile(part[0], [25, 50, 75]).tolist() if part else [None] * 3
        names = (f"p25_ns_{label}", f"median_ns_{label}", f"p75_ns_{label}")
        row |= dict(zip(names, quartiles, strict=True))
    return row
