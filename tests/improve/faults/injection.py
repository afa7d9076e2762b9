"""Injects one fault into a run of real processes, and looks at what is left when all is quiet."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from block_rows import read_blocks

from assay.improve.engines import process
from assay.improve.journal import block_table, journal
from assay.improve.journal.faults import VARIABLE
from assay.improve.journal.run_folder import RunFolder
from assay.improve.journal.undo import outstanding

FOLDER = Path(__file__).parent
PLACES = os.pathsep.join(map(str, (FOLDER.parents[2] / "python", FOLDER, FOLDER.parent)))
START = {"threads": 1, "batch": 8, "cache": "f16"}
QUIET_S = 240.0
"""How long processes may take to end on a busy machine."""


CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["injection", "driver", "loop_driver", "polars", "scipy.stats"])


@dataclass(frozen=True)
class Case:
    """One fault."""

    name: str
    points: str = ""
    """What ASSAY_FAULT says: where the controller misbehaves, and how."""
    server: dict[str, dict[str, str]] = field(default_factory=dict)
    """How the server misbehaves: knob, value, fault."""
    found: bool = True
    """Whether the server ran before the run, and is to run after it; else it ends with the run."""
    both: bool = False
    """Whether the watchdog is ended with the controller: the next command must restore."""
    watchdog_at: int | None = None
    """End the watchdog when the journal has so many records."""
    silence_s: float = 120.0
    jump_s: float = 0.0
    driver: str = "loop_driver"


@dataclass(frozen=True)
class Aftermath:
    """What is left."""

    run: RunFolder
    code: int
    output: str
    serving: dict[str, object] | None
    """The configuration of the server by its own account; None where none runs."""
    servers: list[int]
    """Processes of servers."""
    port: int
    first: subprocess.Popen[bytes] | None
    """The server that ran before the run: a child of this process."""
    acknowledged: list[float]
    """Values of the blocks that the controller was told are on disk."""


def run_case(case: Case, folder: Path) -> Aftermath:
    """Run the driver under a fault, wait until nothing of it is under way, and look."""
    state, port = folder / "state", free_port()
    state.mkdir(parents=True)
    (state / "faults.json").write_text(json.dumps(case.server))
    first = start_server(state, port) if case.found else None
    return _control(case, folder, port, first, {})


def resume(left: Aftermath, folder: Path) -> Aftermath:
    """Go on with a run that was cut short, without a fault."""
    output = folder / "output.txt"
    output.rename(folder / "first_output.txt")
    return _control(
        Case("resumed"),
        folder,
        left.port,
        left.first,
        {"DRIVER_RESUME": "1", VARIABLE: "none=kill"},
    )


def _control(
    case: Case, folder: Path, port: int, first: subprocess.Popen[bytes] | None, more: dict[str, str]
) -> Aftermath:
    state, scratch, output = folder / "state", folder / "scratch", folder / "output.txt"
    environment = {
        **os.environ,
        "ASSAY_SCRATCH": str(scratch),
        "PYTHONPATH": PLACES,
        VARIABLE: case.points,
        "DRIVER_SILENCE": str(case.silence_s),
        "DRIVER_JUMP": str(case.jump_s),
        **({"DRIVER_BOTH": "1"} if case.both else {}),
        **more,
    }
    arguments = (case.driver, str(state), str(port))
    driver = CONTEXT.Process(target=drive, args=(arguments, environment, str(output)))
    driver.start()
    if case.watchdog_at is not None:
        _end_watchdog(scratch, case.watchdog_at)
    driver.join(QUIET_S)
    assert driver.exitcode is not None, "the controller does not end"
    active = scratch / "runs" / "active"
    if case.both and active.exists():
        _run_next_command(environment)
    assert process.wait_until(lambda: not active.exists(), QUIET_S), "the run stays under way"
    (path,) = list((scratch / "runs").iterdir())
    text = output.read_text()
    lines = [line.split() for line in text.splitlines() if line.startswith("block ")]
    return Aftermath(
        RunFolder(path),
        driver.exitcode,
        text,
        stored_configuration(state),
        servers_of(state),
        port,
        first,
        [float(words[2]) for words in lines],
    )


def drive(arguments: tuple[str, ...], environment: dict[str, str], output: str) -> None:
    """Be a controller: a process of its own, forked where all is imported already."""
    os.environ.clear()
    os.environ.update(environment)
    with open(output, "w") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
    sys.argv = list(arguments)
    sys.exit(importlib.import_module(arguments[0]).main())


def start_server(state: Path, port: int) -> subprocess.Popen[bytes]:
    """Start the server that the user had before the run."""
    command = [sys.executable, "-S", "-E", str(FOLDER / "fake_server.py"), "--port", str(port)]
    server = subprocess.Popen([*command, "--state", str(state)], start_new_session=True)
    assert process.wait_until(lambda: stored_configuration(state) is not None, QUIET_S)
    return server


def run_command(folder: Path, *words: str) -> str:
    """What a command prints that knows the runs of a folder."""
    return _command(words, {**os.environ, "ASSAY_SCRATCH": str(folder / "scratch")}).stdout


def _run_next_command(environment: dict[str, str]) -> None:
    done = _command(("runs", "list", "--json"), {**environment, VARIABLE: ""})
    assert "was cut short together with its watchdog" in done.stderr


def _command(
    words: tuple[str, ...], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words],
        env={**environment, "PYTHONPATH": PLACES}, capture_output=True, text=True, timeout=QUIET_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def check(case: Case, left: Aftermath) -> None:
    """The engine is in the recorded safe configuration, and nothing that was measured is lost."""
    reading = journal.verify(left.run.path)
    safe = [one.data["settings"] for one in reading.of("safe")]
    expected = safe[-1] if safe else START
    assert expected in _proven(case), expected
    if case.found:
        assert left.serving == expected, left.output
        assert len(left.servers) == 1
    else:
        assert (left.serving, left.servers) == (None, []), left.output
    if safe:
        assert left.run.read_json("configuration.json")["settings"] == expected
    assert outstanding(reading.records) == []
    blocks = [one.value for one in block_table.blocks_in_journal(left.run)]
    # One that was on its way when the process died may be on disk without having been told.
    assert blocks[: len(left.acknowledged)] == left.acknowledged
    assert len(blocks) - len(left.acknowledged) <= 1
    if left.run.experiments.exists() or left.acknowledged:
        assert [one.value for one in read_blocks(left.run.experiments)] == blocks


def _proven(case: Case) -> list[dict[str, object]]:
    """What may be safe: the start, or two threads, which alone gain.

    A cache that changes nothing may come with them: a joint trial is kept whole where the time left was too
    short to leave its levers out one by one. One that is at fault may not.
    """
    faster = {**START, "threads": 2}
    harmless = [] if "cache" in case.server else [{**faster, "cache": "q8_0"}]
    return [START, faster, *harmless]


def clean_up(left: Aftermath, folder: Path) -> None:
    """End the server that a case rightly left running."""
    for pid in servers_of(folder / "state"):
        os.kill(pid, signal.SIGKILL)
    if left.first is not None:
        left.first.wait(QUIET_S)
    # A killed process dies when it next gets a core, which a busy machine gives late.
    end = time.monotonic() + QUIET_S
    while servers_of(folder / "state") and time.monotonic() < end:
        time.sleep(0.05)


def servers_of(state: Path) -> list[int]:
    """The servers that use a folder, by their command lines."""
    found = []
    for name in os.listdir("/proc"):
        identified = process.identify(int(name)) if name.isdecimal() else None
        words = () if identified is None else identified.argv
        if str(state) in words and "fake_server.py" in " ".join(words):
            assert identified is not None
            found += [int(name)] if process.is_running(identified) else []
    return found


def stored_configuration(state: Path) -> dict[str, object] | None:
    """The configuration of the server that serves now, by its own account; None where none does."""
    try:
        data = json.loads((state / "configuration.json").read_text())
    except OSError:
        return None
    found = process.identify(data["pid"])
    if found is None or not process.is_running(found):
        return None
    settings: dict[str, object] = data["settings"]
    return settings


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end_watchdog(scratch: Path, records: int) -> None:
    """Wait for a number of records, then end the watchdog of the run with SIGKILL."""
    deadline = time.monotonic() + QUIET_S
    while time.monotonic() < deadline:
        for marker in (scratch / "runs").glob("active/*.json"):
            data = json.loads(marker.read_text())
            lines = (Path(data["run"]) / journal.NAME).read_bytes().count(b"\n")
            if lines >= records:
                os.kill(data["watchdog"]["pid"], signal.SIGKILL)
                return
        time.sleep(0.002)
    raise AssertionError("the run did not get so far")
