"""A small controller over journal, guard, watchdog and an HTTP engine; faults come by environment.

`python driver.py STATE PORT`: runs in ASSAY_SCRATCH. Prints the run's id, then each block once it is
on disk, and at the end how often each fault point was passed. `DRIVER_BOTH` ends the watchdog with
this process, `DRIVER_SILENCE` is the watchdog's patience, `DRIVER_JUMP` moves the wall clock at every
second look.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from assay.errors import AssayError
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.protocol import EngineLostError, TrialFailedError
from assay.improve.experiments.result import Arm, Block
from assay.improve.journal import block_table, faults, guard, run_folder
from assay.improve.journal.guard import guarded
from assay.improve.journal.journal import Journal
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.improve.journal.watchdog import Watchdog
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import PlannedRequest, Window, Workload

WORKLOAD = Workload("fake", "two requests", (PlannedRequest(0, "one two", 4),))
CANDIDATES: tuple[dict[str, Setting], ...] = ({"threads": 2}, {"batch": 16}, {"cache": "q8_0"})
FOLDER = Path(__file__).parent


class Controller:
    """Three experiments of a control and a treatment block; the first change is kept."""

    def __init__(self, run: RunFolder, journal: Journal, engine: JournaledEngine) -> None:
        self.run, self.journal, self.engine = run, journal, engine
        self.index = 0

    def block(self, experiment: str, pair: int, arm: Arm) -> Block:
        found = self.engine.measure(WORKLOAD, Window(requests=2))
        if found.errors:
            raise EngineLostError(f"{found.errors} requests failed", failure="crash")
        block = Block(
            experiment, self.index, pair, arm, found.started_at, found.seconds,
            found.figures["output_throughput"], found.output_tokens, len(found.records),
            found.load_state, found.settings,
        )  # fmt: skip
        self.index += 1
        self.journal.append("block", **block_table.block_data(block))
        print(f"block {block.index} {block.value!r}", flush=True)
        return block

    def experiment(self, name: str, changes: dict[str, Setting]) -> bool:
        """Control, treatment; whether the change is faster and the answers stayed the same."""
        self.journal.append("experiment", name=name, changes=changes)
        expected = self.engine.probe(["x"], 4)
        self.block(name, 0, "control")
        try:
            undo = self.engine.configure(changes)
        except TrialFailedError as error:
            self.journal.append("verdict", experiment=name, verdict="invalid", why=error.message)
            return False
        self.block(name, 0, "treatment")
        passed = self.engine.probe(["x"], 4) == expected
        undo()
        verdict = "undecided" if passed else "invalid"
        verdict = "improved" if passed and "threads" in changes else verdict
        self.journal.append("verdict", experiment=name, verdict=verdict)
        return verdict == "improved"

    def work(self) -> None:
        self.engine.declare_safe("start")
        self.journal.append("fingerprint", engine="fake")
        self.journal.append("phase", name="capture")
        self.engine.capture(WORKLOAD, Window(requests=1), self.run.trace)
        self.journal.append("baseline", figures={})
        self.journal.append("noise", sd=0.0)
        self.journal.append("plan")
        self.run.write_json(self.run.plan.name, {"floor_ns": None})
        self.journal.append("candidates", candidates=CANDIDATES)
        for changes in CANDIDATES:
            name = " ".join(f"{key}={value}" for key, value in changes.items())
            try:
                proven = self.experiment(name, changes)
            except EngineLostError as error:
                self.engine.revert(error.message, automatic=True)
                continue
            if proven:
                self.engine.configure(changes)
                self.journal.append("kept", changes=changes)
        self.block("confirmation", 0, "treatment")
        self.engine.declare_safe("confirmed")
        self.journal.append("equivalence", verdict="not needed")
        block_table.rebuild(self.run)
        self.journal.append("report", files={})
        settings = dict(self.engine.settings())
        self.journal.append("finished", verdict="improved", hash=configuration_hash(settings))


class PatientWatchdog(Watchdog):
    """One whose patience is that of the test."""

    def beat(self, seconds: float = 0.0) -> None:
        super().beat(float(os.environ["DRIVER_SILENCE"]))

    @classmethod
    def start(cls, run: RunFolder, on_loss: Callable[[str], None]) -> PatientWatchdog:
        dog = super().start(run, on_loss)
        dog.beat()
        if "DRIVER_BOTH" in os.environ:
            end_both(dog)
        return dog


class JumpingClock:
    """A wall clock that somebody sets forth and back."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return time.time() + float(os.environ["DRIVER_JUMP"]) * (self.looks % 2)


def end_both(watchdog: Watchdog) -> None:
    """Make the action `kill` end the watchdog first."""
    plain_kill = os.kill

    def kill(pid: int, number: int) -> None:
        plain_kill(watchdog.pid, number)
        plain_kill(pid, number)

    faults.os = SimpleNamespace(**{**vars(os), "kill": kill})  # type: ignore[attr-defined]


def main() -> int:
    state, port = Path(sys.argv[1]), int(sys.argv[2])
    server = [sys.executable, "-S", "-E", str(FOLDER / "fake_server.py")]
    command = f"{' '.join(server)} --port {port} --state {state} {{settings}}"
    run = run_folder.create("fake")
    print(run.id, flush=True)
    guard.Watchdog = PatientWatchdog  # type: ignore[attr-defined]
    inner = HttpEngine(
        f"http://127.0.0.1:{port}", command, adapter=FOLDER / "fake.yaml", folder=run.logs
    )
    code = 0
    with Journal.create(run.path, clock=JumpingClock()) as journal:
        try:
            with guarded(inner, run, journal) as engine:
                journal.append("started", command="driver")
                Controller(run, journal, engine).work()
        except (AssayError, OSError) as error:
            print(f"fault: {error}", flush=True)
            code = getattr(error, "exit_code", 2)
    inner.close()
    print(json.dumps(faults.reached), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
