"""Intervals summed by step and by operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from assay.diagnose.itemizing.decomposition import Decomposition
from assay.diagnose.itemizing.matching import graph_phase
from assay.diagnose.terms import TERMS
from assay.lazy_import import pl

if TYPE_CHECKING:
    from assay.planner.graph import Graph


STEP: Final = ("rank", "device", "step")
"""What names a step: several devices number theirs alike."""


def kernels_table(decompositions: Sequence[Decomposition], steps: pl.DataFrame) -> pl.DataFrame:
    """One row a device event of a step: what it belongs to and how long it took."""
    parts = []
    for decomposition in decompositions:
        rank, _, device = decomposition.lane.key
        events = decomposition.events
        names = dict(enumerate(decomposition.prediction.names))
        frame = pl.DataFrame(
            {
                "row": events.row,
                "step": events.step,
                "operation": decomposition.prediction.site_codes[events.operation],
                "layer": events.layer,
                "start_ns": events.start,
                "dur_ns": events.end - events.start,
            }
        )
        parts.append(
            frame.select(
                "row",
                "step",
                pl.lit(rank if rank >= 0 else None, pl.Int32).alias("rank"),
                pl.lit(device if device >= 0 else None, pl.Int32).alias("device"),
                pl.col("operation").replace_strict(names, default=None, return_dtype=pl.String),
                pl.when(pl.col("layer") >= 0).then(pl.col("layer")).cast(pl.Int32).alias("layer"),
                "start_ns",
                "dur_ns",
            )
        )
    known = steps.select(*STEP, "phase", "is_whole", "is_predicted")
    return pl.concat(parts).join(known, on=STEP, nulls_equal=True, maintain_order="left")


def steps_table(
    decompositions: Sequence[Decomposition], graphs: Sequence[Graph], intervals: pl.DataFrame
) -> pl.DataFrame:
    """One row a step with its terms."""
    sums = intervals.group_by(STEP).agg(
        *(pl.col("dur_ns").filter(pl.col("term") == name).sum().alias(name) for name in TERMS)
    )
    parts = []
    for decomposition in decompositions:
        steps, edges = decomposition.lane.steps, decomposition.lane.edges
        rank, _, device = decomposition.lane.key
        graph_of = [decomposition.matched.get(number) for number in steps["step"].to_list()]
        figures = [_step_figures(None if at is None else graphs[at]) for at in graph_of]
        parts.append(
            steps.select(
                "step",
                pl.lit(rank if rank >= 0 else None, pl.Int32).alias("rank"),
                pl.lit(device if device >= 0 else None, pl.Int32).alias("device"),
                pl.col("phase").cast(pl.String),
                "batch",
                "prefill_tokens",
                "context",
                "requests",
            ).with_columns(
                pl.Series("start_ns", edges[:-1]),
                pl.Series("observed_ns", edges[1:] - edges[:-1]),
                pl.Series("is_whole", [True] * (steps.height - 1) + [False]),
                pl.Series("is_predicted", [at is not None for at in graph_of]),
                *(
                    pl.Series(name, [row[name] for row in figures], pl.Float64)
                    for name in ("expected_ns", "lo_ns", "hi_ns", "floor_ns")
                ),
            )
        )
    return pl.concat(parts).join(sums, on=STEP, how="left", nulls_equal=True, maintain_order="left")


def _step_figures(graph: Graph | None) -> dict[str, float | None]:
    step = graph.totals.get("step") if graph else None
    floor = graph.totals.get("floor") if graph else None
    return {
        "expected_ns": step.value if step else None,
        "lo_ns": step.lo if step else None,
        "hi_ns": step.hi if step else None,
        "floor_ns": floor.value if floor else None,
    }


def operations_table(
    decompositions: Sequence[Decomposition],
    graphs: Sequence[Graph],
    steps: pl.DataFrame,
    kernels: pl.DataFrame,
) -> pl.DataFrame:
    """One row an operation, phase and layer, over whole steps; means a step and device."""
    whole = steps.filter(pl.col("is_whole")) if steps["is_whole"].any() else steps
    # A phase whose steps have a graph is summed over those that have it, of its most frequent size:
    # a mean over other batches than the one that is shown would stand beside its prediction.
    chosen = _of_one_size(
        whole.filter(pl.col("is_predicted") | ~pl.col("is_predicted").any().over("phase"))
    ).select("rank", "device", "step", "phase")
    counts = dict(chosen.group_by("phase").len().rows())
    keys = ["phase", "operation", "layer"]
    owned = pl.concat(
        [
            decomposition.intervals.filter(pl.col("row").is_not_null())
            for decomposition in decompositions
        ]
    )
    observed = (
        owned.join(chosen, on=STEP, nulls_equal=True)
        .with_columns(pl.col("operation").cast(pl.String))
        .group_by(keys)
        .agg(observed_ns=pl.col("dur_ns").sum().cast(pl.Float64))
    )
    # Kernels that others hide own no time, and count all the same.
    kernels = (
        kernels.join(chosen, on=STEP, how="semi", nulls_equal=True)
        .sort("start_ns")
        .with_columns(end=pl.col("start_ns") + pl.col("dur_ns"))
        .with_columns(before=pl.col("end").cum_max().shift(1).over(*STEP, "operation", "layer"))
        .group_by(keys)
        .agg(
            count=pl.len().cast(pl.Float64),
            # A union: kernels of one site may overlap.
            kernel_ns=(pl.col("end") - pl.max_horizontal("start_ns", "before"))
            .clip(0)
            .sum()
            .cast(pl.Float64),
        )
    )
    table = kernels.join(observed, on=keys, how="left", nulls_equal=True).with_columns(
        pl.col("observed_ns").fill_null(0.0)
    )
    each = pl.col("phase").replace_strict(list(counts), list(counts.values()), default=1)
    table = table.with_columns(pl.col("observed_ns", "kernel_ns", "count") / each)
    predicted = pl.DataFrame(
        _predicted(decompositions, graphs),
        schema={
            "phase": pl.String, "operation": pl.String, "layer": pl.Int32,
            "expected_ns": pl.Float64, "lo_ns": pl.Float64, "hi_ns": pl.Float64,
            "floor_ns": pl.Float64, "flops": pl.Float64, "bytes": pl.Float64, "bound": pl.String,
        },
    )  # fmt: skip
    return (
        table.join(predicted, on=keys, how="left", nulls_equal=True)
        .with_columns(residual_ns=pl.col("observed_ns") - pl.col("expected_ns"))
        .select(
            "operation", "phase", "layer", "count", "observed_ns", "kernel_ns", "expected_ns",
            "lo_ns", "hi_ns", "floor_ns", "residual_ns", "flops", "bytes", "bound",
        )
        .sort("phase", "layer", "observed_ns", descending=[False, False, True], nulls_last=True)
    )  # fmt: skip


def _of_one_size(steps: pl.DataFrame) -> pl.DataFrame:
    """Of each phase, the steps of the size that most of them have; of equally frequent ones the largest."""
    size = pl.when(pl.col("phase") == "decode").then("batch").otherwise("prefill_tokens")
    sized = steps.with_columns(size.fill_null(-1).alias("size"))
    sized = sized.with_columns(alike=pl.len().over("phase", "size"))
    common = sized.filter(pl.col("alike") == pl.col("alike").max().over("phase"))
    return common.filter(pl.col("size") == pl.col("size").max().over("phase"))


def _predicted(
    decompositions: Sequence[Decomposition], graphs: Sequence[Graph]
) -> list[dict[str, Any]]:
    rows: dict[tuple[str | None, str, int | None], dict[str, Any]] = {}
    for decomposition in decompositions:
        for graph, sites in zip(graphs, decomposition.prediction.by_graph, strict=True):
            # Calls of a case have no phase.
            phase = graph_phase(graph) or None
            for (name, layer), site in sites.items():
                rows.setdefault(
                    (phase, name, layer),
                    {
                        "phase": phase,
                        "operation": name,
                        "layer": layer,
                        "expected_ns": site.expected_ns,
                        "lo_ns": site.lo_ns,
                        "hi_ns": site.hi_ns,
                        "floor_ns": site.floor_ns,
                        "flops": site.flops,
                        "bytes": site.bytes,
                        "bound": site.bound,
                    },
                )
    return list(rows.values())
