"""Changes are written ahead, taken back in reverse order, and end where the journal says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from knob_engine import KnobEngine

from assay.errors import UnknownNameError
from assay.improve.engines.protocol import EngineLostError, TrialFailedError
from assay.improve.journal import run_folder
from assay.improve.journal.faults import VARIABLE, reached
from assay.improve.journal.journal import Journal, JournalError, verify
from assay.improve.journal.journaled_engine import JournaledEngine, RollbackError
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.improve.journal.undo import outstanding


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return run_folder.create("test", tmp_path)


@pytest.fixture
def journal(run: RunFolder) -> Iterator[Journal]:
    with Journal.create(run.path) as journal:
        yield journal


@pytest.fixture
def inner() -> KnobEngine:
    return KnobEngine(threads=1, batch=8, graphs=False)


@pytest.fixture
def engine(inner: KnobEngine, journal: Journal, run: RunFolder) -> JournaledEngine:
    return JournaledEngine(inner, journal, run)


def kinds(run: RunFolder) -> list[str]:
    return [one.kind for one in verify(run.path).records]


def test_the_inverse_is_on_disk_before_the_change(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder
) -> None:
    seen: list[object] = []
    inner.before_change = lambda: seen.append(verify(run.path).records[-1].data)
    engine.configure({"threads": 2})
    (intended,) = seen
    assert isinstance(intended, dict)
    assert (intended["changes"], intended["inverse"]) == ({"threads": 2}, {"threads": 1})
    assert kinds(run) == ["safe", "intend", "applied"]
    assert run.read_json("configuration.json")["settings"] == {
        "threads": 1,
        "batch": 8,
        "graphs": False,
    }


@pytest.mark.parametrize("hot", [True, False])
def test_changes_are_undone_in_reverse_order(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder, hot: bool
) -> None:
    inner.hot = hot
    start = dict(inner.now)
    engine.configure({"threads": 2, "batch": 16})
    engine.configure({"batch": 32})
    engine.configure({"graphs": True})
    engine.revert("test")
    assert inner.now == start
    assert verify(run.path).records[-1].data == {
        "changes": [2, 1, 0],
        "hash": configuration_hash(start),
    }
    assert engine.stack == ()
    # A restart serves all changes at once; live changes are taken back one by one.
    assert len(inner.calls) == (3 if hot else 4)


def test_an_undo_takes_back_what_came_after_it_first(
    engine: JournaledEngine, inner: KnobEngine
) -> None:
    undo = engine.configure({"threads": 2})
    engine.configure({"batch": 16})
    undo()
    assert inner.now == {"threads": 1, "batch": 8, "graphs": False}
    undo()
    assert engine.stack == ()


def test_going_to_and_fro_leaves_no_stack(engine: JournaledEngine, run: RunFolder) -> None:
    engine.configure({"graphs": True})
    for _ in range(10):
        engine.configure({"threads": 2})
        engine.configure({"threads": 1})
    assert [one.number for one in engine.stack] == [0]
    assert outstanding(verify(run.path).records) == list(engine.stack)
    engine.configure({"graphs": True})
    assert len(engine.stack) == 1, "a change to the same value is none"


def test_what_the_journal_says_is_in_force_is_what_is_on_the_stack(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder
) -> None:
    engine.configure({"threads": 2})
    inner.fail[99] = "trial"
    with pytest.raises(TrialFailedError):
        engine.configure({"batch": 99})
    inner.fail[77] = "lost"
    with pytest.raises(EngineLostError):
        engine.configure({"batch": 77})
    assert [one.number for one in outstanding(verify(run.path).records)] == [0, 2]
    assert [one.number for one in engine.stack] == [0, 2]
    failed = verify(run.path).of("failed")
    assert [(one.data["failure"], one.data["restored"]) for one in failed] == [
        ("OOM", True),
        ("crash", False),
    ]
    engine.revert("test", automatic=True)
    assert inner.now == {"threads": 1, "batch": 8, "graphs": False}
    assert outstanding(verify(run.path).records) == []


def test_a_setting_that_is_not_taken_is_recorded(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder
) -> None:
    inner.fail[4] = "ignored"
    engine.configure({"threads": 4})
    assert verify(run.path).of("applied")[0].data["as_intended"] is False


def test_unknown_knobs_are_refused_before_anything_is_recorded(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder
) -> None:
    with pytest.raises(UnknownNameError, match='unknown knob "thread"'):
        engine.configure({"thread": 2})
    assert inner.calls == []
    assert kinds(run) == ["safe"]


def test_what_is_declared_safe_is_not_undone(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder
) -> None:
    engine.configure({"threads": 2})
    engine.declare_safe("confirmed")
    engine.configure({"batch": 16})
    engine.revert("test")
    assert inner.now == {"threads": 2, "batch": 8, "graphs": False}
    assert run.read_json("configuration.json")["settings"]["threads"] == 2
    assert outstanding(verify(run.path).records) == []


def test_automatic_rollbacks_are_capped(engine: JournaledEngine, run: RunFolder) -> None:
    for _ in range(engine.most_rollbacks):
        engine.configure({"threads": 2})
        engine.revert("a fault", automatic=True)
    engine.configure({"threads": 2})
    with pytest.raises(RollbackError, match="3 automatic rollbacks") as raised:
        engine.revert("a fault", automatic=True)
    assert raised.value.exit_code == 5
    engine.revert("the end of the run")
    assert engine.stack == ()


def test_an_engine_that_does_not_come_back_is_said_to(
    engine: JournaledEngine, inner: KnobEngine
) -> None:
    inner.hot = False
    engine.configure({"threads": 2})
    inner.fail[1] = "ignored"
    with pytest.raises(RollbackError, match="the engine is not back"):
        engine.revert("test")


def test_a_full_disk_prevents_the_change(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.declare_safe("start")
    reached.clear()
    monkeypatch.setenv(VARIABLE, "journal.intend.torn=full")
    with pytest.raises(JournalError, match="No space left"):
        engine.configure({"threads": 2})
    assert inner.calls == []
    assert kinds(run) == ["safe"]


def test_numbers_go_on_after_a_resume(inner: KnobEngine, run: RunFolder) -> None:
    with Journal.create(run.path) as journal:
        engine = JournaledEngine(inner, journal, run)
        engine.configure({"threads": 2})
        engine.revert("a fault", automatic=True)
    with Journal.open(run.path) as journal:
        engine = JournaledEngine(inner, journal, run)
        assert engine.rollbacks == 1
        engine.configure({"threads": 2})
        assert [one.number for one in engine.stack] == [1]


def test_an_undo_of_a_step_back_goes_forth_again(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder
) -> None:
    engine.configure({"threads": 2})
    # A kept change is left out for a while: the stack folds, and the undo must unfold it.
    undo = engine.configure({"threads": 1})
    assert engine.stack == ()
    undo()
    assert inner.now["threads"] == 2
    assert outstanding(verify(run.path).records) == list(engine.stack)
    engine.revert("test")
    assert inner.now["threads"] == 1


def test_an_automatic_rollback_restarts_an_engine_that_died_without_a_change(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder
) -> None:
    engine.declare_safe("start")
    engine.revert("it crashed", automatic=True)
    assert inner.calls == [{"threads": 1, "batch": 8, "graphs": False}]
    assert kinds(run) == ["safe", "reverting", "reverted"]


def test_a_rollback_is_made_although_it_cannot_be_recorded(
    engine: JournaledEngine, inner: KnobEngine, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.configure({"threads": 2})
    reached.clear()
    # Also without the reserve.
    full = ",".join(f"journal.{kind}.torn=full@{at}" for kind in REVERT for at in (1, 2))
    monkeypatch.setenv(VARIABLE, full)
    engine.revert("a fault", automatic=True)
    assert inner.now["threads"] == 1
    assert len(engine.unrecorded) == 2
    assert [one.number for one in outstanding(verify(run.path).records)] == [0]


REVERT = ("reverting", "reverted")
