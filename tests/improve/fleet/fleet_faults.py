"""Injects one fault into a promotion of real processes, and looks at what is left when all is quiet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fleet_driver import LEASE_S
from fleet_processes import CHANGED, START, Servers, servers
from injection import CONTEXT, PLACES, QUIET_S, drive, servers_of

from assay.improve.engines import process
from assay.improve.journal import journal
from assay.improve.journal.undo import outstanding

NODES = 2
Happening = Literal[
    "",
    "node lost",
    "node cut off",
    "controller silent",
    "controller killed",
    "controller interrupted",
]


@dataclass(frozen=True)
class FleetCase:
    """One fault."""

    name: str
    controller: str = ""
    """What ASSAY_FAULT says in the controller."""
    node: int = 0
    agent: str = ""
    """What ASSAY_FAULT says in the agent of `node`."""
    happening: Happening = ""
    records: int = 0
    """When: the journal of the node (or of the controller) has so many records."""


@dataclass(frozen=True)
class FleetAftermath:
    """What is left."""

    code: int
    output: str
    settings: list[dict[str, object] | None]
    is_decided: bool
    """Whether the controller had recorded that the change is proven."""
    problems: list[str]
    gone: int | None = None
    """A node that was lost before it had recorded what to come back to, or after it was done: its
    server went with it, and who started that must start it again."""


def run_case(case: FleetCase, folder: Path) -> FleetAftermath:
    """Promote over two servers with a fault; the servers are ended afterwards."""
    with servers(folder, NODES) as fleet:
        if case.agent:
            (folder / f"node-{case.node}.fault").write_text(case.agent)
        environment = {
            **os.environ,
            "ASSAY_SCRATCH": str(folder / "controller"),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), PLACES]),
        }
        environment.pop("ASSAY_FAULT", None)
        if case.controller:
            environment["ASSAY_FAULT"] = case.controller
        output = folder / "output.txt"
        arguments = ("fleet_driver", str(folder), *map(str, fleet.ports))
        driver = CONTEXT.Process(target=drive, args=(arguments, environment, str(output)))
        driver.start()
        assert driver.pid is not None
        stopped = _happen(case, folder, fleet, driver.pid, driver.is_alive)
        if case.happening == "controller silent" and stopped:
            time.sleep(LEASE_S + 3.0)
            os.kill(driver.pid, signal.SIGCONT)
        driver.join(QUIET_S)
        assert driver.exitcode is not None, "the controller does not end"
        if case.happening == "node cut off" and stopped:
            os.kill(stopped, signal.SIGCONT)
        _await_agents(folder)
        if case.happening == "node lost":
            _node_comes_back(folder / f"node-{case.node}", environment)
        for number in range(NODES):
            active = folder / f"node-{number}" / "runs" / "active"
            assert process.wait_until(lambda at=active: not at.exists(), QUIET_S), "still under way"
        problems = [problem for number in range(NODES) for problem in _problems(folder, number)]
        text = output.read_text() if output.exists() else ""
        gone = case.node if case.happening == "node lost" else None
        if gone is not None and _is_owed(folder / f"node-{gone}"):
            gone = None
        return FleetAftermath(
            driver.exitcode, text, fleet.settings(), _is_decided(folder), problems, gone
        )


def check(left: FleetAftermath) -> None:
    """Every replica is at its start, or has the change where that was proven; journals say so."""
    proven = (START, CHANGED) if left.is_decided else (START,)
    for node, settings in enumerate(left.settings):
        assert settings in proven or (node == left.gone and settings is None), left
    assert left.problems == [], left


def _happen(
    case: FleetCase, folder: Path, fleet: Servers, controller: int, is_alive: object
) -> int | None:
    """Do what a case says once the journal is so long; the process that was stopped, if any."""
    if not case.happening:
        return None
    at = folder / ("controller" if case.happening.startswith("controller") else f"node-{case.node}")
    deadline = time.monotonic() + QUIET_S
    while _records(at) < case.records:
        if not is_alive() or time.monotonic() > deadline:  # type: ignore[operator]
            return None
        time.sleep(0.005)
    if case.happening == "controller killed":
        os.kill(controller, signal.SIGKILL)
        return None
    if case.happening == "controller interrupted":
        os.kill(controller, signal.SIGINT)
        return None
    if case.happening == "controller silent":
        os.kill(controller, signal.SIGSTOP)
        return controller
    agent = int((folder / f"node-{case.node}.pid").read_text())
    try:
        os.kill(agent, signal.SIGSTOP)
        if case.happening == "node cut off":
            return agent
        # A node that is lost takes everything with it at once. An agent that still runs would start
        # another watchdog in place of the one that is ended, or another server; either would act.
        for marker in (at / "runs").glob("active/*.json"):
            watchdog = json.loads(marker.read_text())["watchdog"]
            with suppress(ProcessLookupError):
                os.kill(watchdog["pid"], signal.SIGKILL)
        for pid in servers_of(folder / str(fleet.ports[case.node])):
            os.kill(pid, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return None


def _records(scratch: Path) -> int:
    paths = list((scratch / "runs").rglob(journal.NAME))
    return sum(path.read_bytes().count(b"\n") for path in paths)


def _node_comes_back(scratch: Path, environment: dict[str, str]) -> None:
    """The machine is up again, its server is not: the next command on it restores it."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", "runs", "list"],
        env={**environment, "ASSAY_SCRATCH": str(scratch), "ASSAY_FAULT": ""},
        capture_output=True, text=True, timeout=QUIET_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _await_agents(folder: Path) -> None:
    for number in range(NODES):
        path = folder / f"node-{number}.pid"
        if not path.exists():
            continue
        agent = process.identify(int(path.read_text()))
        if agent is None or "assay.improve.fleet.agent" not in agent.argv:
            continue
        assert process.wait_until(lambda of=agent: not process.is_running(of), QUIET_S)


def _is_owed(node: Path) -> bool:
    """Whether a node has promised to come back to something, and is not done."""
    readings = [journal.read(path.parent) for path in (node / "runs").rglob(journal.NAME)]
    return any(reading.of("safe") and not reading.is_finished for reading in readings)


def _is_decided(folder: Path) -> bool:
    runs = [path.parent for path in (folder / "controller" / "runs").glob(f"*/{journal.NAME}")]
    return any(journal.read(run).of("kept") for run in runs)


def _problems(folder: Path, number: int) -> list[str]:
    problems = []
    for path in (folder / f"node-{number}" / "runs").rglob(journal.NAME):
        reading = journal.read(path.parent)
        problems += reading.problems
        problems += [f"outstanding: {change}" for change in outstanding(reading.records)]
    return problems
