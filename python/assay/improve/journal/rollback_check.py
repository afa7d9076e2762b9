"""After a rollback: shows that the metric is what it was before the change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.improve.engines.protocol import Engine
from assay.improve.experiments.equivalence import MARGIN, Equivalence, equivalent
from assay.improve.experiments.result import Block
from assay.improve.journal.block_table import block_data
from assay.improve.journal.journal import Journal
from assay.load.workloads.workload import Window, Workload

EXPERIMENT: Final = "after rollback"
FEWEST, MOST = 4, 12
"""Blocks that are measured after a rollback: as many as there were before, within these limits."""


def check_rollback(
    engine: Engine,
    workload: Workload,
    window: Window,
    before: Sequence[Block],
    journal: Journal,
    margin: float = MARGIN,
) -> Equivalence | None:
    """Measure blocks after a rollback and compare them with blocks before the change (TOST).

    The number of blocks is fixed beforehand, so that the test is not repeated until it passes. None
    where there are too few blocks to compare with, which is recorded as a degradation.
    """
    values = [block.value for block in before if not block.dropped and block.value > 0.0]
    if len(values) < 2:
        text = f"{len(values)} blocks before the change: equivalence after the rollback not tested"
        journal.append("degradation", text=text)
        return None
    taken = min(max(len(values), FEWEST), MOST)
    blocks = [_block(engine, workload, window, index) for index in range(taken)]
    for block in blocks:
        journal.append("block", **block_data(block))
    rollback = equivalent(values, [block.value for block in blocks if not block.dropped], margin)
    journal.append("equivalence", **rollback._asdict(), blocks=taken)
    return rollback


def _block(engine: Engine, workload: Workload, window: Window, index: int) -> Block:
    measured = engine.measure(workload, window)
    value = measured.figures.get(workload.objective.metric, 0.0)
    reasons = [*measured.disturbances, *(["nothing was measured"] if value <= 0.0 else [])]
    return Block(
        EXPERIMENT,
        index,
        index,
        "control",
        measured.started_at,
        measured.seconds,
        value,
        measured.output_tokens,
        len(measured.records),
        measured.load_state,
        measured.settings,
        "; ".join(reasons),
        measured.figures,
    )
