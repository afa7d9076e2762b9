"""The A/A noise floor of a run: what a difference must exceed to be seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from assay.errors import NoDataError
from assay.improve.experiments.correctness import baseline_reference
from assay.improve.experiments.noise import measure_noise
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.loop.allotment import Allotment
from assay.improve.loop.state import Control, RunState
from assay.improve.loop.trials import verdict_data

SHARE: Final = 0.12
"""Part of the time for experiments that the noise floor takes."""
LEAST_S: Final = 2.0
BLOCK_SHARE: Final = 0.004
"""Length of a block as a part of the time for experiments, within the limits below."""
LEAST_BLOCK_S: Final = 0.3
MOST_BLOCK_S: Final = 10.0
EFFECT: Final = 0.03
"""The change that blocks are sized to find first."""


def noise_floor(state: RunState) -> Allotment:
    """Probe the start against itself, measure it against itself; how long trials take here."""
    state.progress.say("probing the start: does it repeat its own answers?")
    reference = baseline_reference(state.engine)
    state.control = Control(reference)
    gate = reference.gate
    if not gate.passed:
        raise NoDataError(
            f"the engine as it was found does not pass the correctness gate: {gate.statement}",
            "a gain over wrong answers is worth nothing; mend the baseline first",
        )
    seconds = max(state.budget.left("experiments"), LEAST_S / SHARE)
    base = ExperimentSettings(
        budget_s=max(SHARE * seconds, LEAST_S),
        block_s=min(max(BLOCK_SHARE * seconds, LEAST_BLOCK_S), MOST_BLOCK_S),
        practical_threshold=state.options.threshold,
        allow_lossy=state.options.allow_lossy,
        seed=state.options.seed,
    )
    state.progress.say("measuring the noise: the start against itself (A/A)")
    result, floor = measure_noise(
        state.engine, state.workload, base, on_block=state.keep_block, clock=state.budget.clock
    )
    state.control = replace(state.control, noise=result)
    state.journal.append("noise", **verdict_data(result))
    state.progress.result(result.reason)
    if result.verdict == "invalid":
        state.degrade(f"A/A: {result.reason}")
    settings = replace(floor.settings(base, EFFECT), switch_s=state.restart_s)
    return Allotment(floor, settings, state.restart_s)
