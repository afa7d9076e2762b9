"""However a run ends, the engine is in a safe state."""

from pathlib import Path

import pytest
from knob_engine import KnobEngine

from assay.improve.engines.protocol import EngineLostError
from assay.improve.journal import active, run_folder
from assay.improve.journal.guard import guarded
from assay.improve.journal.journal import Journal, verify
from assay.improve.journal.run_folder import RunFolder
from assay.improve.journal.undo import outstanding


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    return run_folder.create("test")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_whatever_is_raised_changes_are_taken_back(
    run: RunFolder, error: type[BaseException]
) -> None:
    inner = KnobEngine(threads=1)

    def work() -> None:
        with Journal.create(run.path) as journal, guarded(inner, run, journal) as engine:
            engine.configure({"threads": 2})
            raise error("no reason")

    with pytest.raises(error):
        work()
    assert inner.now == {"threads": 1}
    assert outstanding(verify(run.path).records) == []
    assert not active.exists()


def test_what_was_not_declared_safe_does_not_stay(run: RunFolder) -> None:
    inner = KnobEngine(threads=1, batch=1)
    with Journal.create(run.path) as journal, guarded(inner, run, journal) as engine:
        engine.configure({"threads": 2})
        engine.declare_safe("confirmed")
        engine.configure({"batch": 2})
    assert inner.now == {"threads": 2, "batch": 1}


def test_an_engine_that_does_not_come_back_is_recovered_from_the_records(run: RunFolder) -> None:
    inner = KnobEngine(hot=False, threads=1)

    def work() -> None:
        with Journal.create(run.path) as journal, guarded(inner, run, journal) as engine:
            engine.configure({"threads": 2})
            inner.fail[1] = "lost"
            inner.now["threads"] = 3
            raise EngineLostError("gone")

    with pytest.raises(EngineLostError, match="gone"):
        work()
    last = verify(run.path).records[-1]
    assert (last.kind, last.data["by"]) == ("recovered", "controller")
    assert run.read_json("configuration.json")["settings"] == {"threads": 1}
