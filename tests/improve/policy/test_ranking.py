"""The order of trying: by gain and cost, with what past runs found."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from policy_situations import (
    SETTINGS,
    candidate,
    description,
    diagnosis,
    known,
    lever,
    measurement,
    workload,
)

from assay.improve.experiments.result import ExperimentResult
from assay.improve.journal import run_folder
from assay.improve.journal.chain import plain
from assay.improve.journal.journal import Journal
from assay.improve.levers.lever import Candidate
from assay.improve.loop.phases.candidates import qualify
from assay.improve.policy import history
from assay.improve.policy.fingerprint import Fingerprint, fingerprint
from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Prediction, between
from assay.improve.policy.ranking import TrialCost, expected_gain, rank
from assay.intervals import Interval

GRAPHS = lever("graphs", "graph_buckets", 8, 4)
WIDER = lever("wider", "width", 2, 4, 8)


def predicting(ratios: dict[object, Interval]) -> Callable[[Candidate, Known], Prediction | str]:
    """A predictor that knows the ratios of values."""

    def predict(one: Candidate, _: Known) -> Prediction | str:
        found = ratios.get(next(iter(one.changes.values())))
        return "unheard of" if found is None else Prediction(found, "planted")

    return predict


def exact(value: float) -> Interval:
    return Interval(value, value * 0.99, value * 1.01)


def test_gain_decides_and_a_restart_costs() -> None:
    live = candidate("wider", "width", 2)
    restarted = candidate("graphs", "graph_buckets", 8, hot=False)
    predictor = predicting({2: exact(1.2), 8: exact(1.3)})
    order, skipped = rank([live, restarted], known(), predictors=[predictor])
    assert [one.levers[0] for one in order] == ["graphs", "wider"]
    assert not skipped
    order, _ = rank(
        [live, restarted], known(), predictors=[predictor], cost=TrialCost(10.0, restart_s=90.0)
    )
    assert [one.levers[0] for one in order] == ["wider", "graphs"]
    assert [one.cost_s for one in order] == [10.0, 370.0]
    assert order[0].prediction == exact(1.2)
    assert order[0].predicted_by == "planted"


def test_the_best_value_of_each_lever_comes_before_the_second_of_any() -> None:
    several = [candidate("wider", "width", value) for value in (2, 4, 8)]
    other = candidate("graphs", "graph_buckets", 7)
    ratios = {2: exact(1.5), 4: exact(2.0), 8: exact(1.7), 7: exact(1.01)}
    order, _ = rank([*several, other], known(), predictors=[predicting(ratios)])
    assert [next(iter(one.changes.values())) for one in order] == [4, 7, 8, 2]


def test_without_a_prediction_it_comes_between_gains_and_losses() -> None:
    blind = candidate("wider", "width", 2)
    order, _ = rank(
        [blind, candidate("graphs", "graph_buckets", 8), candidate("threads", "threads", 1)],
        known(),
        predictors=[predicting({8: exact(1.05), 1: between(0.5, 1.0)})],
    )
    assert [one.levers[0] for one in order] == ["graphs", "wider", "threads"]
    assert order[1].prediction is None
    assert order[1].predicted_by == "no prediction: unheard of"


def test_expected_gain_counts_only_the_side_above_one() -> None:
    """The mean of max(log ratio, 0): exact figures, and half a normal around 1."""
    assert expected_gain(exact(2.0)) == pytest.approx(0.6931, abs=1e-3)
    assert expected_gain(exact(0.5)) == pytest.approx(0.0, abs=1e-3)
    # A standard deviation of 0.1: 0.1 / sqrt(2 pi).
    assert expected_gain(Interval(1.0, 0.8483, 1.1788)) == pytest.approx(0.0399, abs=1e-3)


def stored_run(
    root: Path, mark: Fingerprint, results: list[ExperimentResult], control: dict[str, object]
) -> str:
    folder = run_folder.create("past", root)
    with Journal.create(folder.path) as journal:
        journal.append("fingerprint", **mark.to_data())
        for one in results:
            journal.append(
                "experiment", name=one.experiment, candidate=plain(one.candidate), control=control
            )
            journal.append("verdict", role="trial", **plain(one))
    return folder.id


def result(
    one: Candidate, ratio: Interval | None, verdict: str = "improved", failure: str = ""
) -> ExperimentResult:
    return ExperimentResult(f"1 {one.name}", one, verdict, ratio, "", failure=failure)  # type: ignore[arg-type]


def test_past_runs_of_the_fingerprint_are_pooled_and_others_are_not(tmp_path: Path) -> None:
    mark = fingerprint(description(), workload())
    tried = candidate("wider", "width", 2)
    stored_run(tmp_path, mark, [result(tried, exact(1.4))], dict(SETTINGS))
    other = fingerprint(description(release="2"), workload())
    stored_run(tmp_path, other, [result(tried, exact(9.0))], dict(SETTINGS))
    past = history.read(mark, tmp_path)
    assert past.runs == 1
    (found,), _ = rank([tried], known(), history=past, predictors=[predicting({})])
    assert found.prediction is not None
    assert found.prediction.value == pytest.approx(1.4)
    assert found.predicted_by == "1 past trial on this fingerprint"
    (both,), _ = rank(
        [tried], known(), history=past, predictors=[predicting({2: Interval(1.0, 0.5, 2.0)})]
    )
    assert both.prediction is not None
    assert both.prediction.value == pytest.approx(1.39, abs=0.02)
    assert both.predicted_by == "planted; 1 past trial on this fingerprint"
    # From another value of the knob it is another change.
    elsewhere = known(settings={**SETTINGS, "width": 4})
    (blind,), _ = rank([tried], elsewhere, history=past, predictors=[predicting({})])
    assert blind.prediction is None


def test_past_failures_forbid_what_is_riskier(tmp_path: Path) -> None:
    mark = fingerprint(description(), workload())
    failed = candidate("batch", "max_batch", 64)
    run = stored_run(tmp_path, mark, [result(failed, None, "invalid", "OOM")], dict(SETTINGS))
    batch = lever("batch", "max_batch", 32, 64, 128)
    declared = type(batch.knobs[0])("max_batch", (32, 64, 128), "larger")
    levers = {"batch": replace(batch, knobs=(declared,))}
    order, skipped = rank(
        [candidate("batch", "max_batch", value) for value in (32, 64, 128)],
        known(levers=levers),
        history=history.read(mark, tmp_path),
        predictors=[predicting({32: exact(2.0)})],
    )
    assert [one.changes for one in order] == [{"max_batch": 32}]
    assert [one.reason for one in skipped] == [f"OOM at max_batch=64 (run {run})"] * 2
    # One failure of one trial: the lever is tried, with half the hope.
    assert order[0].score == pytest.approx(0.5 * 0.6931 / 10.0, rel=0.01)


def test_a_past_timeout_lowers_the_score_and_forbids_nothing(tmp_path: Path) -> None:
    mark = fingerprint(description(), workload())
    tried = candidate("wider", "width", 2)
    stored_run(tmp_path, mark, [result(tried, None, "invalid", "timeout")], dict(SETTINGS))
    past = history.read(mark, tmp_path)
    (found,), skipped = rank(
        [tried], known(), history=past, predictors=[predicting({2: exact(2.0)})]
    )
    assert not skipped
    assert found.score == pytest.approx(0.5 * 0.6931 / 10.0, rel=0.01)


def test_the_run_under_way_is_no_history(tmp_path: Path) -> None:
    mark = fingerprint(description(), workload())
    own = stored_run(tmp_path, mark, [result(candidate("wider", "width", 2), exact(1.4))], {})
    assert history.read(mark, tmp_path, leave_out=own).runs == 0


def test_a_damaged_journal_is_read_as_far_as_it_verifies(tmp_path: Path) -> None:
    mark = fingerprint(description(), workload())
    tried = [result(candidate("wider", "width", value), exact(1.4)) for value in (2, 4)]
    run = stored_run(tmp_path, mark, tried, dict(SETTINGS))
    path = tmp_path / run / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1].replace(b"1.4", b"9.4"))
    found = history.read(mark, tmp_path)
    assert len(found.trials) == 1
    assert "as far as its journal verifies" in found.notes[0]


def test_fingerprints_tell_engines_and_shapes_apart() -> None:
    base = fingerprint(description(), workload())
    assert base.hash == fingerprint(description(), workload()).hash
    for one in (
        fingerprint(description(model="other"), workload()),
        fingerprint(description(release="2"), workload()),
        fingerprint(description(hardware={"fingerprint": "abd"}), workload()),
        fingerprint(description(), workload(4)),
    ):
        assert one.hash != base.hash


def test_near_the_floor_nothing_is_tried() -> None:
    near = qualify(known(diagnosis=diagnosis({}, floor=0.93)))
    assert not near.commit
    assert near.floor_share == pytest.approx(0.93)
    assert "93% of the floor" in near.sentence
    # The floor is that of one token a step: a run whose levers may draft tokens is not refused.
    drafting = qualify(known(diagnosis=diagnosis({}, floor=0.93)), may_speculate=True)
    assert drafting.commit
    assert "more where drafts are accepted" in drafting.sentence
    far = qualify(known(diagnosis=diagnosis({"host launch": 0.5}, floor=0.5)))
    assert far.commit
    assert "up to 2.00 times is left" in far.sentence
    blind = qualify(known())
    assert blind.commit
    assert blind.floor_share is None
    assert blind.sentence == (
        "no floor is known (no shapes of the model): levers are tried without one"
    )


def test_a_floor_that_was_counted_needs_no_plan() -> None:
    counted = description(details={"floor_s": 0.25})
    far = qualify(known(description=counted, baseline=measurement(request_throughput=2.0)))
    assert far.commit
    assert "50% of the floor by the operations that were counted" in far.sentence
    near = qualify(known(description=counted, baseline=measurement(request_throughput=3.8)))
    assert not near.commit


def test_a_floor_without_the_chain_is_no_share_of_the_time() -> None:
    counted = description(
        details={"floor_s": 0.25, "not_in_floor": "9,000 steps one after the other"}
    )
    far = qualify(known(description=counted, baseline=measurement(request_throughput=0.04)))
    assert far.commit
    assert far.sentence == (
        "the floor by the operations that were counted is 1% of the time, without 9,000 steps one "
        "after the other: less than 100 times can be left"
    )


def test_the_floor_of_a_loop_is_that_of_its_whole_batch() -> None:
    """A model at the floor of batch 1 is far from that of eight clients at once."""
    from assay.planner import BatchConfig, hardware_spec, model_spec, predict_graph

    model, hardware = model_spec("llama-3.1-8b"), hardware_spec("h200")
    one = description(engine="assay", capabilities=frozenset({"cuda"}))
    floor = predict_graph(model, hardware, BatchConfig(context=125, engine="assay"))
    seconds = floor.totals["floor"].value / 1e9
    baseline = measurement(output_throughput=0.95 / seconds, mean_tpot_ms=1e3 * seconds)
    common = {"description": one, "model": model, "hardware": hardware, "baseline": baseline}
    alone = qualify(known(workload=workload(1), **common))
    assert not alone.commit
    assert alone.floor_share == pytest.approx(0.95, abs=0.12)
    together = qualify(known(workload=workload(8), **common))
    assert together.commit
    assert together.floor_share is not None
    assert together.floor_share < 0.25
