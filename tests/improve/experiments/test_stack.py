"""Joint candidates, the confirmation, levers left out, and interactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from planted_engine import START, PlantedEngine, planted_workload

from assay.errors import InputError
from assay.improve.experiments.experiment import run_experiment
from assay.improve.experiments.interactions import interaction, joint_candidates
from assay.improve.experiments.result import ExperimentResult
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.experiments.stack import confirm, joint, leave_one_out
from assay.improve.levers.lever import Candidate
from assay.load.figure import Figure
from assay.load.workloads.measurement import Setting

SETTINGS = ExperimentSettings(budget_s=120.0, noise_sd=0.015)


def candidate(changes: dict[str, Any], **given: Any) -> Candidate:
    name = ",".join(f"{knob}={value}" for knob, value in changes.items())
    values: dict[str, Any] = {"correctness": "bitwise", "safety": "safe", "hot": True} | given
    return Candidate(name, tuple(changes), changes, **values)


THREADS = candidate({"threads": 2}, prediction=Figure(1.5, 1.2, 1.8))
BATCH = candidate({"max_batch": 4}, prediction=Figure(1.2, 1.0, 1.4), safety="may slow")
GRAPHS = candidate({"graphs": True}, correctness="rounding", hot=False)


def run(engine: PlantedEngine, one: Candidate) -> ExperimentResult:
    return run_experiment(engine, planted_workload(), one, SETTINGS, clock=engine.clock)


def test_a_joint_candidate_has_the_strictest_classes() -> None:
    both = joint([THREADS, BATCH])
    assert both.changes == {"threads": 2, "max_batch": 4}
    assert both.prediction == pytest.approx(Figure(1.8, 1.2, 2.52))
    assert (both.correctness, both.safety, both.hot) == ("bitwise", "may slow", True)
    three = joint([THREADS, BATCH, GRAPHS])
    assert (three.correctness, three.hot, three.prediction) == ("rounding", False, None)
    with pytest.raises(InputError, match="one value of threads"):
        joint([THREADS, candidate({"threads": 1})])


def test_the_stack_is_measured_again_and_left_in_place() -> None:
    engine = PlantedEngine()
    engine.configure(joint([THREADS, BATCH]).changes)
    result = confirm(
        engine, planted_workload(), [THREADS, BATCH], START, SETTINGS, clock=engine.clock
    )
    assert result.verdict == "improved"
    assert result.ratio is not None
    assert result.ratio.lo <= 2.0 <= result.ratio.hi
    assert engine.settings() == {**START, "threads": 2, "max_batch": 4}


def test_credit_goes_to_the_lever_that_earns_it() -> None:
    engine = PlantedEngine()
    stack = [THREADS, BATCH, candidate({"graphs": True})]
    engine.configure(joint(stack).changes)
    found = leave_one_out(engine, planted_workload(), stack, START, SETTINGS, clock=engine.clock)
    verdicts = {name: one.verdict for name, one in found.items()}
    assert verdicts == {
        "threads=2": "improved",
        "max_batch=4": "improved",
        "graphs=True": "undecided",
    }
    assert engine.settings() == {**START, **joint(stack).changes}


def test_levers_that_need_each_other() -> None:
    def needs_both(now: Mapping[str, Setting]) -> float:
        return 1.4 if now["threads"] == 2 and now["graphs"] else 1.0

    engine = PlantedEngine(effect=needs_both, noise=0.005)
    one, two = candidate({"threads": 2}), candidate({"graphs": True})
    singles = [run(engine, one), run(engine, two)]
    assert [result.verdict for result in singles] == ["undecided", "undecided"]
    (both,) = joint_candidates(singles)
    together = run(engine, both)
    found = interaction(singles, together)
    assert together.verdict == "improved"
    assert found is not None
    assert found.kind == "synergy"
    assert found.ratio.lo <= 1.4 <= found.ratio.hi


def test_levers_that_stand_in_each_others_way() -> None:
    def either(now: Mapping[str, Setting]) -> float:
        return 1.4 if now["threads"] == 2 or now["graphs"] else 1.0

    engine = PlantedEngine(effect=either, noise=0.005)
    singles = [run(engine, candidate({"threads": 2})), run(engine, candidate({"graphs": True}))]
    found = interaction(singles, run(engine, joint_candidates(singles)[0]))
    assert found is not None
    assert found.kind == "interference"


def test_failed_and_conflicting_candidates_are_not_joined() -> None:
    engine = PlantedEngine(fails=lambda now: "OOM" if now["max_batch"] == 64 else None)
    results = [
        run(engine, one)
        for one in (THREADS, candidate({"max_batch": 64}), candidate({"max_batch": 4}))
    ]
    names = [one.name for one in joint_candidates(results)]
    assert names == ["threads=2 + max_batch=4"]
