"""Racing on an engine that takes 90 s to start, in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from planted_engine import planted_workload
from slow_start_engine import AT_START, SlowStartEngine

from assay.improve.journal import run_folder
from assay.improve.loop import start_noise
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions
from assay.improve.loop.outcome import Outcome
from assay.improve.loop.phases import race, soak
from assay.improve.loop.phases.race import Race
from assay.load.workloads.measurement import Setting

pytestmark = pytest.mark.usefixtures("without_fsync")

LEVERS = """\
format: assay.levers/1
engine: fake
levers:
"""
LEVER = """\
  - name: lever-{name}
    mechanism: planted
    knobs: {{{name}: [1]}}
    safety: may fail
    hot: false
    correctness: rounding
    memory: {memory}
    reference: a test
"""
MINUTES_8 = 480.0


def effect(gains: Mapping[str, float]):  # type: ignore[no-untyped-def]
    def of(settings: Mapping[str, Setting]) -> float:
        factor = 1.0
        for name, gain in gains.items():
            factor *= gain if settings[name] else 1.0
        return factor

    return of


def run(
    engine: SlowStartEngine,
    folder: Path,
    names: str = "abcdef",
    memory: str = "",
    resume: str | None = None,
    **options: object,
) -> Outcome:
    path = folder / "levers.yaml"
    rows = [LEVER.format(name=name, memory=str(name in memory).lower()) for name in names]
    path.write_text(LEVERS + "".join(rows))
    chosen = RunOptions(
        budget_s=MINUTES_8, lever_files=(path,), use_history=False, force=True, **options
    )  # type: ignore[arg-type]
    return run_loop(
        engine,
        planted_workload(64),
        chosen,
        lambda *_: None,
        root=folder / "runs",
        clock=engine.clock,
        resume=None if resume is None else run_folder.find(resume, folder / "runs"),
    )


def slow(**more: object) -> SlowStartEngine:
    engine = SlowStartEngine(hot=False, restart_s=90.0, noise=0.004, rate=800.0, **more)  # type: ignore[arg-type]
    return engine


def test_eight_minutes_try_at_least_four_candidates_and_keep_the_good_one(tmp_path: Path) -> None:
    engine = slow(effect=effect({"d": 1.12, "b": 0.97}))
    outcome = run(engine, tmp_path)
    assert outcome.verdict == "improved", outcome.notes
    assert [result.candidate.levers for result in outcome.kept] == [("lever-d",)]
    assert len(set(engine.tried)) >= 4
    assert engine.now <= 1.1 * MINUTES_8
    assert any("share the memory" in note for note in outcome.notes)


def test_serial_restarts_try_far_fewer(tmp_path: Path) -> None:
    engine = slow(effect=effect({"d": 1.12}), can_be_resident=False)
    run(engine, tmp_path)
    assert len(engine.configured) <= 6


def test_of_two_gains_both_are_kept_where_time_allows(tmp_path: Path) -> None:
    engine = slow(effect=effect({"a": 1.15, "b": 1.10}))
    outcome = run(engine, tmp_path, names="abc")
    assert outcome.verdict == "improved"
    changed = {name for result in outcome.kept for name in result.candidate.changes}
    assert changed == {"a", "b"}


def test_what_depends_on_memory_is_proven_with_all_of_it(tmp_path: Path) -> None:
    engine = slow(effect=effect({"a": 1.15}))
    outcome = run(engine, tmp_path, names="ab", memory="a")
    assert outcome.verdict == "improved"
    assert any(settings["a"] for settings in engine.measured_alone)
    assert any("asleep while the other" in note for note in outcome.notes)


def test_a_gain_that_only_little_memory_shows_is_not_promoted(tmp_path: Path) -> None:
    engine = slow()

    def of(settings: Mapping[str, Setting]) -> float:
        return 1.2 if settings["a"] and engine.shared else 1.0

    engine.effect = of
    outcome = run(engine, tmp_path, names="ab", memory="a")
    assert outcome.verdict != "improved"
    assert not outcome.kept


def test_a_knob_of_memory_is_not_compared_beside_others(tmp_path: Path) -> None:
    engine = slow(effect=effect({"memory": 1.3, "a": 1.1}))
    outcome = run(engine, tmp_path, names=["memory", "a"])  # type: ignore[arg-type]
    assert [result.candidate.changes for result in outcome.kept] == [{"a": 1}]


def test_a_server_that_does_not_start_is_refused_once(tmp_path: Path) -> None:
    engine = slow(
        effect=effect({"c": 1.12}), fails=lambda settings: "OOM" if settings["a"] else None
    )
    outcome = run(engine, tmp_path)
    assert outcome.verdict == "improved"
    (failed,) = [result for result in outcome.rejected if result.failure == "OOM"]
    assert "of 4 parts of the GPU's memory" in failed.reason


def test_nothing_to_gain_says_what_starts_hide(tmp_path: Path) -> None:
    engine = slow(effect=effect({"a": 0.9, "b": 0.95}), start_noise=0.01, seed=2)
    outcome = run(engine, tmp_path, names="abc")
    assert outcome.verdict == "nothing to gain", outcome.notes
    assert "cannot be told from what differs between starts" in outcome.notes[0]


def test_a_wave_is_decided_before_the_next_servers_start(tmp_path: Path) -> None:
    """What two pairs leave undecided would have to be started again for more."""
    engine = slow(start_noise=0.0)
    engine.effect = effect(dict.fromkeys("abcdef", 1.003))
    outcome = run(engine, tmp_path, top_n=5)
    assert outcome.verdict == "nothing to gain", outcome.notes
    assert len(set(engine.tried)) == 5
    assert not any("the budget ended" in note for note in outcome.notes)


def test_what_was_not_tried_is_offered(tmp_path: Path) -> None:
    engine = slow(effect=effect({}), servers=2)
    outcome = run(engine, tmp_path)
    assert any(f"assay run --resume {outcome.run.name}" in note for note in outcome.notes)


def test_with_room_for_two_servers_there_are_never_three(tmp_path: Path) -> None:
    """Once something is kept the start and that are two; the engine refuses a third."""
    engine = slow(effect=effect({"a": 1.15, "b": 1.10}), servers=2)
    outcome = run(engine, tmp_path, names="abc")
    assert outcome.verdict == "improved", outcome.notes
    assert [result.candidate.changes for result in outcome.kept] == [{"a": 1}]
    [note] = [note for note in outcome.notes if note.startswith("not tried: ")]
    assert "room for 2 servers, which the start and what is kept take" in note
    assert not any("the budget ended" in note for note in outcome.notes)


def test_time_is_kept_for_no_more_candidates_than_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[tuple[int, int]] = []
    rounds = Race._rounds

    def noted(own: Race, wave, search, *, more: int):  # type: ignore[no-untyped-def]
        later.append((len(own.state.trials) + len(wave), more))
        return rounds(own, wave, search, more=more)

    monkeypatch.setattr(Race, "_rounds", noted)
    run(slow(effect=effect({})), tmp_path, top_n=3)
    # Two candidates and a twin first, then the third: of six, one is left for later and then none.
    assert later == [(2, 1), (3, 0)]


def press_at_once() -> Callable[[int], str]:
    """Presses Ctrl-C in the next window, once."""
    pressed: list[int] = []

    def press(window: int) -> str:
        if pressed:
            return ""
        pressed.append(window)
        raise KeyboardInterrupt

    return press


@pytest.mark.parametrize("place", [(soak, "_confirm"), (race, "keep")])
def test_the_best_of_a_race_is_not_kept_unconfirmed(
    place: tuple[ModuleType, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = slow(effect=effect({"a": 1.15}))
    interrupted = getattr(*place)

    def then_pressed(*given: object, **more: object) -> None:
        if place[1] == "keep":
            interrupted(*given, **more)
            raise KeyboardInterrupt
        engine.disturb = press_at_once()
        interrupted(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(*place, then_pressed)
        outcome = run(engine, tmp_path, names="ab")
    assert (outcome.verdict, outcome.notes[0]) == ("undecided", "interrupted before confirmation")
    assert engine.settings() == AT_START
    assert not outcome.kept
    assert "lever-a: a=1" in [result.candidate.name for result in outcome.undecided]
    offered = f"assay run --resume {outcome.run.name} goes on with its confirmation"
    assert any(offered in note for note in outcome.notes)
    # A later part of the run may be interrupted before it races: it knows where its stack is from.
    engine.disturb = press_at_once()
    again = run(engine, tmp_path, names="ab", resume=outcome.run.name)
    assert again.notes[0] == "interrupted before confirmation"
    assert engine.settings() == AT_START
    engine.disturb = lambda window: ""
    last = run(engine, tmp_path, names="ab", resume=outcome.run.name)
    assert last.verdict == "improved", last.notes
    assert engine.settings()["a"] == 1


def test_wrong_answers_are_refused_for_good(tmp_path: Path) -> None:
    engine = slow(
        effect=effect({"a": 1.4, "c": 1.12}),
        garbles=lambda settings, request: bool(settings["a"]) and request % 5 == 0,
    )
    outcome = run(engine, tmp_path)
    changed = {name for result in outcome.kept for name in result.candidate.changes}
    assert "a" not in changed
    refused = [key for key in engine.tried if ("a", 1) in key]
    assert len(refused) == 1


@pytest.mark.slow
def test_luck_of_a_start_is_rarely_promoted(tmp_path: Path) -> None:
    """A hundred runs of levers that do nothing, where starts differ by 1 %."""
    kept = 0
    for seed in range(100):
        engine = slow(effect=effect({}), start_noise=0.01, seed=seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        kept += run(engine, folder).verdict == "improved"
    assert kept <= 5


def test_the_interval_of_two_starts_is_students() -> None:
    # Two levels a distance d apart: their spread is d / sqrt(2), and t has one degree of freedom.
    assert start_noise.half_width([0.0, 0.01]) == pytest.approx(0.12706, rel=1e-4)
    assert start_noise.half_width([0.5]) == 0.0
