"""When the watchdog acts: the controller's death and silence, not its orderly end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from knob_engine import KnobEngine

from assay.improve.engines.process import wait_until
from assay.improve.journal import active, run_folder, watchdog
from assay.improve.journal.journal import Journal, verify
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.watchdog import Watchdog, watch


@pytest.fixture(autouse=True)
def scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))


def watched(controller: Callable[[int], None]) -> tuple[str | None, int]:
    """What `watch` says of a controller that runs in a child, and the child's end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        controller(writing)
        os._exit(0)
    os.close(writing)
    try:
        return watch(child, reading), os.waitpid(child, 0)[1]
    finally:
        os.close(reading)


def test_an_orderly_end() -> None:
    assert watched(lambda pipe: os.write(pipe, b"5.0\ndone\n") and None) == (None, 0)


def test_a_death() -> None:
    why, status = watched(lambda pipe: os.kill(os.getpid(), signal.SIGKILL))
    assert (why, os.WTERMSIG(status)) == ("the controller died", 9)


def test_a_silence_that_is_too_long() -> None:
    def controller(pipe: int) -> None:
        os.write(pipe, b"0.2\n")
        time.sleep(60)

    begun = time.monotonic()
    why, status = watched(controller)
    assert (why, os.WTERMSIG(status)) == ("the controller hung and was ended", 9)
    assert 0.2 <= time.monotonic() - begun < 30


def test_beats_put_it_off() -> None:
    def controller(pipe: int) -> None:
        for _ in range(6):
            os.write(pipe, b"60.0\n")
            time.sleep(0.05)
        os.write(pipe, b"done\n")

    assert watched(controller) == (None, 0)


def test_a_child_that_holds_the_pipe_does_not_hide_the_death() -> None:
    def controller(pipe: int) -> None:
        holder = os.fork()
        if holder == 0:
            time.sleep(20)
            os._exit(0)
        os._exit(3)

    begun = time.monotonic()
    assert watched(controller)[0] == "the controller died"
    assert time.monotonic() - begun < 20


def test_an_orderly_end_leaves_no_marker() -> None:
    run = run_folder.create("test")
    Journal.create(run.path).close()
    dog = Watchdog.start(run)
    (found,) = active.active_runs()
    assert found.run == run
    assert found.is_attended
    assert active.exists()
    dog.beat(600.0)
    dog.close()
    assert active.active_runs() == []
    assert not active.exists()


def test_a_killed_watchdog_is_started_again() -> None:
    run = run_folder.create("test")
    Journal.create(run.path).close()
    said: list[str] = []
    dog = Watchdog.start(run, said.append)
    first = dog.pid
    os.kill(first, signal.SIGKILL)

    def is_replaced() -> bool:
        dog.beat(600.0)
        return dog.pid != first

    assert wait_until(is_replaced, 30.0)
    assert said == ["the watchdog ended with status -9 and was started again"]
    dog.close()


CONTROLLER = """
import os, signal, sys
from assay.improve.journal import run_folder
from assay.improve.journal.journal import Journal
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.watchdog import Watchdog
from knob_engine import KnobEngine
run = run_folder.create("test")
journal = Journal.create(run.path)
Watchdog.start(run)
JournaledEngine(KnobEngine(threads=1), journal, run).configure({"threads": 2})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_engine_in_the_process_has_the_safe_configuration_at_its_next_start() -> None:
    places = os.pathsep.join((str(Path(watchdog.__file__).parents[3]), str(Path(__file__).parent)))
    done = subprocess.run(
        [sys.executable, "-c", CONTROLLER], env={**os.environ, "PYTHONPATH": places}
    )
    assert done.returncode == -9
    assert wait_until(lambda: not active.exists(), 60.0)
    (run,) = run_folder.stored()
    assert run.read_json("configuration.json")["settings"] == {"threads": 1}
    last = verify(run.path).records[-1]
    assert last.kind == "recovered"
    assert last.data == {"by": "watchdog", "why": "the controller died", "action": "stored"}


def test_a_journal_that_is_open_elsewhere_is_left_to_its_writer(tmp_path: Path) -> None:
    run = run_folder.create("test")
    with Journal.create(run.path) as journal:
        JournaledEngine(KnobEngine(threads=1), journal, run).configure({"threads": 2})
        active.mark(run, os.getpid(), None)
        assert [one.is_attended for one in active.active_runs()] == [True]


def test_a_recovery_waits_until_its_run_is_marked_as_attended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it was done first, the marker came after and stayed: the run was under way for ever."""
    run = run_folder.create("abandoned")
    with Journal.create(run.path) as journal:
        journal.append("started", command="test")
    real = active.mark
    records = []

    def late(*of: object) -> None:
        # Longer than a recovery takes that does not wait.
        wait_until(lambda: bool(verify(run.path).of("recovered")), 1.5)
        records.append([record.kind for record in verify(run.path).records])
        real(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(active, "mark", late)
    watchdog.start_recovery(run)
    assert records == [["started"]]
    assert wait_until(lambda: not active.exists(), 60.0)
    assert verify(run.path).of("recovered")
