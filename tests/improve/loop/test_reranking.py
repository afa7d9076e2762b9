"""Ranking again after a lever was kept: predictions on top of it, and another order."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from decode_traces import eager
from planted_engine import PlantedEngine, planted_workload
from policy_situations import candidate, description, diagnosis, known, lever, measurement, workload

from assay.improve.engines.protocol import EngineDescription, EngineKnob
from assay.improve.experiments.result import Block, ExperimentResult
from assay.improve.journal import journal as journals
from assay.improve.journal.run_folder import RunFolder
from assay.improve.levers.lever import Candidate
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions
from assay.improve.loop.reranking import on_top_of
from assay.improve.loop.resuming import workload_of
from assay.improve.policy.prediction import Prediction
from assay.improve.policy.predictors import whatif
from assay.improve.policy.ranking import rank
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting
from assay.observe.importers.kineto import read
from assay.observe.structure.recovery import recover
from assay.report.run import write_run

pytestmark = pytest.mark.usefixtures("without_fsync")

SHARED_MEMORY = Path("/dev/shm")


def kept(one: Candidate, tpot_ms: float, throughput: float) -> ExperimentResult:
    """An experiment whose treatment has these figures in each of two blocks."""
    figures = {"mean_tpot_ms": tpot_ms, "output_throughput": throughput}
    blocks = tuple(
        Block("e", at, 0, arm, 0.0, 1.0, throughput, 10, 1, "stable", {}, figures=values)
        for at, (arm, values) in enumerate(
            [("control", {"mean_tpot_ms": 99.0}), ("treatment", figures), ("treatment", figures)]
        )
    )
    return ExperimentResult("e", one, "improved", Interval(1.5, 1.4, 1.6), "", blocks)


def test_what_a_kept_lever_saved_is_no_longer_there_to_save() -> None:
    """A step of 1 ms: half of it launches, a fifth sampling. Graphs made it 0.55 ms."""
    graphs = lever("graphs", "graph_buckets", 8, addresses=("host launch",))
    bigger = lever("bigger kernels", "width", 2, addresses=("host launch",))
    sampler = lever("sampler", "threads", 0, addresses=("sampling",))
    start = known(
        levers={one.name: one for one in (graphs, bigger, sampler)},
        diagnosis=diagnosis({"host launch": 0.5, "sampling": 0.2}),
        baseline=measurement(mean_tpot_ms=1.0, output_throughput=1000.0),
        description=description(capabilities=frozenset({"cuda"})),
    )
    others = [candidate("bigger kernels", "width", 2), candidate("sampler", "threads", 0)]
    first, _ = rank(others, start)
    assert [one.levers[0] for one in first] == ["bigger kernels", "sampler"]
    assert [one.prediction.hi for one in first if one.prediction] == pytest.approx([2.0, 1.25])
    now = on_top_of(
        start,
        [kept(candidate("graphs", "graph_buckets", 8), 0.55, 1800.0)],
        {**start.settings, "graph_buckets": 8},
    )
    again, _ = rank(others, now)
    assert [one.levers[0] for one in again] == ["sampler", "bigger kernels"]
    # By Amdahl: 0.2 of 0.55 ms is sampling; 0.05 of 0.55 ms is launches.
    expected = [1 / (1 - 0.2 / 0.55), 1 / (1 - 0.05 / 0.55)]
    assert [one.prediction.hi for one in again if one.prediction] == pytest.approx(expected)
    assert now.figure("output_throughput") == 1800.0


def test_replays_of_both_levers_and_of_the_kept_one_give_the_ratio(tmp_path: Path) -> None:
    """Predicted of one lever, times predicted of the other on top: that of both, in either order."""
    trace = recover(read(eager().save(tmp_path / "eager.json"))).trace
    graphs = lever("graphs", "enforce_eager", False, changes=("launch=graph",))
    faster = lever("faster", "width", 2, changes=("kernel:.*=0.5x",))
    start = known(
        description=description(engine="vllm", capabilities=frozenset({"cuda"})),
        settings={"enforce_eager": True, "width": 1},
        workload=workload(1),
        levers={"graphs": graphs, "faster": faster},
        trace=trace,
    )
    one = candidate("graphs", "enforce_eager", False)
    other = candidate("faster", "width", 2)

    def predicted(asked: Candidate, *before: Candidate) -> float:
        settings = {**start.settings, **{k: v for each in before for k, v in each.changes.items()}}
        now = on_top_of(start, [kept(each, 1.0, 1000.0) for each in before], settings)
        answer = whatif.predict(asked, now)
        assert isinstance(answer, Prediction)
        return answer.ratio.value

    assert predicted(one) * predicted(other, one) == pytest.approx(
        predicted(other) * predicted(one, other)
    )
    # Kernels hide behind launches until graphs are in: only then does their speed matter.
    assert predicted(other) < 1.05
    assert predicted(other, one) > 1.3
    # What is in force already gains nothing more.
    assert predicted(one, one) == 1.0


LEVER = """\
  - name: {name}
    mechanism: m
    knobs: {{{knob}: [{value}]}}
    safety: safe
    hot: true
    correctness: bitwise
    reference: a test
"""
LEVERS = "format: assay.levers/1\nengine: fake\nlevers:\n" + "".join(
    LEVER.format(name=name, knob=knob, value=value)
    for name, knob, value in (
        ("batch", "max_batch", 5),
        ("threads", "threads", 4),
        ("sizes", "graph_buckets", 8),
    )
)


class PaddedEngine(PlantedEngine):
    """Batches between two captured sizes compute the rows of the larger one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settings = {"threads": 3, "max_batch": 1, "graph_buckets": 1}

    def describe(self) -> EngineDescription:
        return replace(super().describe(), hardware={"usable_cores": 4})

    def knobs(self) -> Mapping[str, EngineKnob]:
        return {
            name: EngineKnob(name, name, default, True, 1, 64)
            for name, default in (("threads", 3), ("max_batch", 1), ("graph_buckets", 1))
        }


def effect(settings: Mapping[str, Setting]) -> float:
    rows = 1.0 if settings["max_batch"] == 1 else 2.0
    sizes = 1.2 if settings["max_batch"] == 5 and settings["graph_buckets"] == 8 else 1.0
    return rows * sizes * (1.1 if settings["threads"] == 4 else 1.0)


@pytest.fixture
def levers() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as name:
        path = Path(name) / "levers.yaml"
        path.write_text(LEVERS)
        yield path


def test_the_loop_tries_in_the_order_of_the_new_baseline(levers: Path) -> None:
    """Graph sizes are worth nothing at batch 1; at batch 5 they save three rows of eight."""
    engine = PaddedEngine(effect=effect)
    asked = replace(planted_workload(), concurrency=5)
    options = RunOptions(budget_s=600.0, lever_files=(levers,), top_n=2)
    root = levers.parent / "runs"
    outcome = run_loop(engine, asked, options, write_run, root=root, clock=engine.clock)
    reading = journals.verify(outcome.run)
    ranked = reading.last("candidates")
    assert ranked is not None
    assert [one.partition(":")[0] for one in ranked.data["candidates"]] == [
        "batch", "threads", "sizes",
    ]  # fmt: skip
    again = reading.of("ranking")[0].data
    assert again["on"] == {"max_batch": 5}
    assert [one["levers"] for one in again["candidates"]] == [["sizes"], ["threads"]]
    trials = [one.data for one in reading.of("verdict") if one.data["role"] == "trial"]
    assert [one["candidate"]["levers"] for one in trials] == [["batch"], ["sizes"]]
    # The forecast that is scored is the one on top of the batch.
    assert trials[1]["candidate"]["predicted_on"] == {"max_batch": 5}
    # Eight rows over five, if a step takes as long as its rows; nothing, if it streams weights.
    assert trials[1]["candidate"]["prediction"]["hi"] == pytest.approx(8 / 5)
    assert any("ranked again" in one for one in outcome.notes)
    # A resumed run goes on in the new order.
    later = PaddedEngine(effect=effect, seed=1)
    folder = RunFolder(outcome.run)
    rest = RunOptions(budget_s=600.0, lever_files=(levers,))
    resumed = run_loop(
        later, workload_of(folder), rest, write_run, resume=folder, clock=later.clock
    )
    assert later.settings() == {"threads": 4, "max_batch": 5, "graph_buckets": 8}
    assert resumed.verdict == "improved"
