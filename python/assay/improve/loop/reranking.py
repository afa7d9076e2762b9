"""Ranking again after a lever was kept: what the others gain on top of it, not of the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from assay.improve.experiments.result import ExperimentResult
from assay.improve.journal.chain import plain
from assay.improve.levers.lever import Candidate
from assay.improve.loop.state import RunState
from assay.improve.policy.known import Known
from assay.improve.policy.ranking import TrialCost, rank
from assay.load.workloads.measurement import Setting

STEP: Final = "mean_tpot_ms"
"""The figure of a block that a step's time follows from."""


def rerank(state: RunState, pending: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that are left, predicted on top of what is kept now, in the order of trying.

    Predictions take the settings of now and the figures that the kept treatment measured. The trace is
    still one of the start: replays show both sides with the kept changes, and what kept levers saved
    is taken off the causes that they address.
    """
    if state.chosen.known is None:
        state.degrade(
            "a resumed run has no trace at hand: candidates keep the predictions of its earlier part"
        )
        return list(pending)
    known = on_top_of(
        state.chosen.known, state.stack.results, {**state.start, **state.stack.changes}
    )
    reranked, skipped = rank(
        pending,
        known,
        history=state.chosen.past,
        cost=TrialCost(restart_s=state.restart_s),
        constraints=state.chosen.constraints,
    )
    state.skipped += [(candidate.lever, candidate.reason) for candidate in skipped]
    ranked = [replace(candidate, predicted_on=dict(state.stack.changes)) for candidate in reranked]
    _note(state, pending, ranked)
    state.journal.append(
        "ranking",
        on=dict(state.stack.changes),
        candidates=[plain(candidate) for candidate in ranked],
    )
    return ranked


def on_top_of(
    known: Known, kept: Sequence[ExperimentResult], settings: Mapping[str, Setting]
) -> Known:
    """What is known of the start, with kept levers in force; measured figures replace predicted ones."""
    before = None if known.baseline is None else known.baseline.figures.get(STEP)
    figures = _measured(kept[-1]) if kept else {}
    after = figures.get(STEP)
    baseline = known.baseline
    if baseline is not None:
        baseline = replace(baseline, figures={**baseline.figures, **figures}, settings=settings)
    return replace(
        known,
        settings=settings,
        baseline=baseline,
        kept=tuple(result.candidate for result in kept),
        step_scale=after / before if before and after else 1.0,
    )


def _measured(result: ExperimentResult) -> dict[str, float]:
    """Mean figures of the treatment, over the blocks that count."""
    blocks = [
        block.figures for block in result.blocks if block.arm == "treatment" and not block.dropped
    ]
    names = set.intersection(*(set(block) for block in blocks)) if blocks else set()
    return {name: sum(block[name] for block in blocks) / len(blocks) for name in sorted(names)}


def _note(state: RunState, before: Sequence[Candidate], after: Sequence[Candidate]) -> None:
    """Say so where the order has changed."""
    names = {candidate.name for candidate in after}
    old = [candidate.name for candidate in before if candidate.name in names]
    new = [candidate.name for candidate in after]
    if old == new:
        return
    state.notes.append(
        f"after {state.stack.results[-1].candidate.name} was kept, the rest was ranked again: "
        f"{new[0]} is next" + ("" if new[0] == old[0] else f", not {old[0]}")
    )
