"""What a run that was cut short had done."""

from pathlib import Path

import pytest
from knob_engine import KnobEngine

from assay.errors import InputError
from assay.improve.experiments.result import Block
from assay.improve.journal import run_folder
from assay.improve.journal.block_table import block_data
from assay.improve.journal.journal import NAME, Journal, JournalError
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.recovery import recover
from assay.improve.journal.resume import resume_state
from assay.improve.journal.run_folder import RunFolder


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    run = run_folder.create("cut")
    with Journal.create(run.path) as journal:
        journal.append("started", command="assay run", budget_s=60.0)
        journal.append("phase", name="experiments", elapsed_s=12.5)
        engine = JournaledEngine(KnobEngine(threads=1, batch=1), journal, run)
        engine.configure({"threads": 2})
        journal.append("verdict", experiment="01", verdict="improved")
        journal.append("kept", experiment="01", changes={"threads": 2})
        for index, name in enumerate(("01", "01", "02")):
            block = Block(
                name, index, 0, "control", 0.0, 0.5, 10.0 + index, 8, 1, "stable", {"threads": 2}
            )
            journal.append("block", **block_data(block))
        engine.configure({"batch": 4})
    return run


def test_how_far_a_run_came(cut: RunFolder) -> None:
    state = resume_state(cut)
    assert (state.phase, state.elapsed_s, state.is_finished) == ("experiments", 12.5, False)
    assert state.started["budget_s"] == 60.0
    assert state.start == state.safe == {"threads": 1, "batch": 1}
    assert [dict(one.changes) for one in state.applied] == [{"threads": 2}, {"batch": 4}]
    assert [one["changes"] for one in state.kept] == [{"threads": 2}]
    assert [one.value for one in state.blocks_of("01")] == [10.0, 11.0]


def test_recovery_loses_nothing_that_was_measured(cut: RunFolder) -> None:
    before = resume_state(cut)
    done = recover(cut, "test", "a fault")
    assert (done.action, done.settings, done.problems) == ("stored", before.start, ())
    after = resume_state(cut)
    assert after.applied == ()
    assert after.blocks == before.blocks
    assert cut.experiments.exists()
    again = recover(cut, "test", "a fault")
    assert again.action == "nothing"
    assert resume_state(cut) == after


def test_a_damaged_journal_does_not_keep_the_engine_from_its_safe_state(cut: RunFolder) -> None:
    path = cut.path / NAME
    lines = path.read_bytes().splitlines(keepends=True)
    # After the record of the safe configuration: what came before it can be trusted.
    path.write_bytes(b"".join([*lines[:3], lines[3].replace(b"threads", b"threade"), *lines[4:]]))
    cut.configuration.unlink()
    done = recover(cut, "test", "a fault")
    assert done.action == "stored"
    assert cut.read_json("configuration.json")["settings"] == {"threads": 1, "batch": 1}
    assert "is damaged: line 4" in done.problems[0]
    with pytest.raises(JournalError, match="cannot be resumed: its journal is damaged"):
        resume_state(cut)


def test_a_run_that_never_began(tmp_path: Path) -> None:
    run = run_folder.create("empty", tmp_path)
    Journal.create(run.path).close()
    with pytest.raises(InputError, match="never began"):
        resume_state(run)
