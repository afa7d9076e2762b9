"""Recovery of a server that the user had: it is stopped only for one that can be started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.improve.engines import process
from assay.improve.engines.process import ServerRecord
from assay.improve.journal import active, recovery, run_folder
from assay.improve.journal.journal import Journal, verify
from assay.improve.journal.journaled_engine import RollbackError
from assay.improve.journal.recovery import recover
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.improve.journal.undo import outstanding

SERVER = Path(__file__).parents[1] / "faults" / "fake_server.py"
START, TRIAL = {"threads": 1}, {"threads": 2}

pytestmark = pytest.mark.usefixtures("without_fsync")


class Cut:
    """A run whose controller died while a trial served in place of the user's server."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.folder = folder
        self.popen: subprocess.Popen[bytes] | None = None

    def record(self, settings: dict[str, int], **more: Any) -> ServerRecord:
        argv = (sys.executable, "-S", "-E", str(SERVER), "--port", str(self.port))
        record = ServerRecord(
            (*argv, "--state", str(self.folder), "--threads", str(settings["threads"])),
            cwd=str(self.folder),
            health_url=f"http://127.0.0.1:{self.port}/health",
            start_timeout_s=60.0,
        )
        return replace(record, **more)

    def run(
        self, recorded: ServerRecord, on_death: str = "restart", now: dict[str, int] = TRIAL
    ) -> RunFolder:
        """The run's folder, while a server with the settings of now serves."""
        server, self.popen = process.start(self.record(now))
        assert process.wait_until(lambda: self.serving() == (server.pid, now), 60.0)
        run = run_folder.create("cut")
        before, after = configuration_hash(START), configuration_hash(TRIAL)
        with Journal.create(run.path) as journal:
            journal.append("started", command="assay run")
            journal.append(
                "safe", settings=START, hash=before, why="start", on_death=on_death, server=recorded.to_data()
            )  # fmt: skip
            if now == TRIAL:
                journal.append(
                    "intend", change=0, changes=TRIAL, inverse=START, before=before, after=after
                )
                journal.append("applied", change=0, hash=after, as_intended=True, undoes=[])
            journal.append("engine", server=server.to_data())
        return run

    def serving(self) -> tuple[int, dict[str, int]] | None:
        """The process that serves and its settings, by its own account."""
        try:
            data = json.loads((self.folder / "configuration.json").read_text())
        except OSError:
            return None
        identified = process.identify(data["pid"])
        if identified is None or not process.is_running(identified):
            return None
        return data["pid"], {"threads": data["settings"]["threads"]}


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cut]:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    cut = Cut(tmp_path)
    yield cut
    if (serving := cut.serving()) is not None:
        os.kill(serving[0], signal.SIGKILL)
    if cut.popen is not None:
        cut.popen.wait(60.0)


MISSING = [
    ({"argv": ("/no/such/program",)}, "expected an executable file at /no/such/program, got none"),
    ({"cwd": "/no/such/folder"}, "expected the folder /no/such/folder to start it in, got none"),
]


@pytest.mark.parametrize(("missing", "why"), MISSING)
def test_a_server_is_not_stopped_for_one_that_cannot_be_started(
    cut: Cut, missing: dict[str, Any], why: str
) -> None:
    run = cut.run(cut.record(START, **missing))
    active.mark(run, os.getpid(), None)
    served = cut.serving()
    assert served is not None
    done = recover(run, "watchdog", "the controller died")
    assert cut.serving() == served
    assert (done.action, done.settings) == ("left", None)
    assert done.sentence.startswith(
        f"{run.id}: the server is left as it runs (process {served[0]}): "
    )
    assert done.sentence.endswith(why)
    assert done.problems == (f"once that is mended: assay rollback {run.id}",)
    assert not active.exists()
    reading = verify(run.path)
    assert reading.records[-1].data == {"text": done.sentence}
    assert not reading.of("reverting", "reverted", "recovered")
    assert len(outstanding(reading.records)) == 1


def test_a_rollback_that_cannot_be_made_is_refused_before_anything_is_done(cut: Cut) -> None:
    run = cut.run(cut.record(START, argv=("no-such-program",)))
    records, served = verify(run.path).records, cut.serving()
    with pytest.raises(RollbackError, match="expected an executable file at PATH") as refused:
        recover(run, "assay rollback", "asked for", to_start=True)
    assert refused.value.exit_code == 5
    assert refused.value.hint == f"once that is mended: assay rollback {run.id}"
    assert cut.serving() == served
    assert verify(run.path).records == records


# The server that it starts outlives the process that recovers.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_mended_is_rolled_back(cut: Cut) -> None:
    folder = cut.folder / "folder"
    run = cut.run(cut.record(START, cwd=str(folder)))
    assert recover(run, "watchdog", "the controller died").action == "left"
    folder.mkdir()
    done = recover(run, "assay rollback", "asked for", to_start=True)
    assert (done.action, done.settings, done.problems) == ("restarted", START, ())
    serving = cut.serving()
    assert serving is not None
    assert serving[1] == START
    assert outstanding(verify(run.path).records) == []


def test_a_port_that_another_user_holds_is_not_waited_for(
    cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cut.run(cut.record(START))
    served = cut.serving()
    # As of a process whose open files cannot be read.
    monkeypatch.setattr(recovery.processes, "listener", lambda port: None)
    done = recover(run, "watchdog", "the controller died")
    assert done.action == "left"
    assert f"port {cut.port}: expected none or a process of this user to listen" in done.sentence
    assert cut.serving() == served


def test_what_serves_the_recorded_configuration_need_not_be_startable(cut: Cut) -> None:
    run = cut.run(cut.record(START, argv=("/no/such/program",)), now=START)
    served = cut.serving()
    done = recover(run, "watchdog", "the controller died")
    assert (done.action, done.settings, done.problems) == ("kept", START, ())
    assert cut.serving() == served


def test_a_server_of_the_run_is_stopped_all_the_same(cut: Cut) -> None:
    run = cut.run(cut.record(START, argv=("/no/such/program",)), on_death="stop")
    assert recover(run, "watchdog", "the controller died").action == "stopped"
    assert cut.serving() is None


def test_where_no_server_runs_its_start_is_what_fails(cut: Cut) -> None:
    run = cut.run(cut.record(START, argv=("/no/such/program",)))
    assert cut.popen is not None
    cut.popen.kill()
    cut.popen.wait(60.0)
    done = recover(run, "watchdog", "the controller died")
    assert done.action == "stopped"
    assert "cannot be started" in done.problems[0]
