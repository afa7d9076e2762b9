"""After a rollback the metric is shown to be what it was, or said not to be."""

from pathlib import Path

import pytest
from planted_engine import PlantedEngine

from assay.improve.experiments.result import Block
from assay.improve.journal import run_folder
from assay.improve.journal.block_table import block_of
from assay.improve.journal.journal import Journal, verify
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.rollback_check import EXPERIMENT, check_rollback
from assay.load.workloads.workload import PlannedRequest, Window, Workload

WORKLOAD = Workload("w", "", tuple(PlannedRequest(number, "p", 16) for number in range(4)))
WINDOW = Window(requests=4)


def measured(engine: PlantedEngine, count: int) -> list[Block]:
    blocks = []
    for index in range(count):
        found = engine.measure(WORKLOAD, WINDOW)
        blocks.append(
            Block(
                "noise", index, index, "control", 0.0, found.seconds,
                found.figures["output_throughput"], found.output_tokens, 4, "stable", {},
            )
        )  # fmt: skip
    return blocks


@pytest.mark.parametrize(("slower", "shown"), [(1.0, True), (0.9, False)])
def test_the_metric_after_a_rollback(tmp_path: Path, slower: float, shown: bool) -> None:
    inner = PlantedEngine(noise=0.005)
    before = measured(inner, 8)
    run = run_folder.create("test", tmp_path)
    with Journal.create(run.path) as journal:
        engine = JournaledEngine(inner, journal, run)
        engine.configure({"threads": 2})
        engine.revert("a fault", automatic=True)
        # What a change broke for good, the settings do not show.
        inner.rate *= slower
        found = check_rollback(engine, WORKLOAD, WINDOW, before, journal)
    assert found is not None
    assert found.equivalent is shown
    assert found.ratio.value == pytest.approx(slower, rel=0.02)
    records = verify(run.path)
    assert records.of("equivalence")[0].data["equivalent"] is shown
    blocks = [block_of(one.data) for one in records.of("block")]
    assert {one.experiment for one in blocks} == {EXPERIMENT}
    assert len(blocks) == 8


def test_without_blocks_before_the_change_nothing_is_claimed(tmp_path: Path) -> None:
    inner = PlantedEngine()
    run = run_folder.create("test", tmp_path)
    with Journal.create(run.path) as journal:
        found = check_rollback(inner, WORKLOAD, WINDOW, measured(inner, 1), journal)
    assert found is None
    assert "not tested" in verify(run.path).of("degradation")[0].data["text"]
