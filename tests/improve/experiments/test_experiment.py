"""One experiment over an engine with planted effects: verdicts, gates, failures, the way back."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from planted_engine import START, PlantedEngine, planted_workload

from assay.http_client import ServerError
from assay.improve.engines.protocol import Engine, ProbeAnswer
from assay.improve.experiments.correctness import baseline_reference, correctness_gate
from assay.improve.experiments.experiment import ExperimentLostError, run_experiment
from assay.improve.experiments.result import Block, ExperimentResult
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.levers.lever import Candidate
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import Objective, ServiceLevel

SETTINGS = ExperimentSettings(budget_s=120.0, block_s=0.5, noise_sd=0.015)


def candidate(changes: dict[str, Any], **given: Any) -> Candidate:
    """A candidate of one lever."""
    name = ",".join(f"{knob}={value}" for knob, value in changes.items())
    values: dict[str, Any] = {"correctness": "bitwise", "safety": "safe", "hot": True} | given
    return Candidate(name, tuple(changes), changes, **values)


def run(engine: PlantedEngine, changes: dict[str, Any], **given: Any) -> ExperimentResult:
    """Run with the engine's own clock."""
    settings = given.pop("settings", SETTINGS)
    workload = given.pop("workload", planted_workload())
    return run_experiment(
        engine, workload, candidate(changes, **given), settings, clock=engine.clock
    )


def test_the_fake_is_an_engine() -> None:
    assert isinstance(PlantedEngine(), Engine)


@pytest.mark.parametrize(
    ("changes", "verdict", "ratio"),
    [
        ({"threads": 2}, "improved", 1.6),
        ({"max_batch": 2}, "improved", 1.1),
        ({"threads": 2, "max_batch": 4}, "improved", 2.0),
        ({"max_batch": 8}, "regressed", 0.9),
        ({"graphs": True}, "undecided", 1.0),
    ],
)
def test_planted_effects_are_found(changes: dict[str, Any], verdict: str, ratio: float) -> None:
    engine = PlantedEngine()
    result = run(engine, changes)
    assert (result.verdict, result.failure) == (verdict, ""), result.reason
    assert result.ratio is not None
    assert result.ratio.lo <= ratio <= result.ratio.hi
    assert all(gate.passed for gate in result.gates)
    assert engine.settings() == START


def test_no_difference_ends_before_the_budget() -> None:
    result = run(PlantedEngine(noise=0.002), {"graphs": True})
    assert result.verdict == "undecided"
    assert "no practical difference" in result.reason
    assert result.seconds < SETTINGS.budget_s / 2


def test_a_small_gain_in_much_noise_is_undecided() -> None:
    engine = PlantedEngine(effect=lambda settings: 1.02 if settings["graphs"] else 1.0, noise=0.2)
    result = run(engine, {"graphs": True})
    assert result.verdict == "undecided"
    assert "budget 120 s" in result.reason
    assert result.seconds <= SETTINGS.budget_s


def test_lower_is_better_for_latencies() -> None:
    workload = replace(planted_workload(), objective=Objective("mean_tpot_ms", "lower"))
    result = run(PlantedEngine(), {"threads": 2}, workload=workload)
    assert result.verdict == "improved"
    assert result.ratio is not None
    assert result.ratio.lo <= 1.6 <= result.ratio.hi


def test_both_arms_get_the_same_requests_and_blocks_are_told_at_once() -> None:
    engine, seen = PlantedEngine(), list[Block]()
    result = run_experiment(
        engine,
        planted_workload(),
        candidate({"max_batch": 2}),
        SETTINGS,
        on_block=seen.append,
        clock=engine.clock,
    )
    assert tuple(seen) == result.blocks
    counted = [block for block in result.blocks if not block.dropped]
    assert {block.output_tokens for block in counted} == {counted[0].output_tokens}
    assert sum(block.arm == "control" for block in counted) * 2 == len(counted)


def test_warm_up_blocks_are_dropped_with_a_count() -> None:
    result = run(PlantedEngine(warmup=(0.2, 0.6), noise=0.005), {"max_batch": 2})
    assert "blocks dropped: warm-up" in " ".join(result.notes)


def test_disturbed_blocks_are_dropped_with_their_pair() -> None:
    engine = PlantedEngine(disturb=lambda window: "CPU taken by others" if window == 5 else "")
    result = run(engine, {"max_batch": 2})
    assert result.verdict == "improved"
    assert "1 blocks dropped: disturbed" in result.notes
    dropped = next(block for block in result.blocks if "disturbed" in block.dropped)
    assert dropped.pair not in {look.pair for look in result.looks}


def test_a_machine_that_is_disturbed_all_the_time_is_invalid() -> None:
    result = run(PlantedEngine(disturb=lambda window: "throttled"), {"threads": 2})
    assert result.verdict == "invalid"
    assert "pairs dropped" in result.reason


def test_latency_of_an_overloaded_window_is_never_scored() -> None:
    workload = replace(planted_workload(), objective=Objective("mean_tpot_ms", "lower"))
    result = run(
        PlantedEngine(load_state=lambda _: "overloaded"), {"threads": 2}, workload=workload
    )
    assert (result.verdict, result.ratio) == ("invalid", None)


@pytest.mark.parametrize(
    ("engine", "given", "words"),
    [
        (PlantedEngine(lie={"threads": 1}), {}, "threads should be 2, the engine reports 1"),
        (PlantedEngine(garbage="empty"), {}, "an empty answer"),
        (PlantedEngine(garbage="nan"), {}, "not finite"),
        (PlantedEngine(garbage="repeat"), {}, "one token, 12 times"),
        (PlantedEngine(flips=lambda _: 0.0005), {}, "token 2 differs"),
        (
            PlantedEngine(flips=lambda _: 0.5),
            {"correctness": "rounding"},
            "a near tie is below 0.0625",
        ),
        (PlantedEngine(), {"correctness": "lossy"}, "not allowed"),
        (PlantedEngine(), {"correctness": "changes sampling"}, "changes sampling: off"),
        (
            PlantedEngine(output_tokens=lambda now, asked: asked // int(now["threads"] or 1)),
            {},
            "output tokens in the control",
        ),
    ],
)
def test_gates_refuse_false_gains(engine: PlantedEngine, given: dict[str, Any], words: str) -> None:
    result = run(engine, {"threads": 2}, **given)
    assert result.verdict == "invalid"
    assert words in result.reason
    engine.lie = {}
    assert engine.settings() == START


def test_rounding_passes_at_near_ties_of_the_size_of_the_a_a_difference() -> None:
    engine = PlantedEngine(flips=lambda _: 0.0005)
    assert run(engine, {"threads": 2}, correctness="rounding").verdict == "improved"


def test_an_slo_that_breaks_is_a_regression() -> None:
    workload = replace(planted_workload(), slo=ServiceLevel(tpot_ms=10.3))
    engine = PlantedEngine(effect=lambda now: 0.9 if now["max_batch"] == 2 else 1.0, noise=0.002)
    result = run(engine, {"max_batch": 2}, workload=workload)
    assert result.verdict == "regressed"
    assert "SLO" in result.reason
    assert run(engine, {"graphs": True}, workload=workload).verdict == "undecided"


def test_values_outside_the_schema_are_refused() -> None:
    result = run(PlantedEngine(), {"threads": 64})
    assert (result.verdict, result.failure) == ("invalid", "refused")
    assert run(PlantedEngine(), {"unknown": 1}).failure == "refused"
    assert "those of now" in run(PlantedEngine(), {"threads": 1}).reason


def test_a_trial_that_runs_out_of_memory_is_kept() -> None:
    engine = PlantedEngine(fails=lambda now: "OOM" if now["max_batch"] == 64 else None)
    result = run(engine, {"max_batch": 64})
    assert (result.verdict, result.failure) == ("invalid", "OOM")
    assert engine.settings() == START


def test_a_crash_in_a_block_keeps_what_was_measured_and_goes_back() -> None:
    blamed = set()
    for window in range(6, 12):
        engine = PlantedEngine(crash_at=window)
        result = run(engine, {"graphs": True})
        assert result.verdict == "invalid"
        assert len(result.blocks) == window - 1
        assert engine.settings() == START
        blamed.add(result.failure)
        # A crash of the control is not the candidate's: it must not become a constraint.
        assert ("the control failed" in result.reason) == (result.failure == "")
    assert blamed == {"crash", ""}


def test_a_server_that_refuses_a_probe_fails_the_trial_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = PlantedEngine()
    probe = engine.probe

    def refusing(prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        if engine.settings() != START:
            raise ServerError("/v1/completions: expected success, got 429", status=429)
        return probe(prompts, max_tokens)

    monkeypatch.setattr(engine, "probe", refusing)
    result = run(engine, {"threads": 2})
    assert (result.verdict, result.failure) == ("invalid", "")
    assert result.reason == "a probe failed: /v1/completions: expected success, got 429"
    # A gate's refusal is final: the search does not ask for it again.
    assert [gate.gate for gate in result.gates if not gate.passed] == ["correctness"]
    assert engine.settings() == START


def test_a_lost_engine_is_raised_with_what_is_known() -> None:
    failures = set()
    for window in range(8, 14):
        with pytest.raises(ExperimentLostError) as caught:
            run(PlantedEngine(dies_at=window), {"graphs": True})
        assert (caught.value.exit_code, caught.value.failure) == (4, "hang")
        assert caught.value.result.verdict == "invalid"
        # One window sized the blocks, and the last one never came back.
        assert len(caught.value.result.blocks) == window - 2
        failures.add(caught.value.result.failure)
    assert failures == {"hang", ""}


def test_restarts_measure_the_baseline_again() -> None:
    engine = PlantedEngine(hot=False, restart_s=100.0)
    settings = replace(SETTINGS, budget_s=1200.0, switch_s=100.0)
    result = run(engine, {"threads": 2}, settings=settings)
    assert result.verdict == "improved"
    arms = [block.arm for block in result.blocks if not block.dropped]
    visits = 3 * ["control"] + 6 * ["treatment"] + 3 * ["control"]
    assert arms[:12] == visits
    # A block is a twentieth of a restart, and pairs that follow each other share a start.
    assert result.blocks[0].seconds == pytest.approx(5.0, rel=0.3)
    assert len(engine.configured) == len(result.looks) + 1 + (len(result.looks) + 1) % 2
    assert engine.settings() == START


def test_a_large_gain_needs_four_restarts() -> None:
    engine = PlantedEngine(
        hot=False, restart_s=100.0, noise=0.003, effect=lambda now: 2.8 if now["graphs"] else 1.0
    )
    result = run(engine, {"graphs": True}, settings=replace(SETTINGS, budget_s=600.0))
    assert result.verdict == "improved"
    assert len(engine.configured) == 4


def test_two_starts_that_agree_by_chance_are_no_verdict() -> None:
    """A server that starts in one of two modes: slow, fast, slow is one A/A run in eight."""
    engine = PlantedEngine(
        hot=False, restart_s=100.0, noise=0.0005, effect=lambda now: 1.05 if now["graphs"] else 1.0
    )
    result = run(engine, {"graphs": True}, settings=replace(SETTINGS, budget_s=300.0))
    assert len(result.looks) == 1
    assert result.looks[-1].ratio.lo > 1.01
    assert result.verdict == "undecided"
    assert "too few for a verdict before 4 restarts; 2 pairs" in result.reason


def test_a_large_loss_by_restarts_ends_after_one_pair() -> None:
    """It is not promoted either way; what it does not take, the next trial has."""
    engine = PlantedEngine(
        hot=False, restart_s=100.0, noise=0.02, effect=lambda now: 0.7 if now["graphs"] else 1.0
    )
    settings = replace(SETTINGS, budget_s=3000.0, noise_sd=0.02)
    result = run(engine, {"graphs": True}, settings=settings)
    assert result.verdict == "undecided"
    assert result.futile
    assert "after 1 pair" in result.reason
    assert len(engine.configured) == 2
    assert engine.settings() == START
    # Without a noise floor nothing says what is far.
    whole = run(engine, {"graphs": True}, settings=replace(settings, noise_sd=None))
    assert whole.verdict == "regressed"


def test_chance_hardly_ever_ends_a_gain_by_restarts() -> None:
    """A gain of 5 % in A/A pairs that spread by 5 %: one in 50,000 by the normal law."""
    ended = 0
    for seed in range(60):
        engine = PlantedEngine(
            hot=False,
            restart_s=5.0,
            noise=0.05,
            seed=seed,
            effect=lambda now: 1.05 if now["graphs"] else 1.0,
        )
        settings = replace(SETTINGS, budget_s=60.0, most_pairs=2, noise_sd=0.05)
        ended += run(engine, {"graphs": True}, settings=settings).futile
    assert ended == 0


def test_what_differs_between_starts_does_not_end_a_gain() -> None:
    """Starts in one of two modes 5 % apart: A/A pairs, of one start, spread by a twentieth of a percent."""
    ended = 0
    for seed in range(60):
        engine = PlantedEngine(hot=False, restart_s=5.0, noise=0.0005, seed=seed)
        luck = random.Random(seed)
        modes = [luck.choice((1.0, 1.05)) for _ in range(20)]

        def effect(now: Mapping[str, Setting], engine: Any = engine, modes: Any = modes) -> float:
            return float(modes[len(engine.configured)] * (1.03 if now["graphs"] else 1.0))

        engine.effect = effect
        settings = replace(SETTINGS, budget_s=60.0, most_pairs=2, noise_sd=0.0005)
        ended += run(engine, {"graphs": True}, settings=settings).futile
    assert ended == 0


def test_one_pair_is_too_few() -> None:
    result = run(PlantedEngine(), {"graphs": True}, settings=replace(SETTINGS, most_pairs=1))
    assert (result.verdict, result.ratio) == ("undecided", None)
    assert "too few pairs for an interval; 1 pair," in result.reason


def test_interrupting_goes_back_first() -> None:
    engine = PlantedEngine()

    def stop(block: Block) -> None:
        if block.index == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(
            engine,
            planted_workload(),
            candidate({"threads": 2}),
            SETTINGS,
            on_block=stop,
            clock=engine.clock,
        )
    assert engine.settings() == START


def test_a_kept_lever_that_rounds_does_not_stand_in_the_next_ones_way() -> None:
    engine = PlantedEngine(flips=lambda _: 0.0005)
    reference = baseline_reference(engine)
    engine.configure({"threads": 2})
    result = run_experiment(
        engine,
        planted_workload(),
        candidate({"max_batch": 2}),
        SETTINGS,
        reference=reference,
        clock=engine.clock,
    )
    assert result.verdict == "improved"


def test_a_server_that_leaves_answers_out_fails_the_gate() -> None:
    engine = PlantedEngine()
    reference = baseline_reference(engine)
    answers = engine.probe(["one"], 12)
    gate = correctness_gate(reference, answers, "bitwise", allow_lossy=False)
    assert not gate.passed
    assert "1 answers to 6 probes" in gate.statement
