"""Server processes, with real ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.improve.engines import process
from assay.improve.engines.process import ServerRecord

STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT = (
    "import subprocess, sys, time;"
    "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print(one.pid, flush=True); time.sleep(60)"
)


def started(
    tmp_path: Path, code: str, **more: object
) -> tuple[ServerRecord, subprocess.Popen[bytes]]:
    log = tmp_path / "log" / "server.log"
    record = ServerRecord((sys.executable, "-c", code), log=str(log), **more)  # type: ignore[arg-type]
    return process.start(record)


def wait_for_log(record: ServerRecord) -> str:
    assert process.wait_until(lambda: bool(Path(record.log).read_text()), 60.0)
    return Path(record.log).read_text()


def test_a_server_is_found_by_its_record_and_stopped(tmp_path):
    record, popen = started(tmp_path, "import time; time.sleep(60)")
    again = ServerRecord.from_data(record.to_data())
    assert again == record
    assert process.is_running(again)
    assert process.stop(again, 5.0, popen) is False
    assert not process.is_running(record)
    assert popen.returncode == -15


def test_one_that_ignores_sigterm_is_killed(tmp_path):
    record, popen = started(tmp_path, STUBBORN)
    wait_for_log(record)
    assert process.stop(record, 0.2, popen) is True
    assert popen.returncode == -9


def test_workers_of_a_server_end_with_it_even_if_it_died_first(tmp_path):
    record, popen = started(tmp_path, PARENT)
    worker = int(wait_for_log(record))
    popen.kill()
    popen.wait()
    assert process.start_ticks(worker) is not None
    process.stop(record, 5.0, popen)
    assert process.wait_until(lambda: process.start_ticks(worker) is None, 60.0)


def test_a_process_with_the_same_pid_is_not_the_server(tmp_path):
    record, popen = started(tmp_path, "import time; time.sleep(60)")
    other = replace(record, start_ticks=record.start_ticks - 1)
    assert not process.is_running(other)
    process.stop(other, 0.2)
    assert popen.poll() is None
    rebooted = replace(record, boot_id="another")
    assert not process.is_running(rebooted)
    process.stop(record, 5.0, popen)


def test_a_server_of_somebody_else_is_stopped_without_its_group(tmp_path):
    # Not a group leader, as a job of a script: its siblings must survive.
    code = (
        "import subprocess, sys, time;"
        "a = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "b = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print(a.pid, b.pid, flush=True); time.sleep(60)"
    )
    record, popen = started(tmp_path, code)
    first, second = map(int, wait_for_log(record).split())
    found = process.identify(first)
    assert found is not None
    process.stop(found, 5.0)
    assert not process.is_running(found)
    other = process.identify(second)
    assert other is not None
    assert process.is_running(other)
    process.stop(record, 5.0, popen)


def test_the_listener_of_a_port_is_found():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert process.listener(port) is None
        server.listen()
        assert process.listener(port) == os.getpid()
    assert process.listener(port) is None


def test_environment_and_command_line_are_read_back(tmp_path):
    record, popen = started(tmp_path, "import time; time.sleep(60)", environment={"ASSAY_X": "a=b"})

    def has_variable() -> bool:
        return "ASSAY_X" in (process.process_environment(record.pid) or {})

    assert process.wait_until(has_variable, 60.0)
    assert process.process_environment(record.pid)["ASSAY_X"] == "a=b"
    assert process.command_line(record.pid) == record.argv
    process.stop(record, 5.0, popen)


def test_cpu_seconds_count_children(tmp_path):
    busy = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.3: pass\n"
    code = (
        f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {busy!r}]);"
        "print(1, flush=True); time.sleep(60)"
    )
    record, popen = started(tmp_path, code)
    wait_for_log(record)
    assert process.cpu_seconds(record.pid) >= 0.3
    process.stop(record, 5.0, popen)


def test_a_program_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match='"/no/such/program" cannot be started: No such file'):
        process.start(ServerRecord(("/no/such/program",)))
    # A log that cannot be written, too: what ran before it is started again.
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be started: "):
        process.start(ServerRecord((sys.executable,), log=str(tmp_path / "file" / "log")))


@pytest.mark.parametrize(
    ("argv", "more", "found"),
    [
        ((sys.executable,), {}, True),
        (("sh",), {}, True),
        (("sh",), {"environment": {"PATH": "/no/such/folder"}}, False),
        (("./own",), {}, True),
        (("own",), {"environment": {"PATH": "."}}, True),
        (("own",), {}, False),
        (("./data",), {}, False),
        (("sh",), {"cwd": "/no/such/folder"}, False),
    ],
)
def test_what_can_be_started_is_known_before(tmp_path, argv, more, found):
    """As `start` finds it: along the server's own PATH, from the folder that it starts in."""
    (tmp_path / "own").write_text("#!/bin/sh\n")
    (tmp_path / "own").chmod(0o755)
    (tmp_path / "data").write_text("#!/bin/sh\n")
    record = ServerRecord(argv, **{"cwd": str(tmp_path), **more})
    for call in (process.check_startable, process.start):
        if not found:
            with pytest.raises(InputError, match="cannot be started"):
                call(record)
            continue
        outcome = call(record)
        if outcome is not None:
            outcome[1].kill()
            outcome[1].wait()


def test_stopping_leaves_no_zombie(tmp_path):
    record, popen = started(tmp_path, "pass")
    assert process.wait_until(lambda: not process.is_running(record), 60.0)
    process.stop(record, 1.0, popen)
    assert process.start_ticks(record.pid) is None


def test_a_server_hears_the_signals_that_who_starts_it_ignores(tmp_path):
    before = {number: signal.signal(number, signal.SIG_IGN) for number in process.HEARD}
    try:
        record, popen = started(tmp_path, "print('up', flush=True); import time; time.sleep(60)")
        assert all(signal.getsignal(number) is signal.SIG_IGN for number in process.HEARD)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    wait_for_log(record)
    assert process.stop(record, 20.0, popen) is False
    assert popen.returncode == -signal.SIGTERM
