"""Predictions for the steps of a trace: one graph for each size of step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.diagnose import subject
from assay.diagnose.diagnosis import Situation
from assay.diagnose.request import Request
from assay.lazy_import import pl
from assay.observe import operations
from assay.observe.trace import Trace
from assay.planner.graph import Graph
from assay.planner.predict import predict_graph
from assay.planner.specs import BatchConfig

GRID: Final = (1, 64, 256, 1024, 4096, 16_384, 65_536, 262_144)
"""Context lengths that are predicted first."""
REFINEMENTS: Final = 3


@dataclass(frozen=True, slots=True)
class ContextLength:
    """Tokens in the KV cache of a sequence, and the range that the prediction's interval allows."""

    tokens: int
    lo: int
    hi: int
    source: str = "attention"
    """attention: from its time, which it then does not test; trace: the tokens that it shows."""


def infer(observed_ns: float, predict: Callable[[int], Graph]) -> ContextLength | None:
    """The context at which attention is predicted to take as long as it did.

    None where the prediction has no attention. The longer the context, the longer attention takes:
    between two lengths it is close to a line.
    """
    times: dict[int, tuple[float, float, float]] = {}

    def at(tokens: int) -> tuple[float, float, float]:
        if tokens not in times:
            nodes = [
                node for node in predict(tokens).nodes if "attention" in node.operation.split("+")
            ]
            times[tokens] = (
                sum(node.expected_ns for node in nodes),
                sum(node.lo_ns for node in nodes),
                sum(node.hi_ns for node in nodes),
            )
        return times[tokens]

    for tokens in GRID:
        expected, lo, _ = at(tokens)
        if not expected:
            return None
        if lo > observed_ns:
            break
    for _ in range(REFINEMENTS):
        at(_solve(times, observed_ns, 0))
    context = _solve(times, observed_ns, 0)
    # The longest time at a length bounds the context from below.
    return ContextLength(
        context,
        min(_solve(times, observed_ns, 2), context),
        max(_solve(times, observed_ns, 1), context),
    )


def _solve(times: dict[int, tuple[float, float, float]], observed: float, which: int) -> int:
    """Where the line through the predicted times meets the observed one."""
    tokens = np.array(sorted(times), np.float64)
    values = np.maximum.accumulate([times[int(token)][which] for token in tokens])
    if observed <= values[0]:
        return int(tokens[0])
    return max(round(float(np.interp(observed, values, tokens))), 1)


GRAPHS: Final = 12
"""Predictions that are made at most: one for each size of step, the most frequent first."""


@dataclass(frozen=True, slots=True)
class StepPredictions:
    """Graphs, that of the most frequent decode step first, and what they assume."""

    graphs: tuple[Graph, ...]
    batch: int | None
    context: int | None
    length: ContextLength | None
    """The context, where the trace does not state it."""
    notes: tuple[str, ...]

    @property
    def inferred(self) -> int | None:
        """The tokens of `length`."""
        return self.length.tokens if self.length else None


def predict_steps(trace: Trace, request: Request, situation: Situation) -> StepPredictions:
    """A graph for each size of step, up to `GRAPHS`."""
    notes: list[str] = []
    groups = subject.groups(trace)
    if not groups:
        notes.append("no prediction: the trace does not show the size of any step")
        return StepPredictions((), None, None, None, tuple(notes))
    first = groups[0]
    inferred = None
    if first.phase == "decode" and first.context is None:
        inferred = _inferred(trace, request, situation, first, notes)
    context = inferred.tokens if inferred else first.context
    graphs = []
    for group in groups[:GRAPHS]:
        graph = _predict(request, situation, group, group.context or context or 0)
        graphs.append(graph)
        notes += graph.degradations
    left = groups[GRAPHS:]
    if left:
        notes.append(
            f"{sum(group.steps for group in left)} steps of {len(left)} further sizes have no prediction"
        )
    return StepPredictions(
        tuple(graphs),
        first.batch if first.phase == "decode" else None,
        context,
        inferred,
        tuple(dict.fromkeys(notes)),
    )


def _predict(request: Request, situation: Situation, group: subject.Group, context: int) -> Graph:
    assert request.model is not None
    assert request.hardware is not None
    assert situation.engine is not None
    return predict_graph(
        request.model,
        request.hardware,
        BatchConfig(
            sequences=group.batch,
            context=max(context, 1) if group.batch else 0,
            prefill_tokens=group.prefill_tokens,
            # Prompts attend to themselves only: four of 4,096 tokens are not one of 16,384.
            prompt=group.prefill_tokens // group.prompts if group.prompts > 1 else 0,
            tensor=situation.tensor,
            weight_dtype=request.weight_dtype or request.model.weight_dtype or "bf16",
            kv_dtype=request.kv_dtype,
            engine=situation.engine,
            cuda_graphs=situation.cuda_graphs,
        ),
    )


def _inferred(
    trace: Trace, request: Request, situation: Situation, group: subject.Group, notes: list[str]
) -> ContextLength | None:
    """The context of the most frequent decode steps from their attention."""
    observed = _attention_ns(trace, group)
    inferred = None
    if observed:
        inferred = infer(observed, lambda tokens: _predict(request, situation, group, tokens))
    least = _least_context(trace)
    unstated = "the trace does not state the context of its steps: taken as"
    if inferred is None:
        notes.append(f"{unstated} {least:,}, the tokens that it shows; --context gives it")
        return ContextLength(least, least, least, "trace")
    if inferred.tokens <= least:
        notes.append(
            f"{unstated} {least:,}, the tokens that it shows: attention takes {observed / 1e3:,.0f} "
            "us, no longer than predicted for them; --context gives it"
        )
        return ContextLength(least, least, max(inferred.hi, least), "trace")
    notes.append(
        f"{unstated} {inferred.tokens:,} tokens, at which attention is predicted to take the "
        f"{observed / 1e3:,.0f} us that it did (its interval allows {max(inferred.lo, least):,} to "
        f"{inferred.hi:,}); attention is then not predicted independently; --context gives it"
    )
    return inferred


def _least_context(trace: Trace) -> int:
    """Tokens that a sequence has at the median step: those of a prompt and of steps before."""
    steps = trace.steps.with_columns(pl.col("phase").cast(pl.String))
    prompts = steps.filter((pl.col("phase") == "prefill") & (pl.col("requests") > 0))
    shortest = prompts.select((pl.col("prefill_tokens") // pl.col("requests")).min()).item()
    decoded = steps.filter(pl.col("phase") == "decode").height // 2
    return max(int(shortest or 0) + decoded, 1)


def _attention_ns(trace: Trace, group: subject.Group) -> float:
    """The median time of attention in these steps."""
    chosen = trace.steps.filter(
        (pl.col("phase").cast(pl.String) == "decode") & (pl.col("batch") == group.batch)
    ).select("step", "rank")
    names = trace.events["op"].unique().drop_nulls().cast(pl.String)
    wanted = [name for name in names if "attention" in operations.parts(name)]
    sums = (
        trace.events.lazy()
        .filter(pl.col("op").cast(pl.String).is_in(wanted))
        .join(chosen.lazy(), on=["step", "rank"], how="semi", nulls_equal=True)
        .group_by("step", "rank", "device")
        .agg(pl.col("dur_ns").sum())
        .collect()
    )
    value = sums["dur_ns"].median()
    return float(value) if isinstance(value, (int, float)) else 0.0
