"""One experiment: a candidate against the settings of now, behind every gate."""

from __future__ import annotations

import time

from assay.improve.engines.protocol import Engine
from assay.improve.experiments.blocks import OnBlock
from assay.improve.experiments.correctness import Reference
from assay.improve.experiments.outputs.ledger import KnownAnswers
from assay.improve.experiments.result import ExperimentResult
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.experiments.trial import Clock, ExperimentLostError, OnLook, Trial
from assay.improve.levers.lever import Candidate
from assay.load.workloads.workload import Workload

__all__ = ["ExperimentLostError", "run_experiment"]


def run_experiment(
    engine: Engine,
    workload: Workload,
    candidate: Candidate,
    settings: ExperimentSettings | None = None,
    *,
    name: str | None = None,
    reference: Reference | None = None,
    on_block: OnBlock | None = None,
    on_look: OnLook | None = None,
    clock: Clock = time.monotonic,
    known: KnownAnswers | None = None,
    earlier: ExperimentResult | None = None,
) -> ExperimentResult:
    """Measure a candidate against the settings of now; the engine ends where it began.

    `reference` are the baseline's probes, measured here where they are not given; `known` are answers
    of the settings of now, to which those of this experiment are added; `earlier` is an undecided
    result of the same candidate on the same settings to go on from. A trial that
    fails (crash, OOM, hang, timeout, refused) is a result with `failure`; raises
    `ExperimentLostError` only where the engine does not come back.
    """
    trial = Trial(
        engine,
        workload,
        candidate,
        settings or ExperimentSettings(),
        name,
        on_block,
        on_look,
        clock,
        known,
        earlier,
    )
    return trial.run(reference)
