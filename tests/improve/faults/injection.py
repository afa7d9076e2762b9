"""Injects one fault into a run of real processes, and looks at what is left when all is quiet."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from process_engine import START, stored_configuration

from assay.improve.engines import process
from assay.improve.journal import block_table, journal
from assay.improve.journal.faults import VARIABLE
from assay.improve.journal.journaled_engine import RUN_VARIABLE
from assay.improve.journal.run_folder import RunFolder

FOLDER = Path(__file__).parent
QUIET_S = 90.0
"""How long processes may take to end on a busy machine."""


@dataclass(frozen=True)
class Case:
    """One fault."""

    name: str
    points: str = ""
    """What ASSAY_FAULT says: where the controller misbehaves, and how."""
    server: dict[str, dict[str, str]] = field(default_factory=dict)
    """How the server misbehaves: knob, value, fault."""
    mode: str = "restart"
    both: bool = False
    """Whether the watchdog is ended with the controller: the next command must restore."""
    watchdog_at: int | None = None
    """End the watchdog when the journal has so many records."""
    silence_s: float = 60.0
    jump_s: float = 0.0


@dataclass(frozen=True)
class Aftermath:
    """What is left."""

    run: RunFolder
    code: int
    output: str
    serving: dict[str, object] | None
    """The configuration of the server by its own account; None where none runs."""
    servers: list[int]
    """Processes that carry the run's id."""
    acknowledged: list[float]
    """Values of the blocks that the controller was told are on disk."""


def run_case(case: Case, folder: Path) -> Aftermath:
    """Run the driver under a fault, wait until nothing of it is under way, and look."""
    state, scratch = folder / "state", folder / "scratch"
    state.mkdir(parents=True)
    (state / "faults.json").write_text(json.dumps(case.server))
    environment = {
        **os.environ,
        "ASSAY_SCRATCH": str(scratch),
        "PYTHONPATH": os.pathsep.join((str(FOLDER.parents[2] / "python"), str(FOLDER))),
        VARIABLE: case.points,
        "DRIVER_SILENCE": str(case.silence_s),
        "DRIVER_JUMP": str(case.jump_s),
        **({"DRIVER_BOTH": "1"} if case.both else {}),
    }
    command = [sys.executable, str(FOLDER / "driver.py"), str(state), str(free_port()), case.mode]
    driver = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    if case.watchdog_at is not None:
        _end_watchdog(scratch, case.watchdog_at)
    output = driver.communicate(timeout=QUIET_S)[0]
    active = scratch / "runs" / "active"
    if case.both and active.exists():
        environment.pop(VARIABLE)
        done = subprocess.run(
            [sys.executable, "-m", "assay", "runs", "list", "--json"],
            env=environment, capture_output=True, text=True, timeout=QUIET_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "was cut short together with its watchdog" in done.stderr
    assert process.wait_until(lambda: not active.exists(), QUIET_S), "the run stays under way"
    (path,) = list((scratch / "runs").iterdir())
    lines = [line.split() for line in output.splitlines() if line.startswith("block ")]
    run = RunFolder(path)
    return Aftermath(
        run,
        driver.returncode,
        output,
        stored_configuration(state),
        list(carriers(run.id)),
        [float(words[2]) for words in lines],
    )


def check(case: Case, left: Aftermath) -> None:
    """The engine is in the recorded safe configuration, and nothing that was measured is lost."""
    reading = journal.verify(left.run.path)
    safe = [one.data["settings"] for one in reading.of("safe")]
    expected = safe[-1] if safe else None
    if expected is None or (case.mode == "stop" and reading.last("finished") is None):
        assert left.serving is None, left.serving
        assert left.servers == []
    else:
        assert left.serving == expected, left.output
        assert len(left.servers) == 1
    if expected is not None:
        assert expected in (START, {**START, "threads": 2})
        assert left.run.read_json("configuration.json")["settings"] == expected
    blocks = [one.value for one in block_table.blocks_in_journal(left.run)]
    # One that was on its way when the process died may be on disk without having been told.
    assert blocks[: len(left.acknowledged)] == left.acknowledged
    assert len(blocks) - len(left.acknowledged) <= 1
    if left.run.experiments.exists() or left.acknowledged:
        assert [one.value for one in block_table.read_blocks(left.run.experiments)] == blocks


def clean_up(left: Aftermath) -> None:
    """End the server that a case rightly left running."""
    for pid in left.servers:
        os.kill(pid, signal.SIGKILL)


def carriers(run: str) -> Iterator[int]:
    """Processes that carry a run's id."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            found = process.identify(int(name))
            carried = process.process_environment(int(name)).get(RUN_VARIABLE)
            if carried == run and found is not None and process.is_running(found):
                yield int(name)


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
