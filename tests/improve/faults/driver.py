"""A small controller over journal, watchdog and a real server process; faults come by environment.

`python driver.py STATE PORT MODE`: runs in ASSAY_SCRATCH. MODE is what becomes of the server if this
process dies: restart or stop. Prints the run's id, then each block once it is on disk, and at the
end how often each fault point was passed. `DRIVER_BOTH` ends the watchdog with this process,
`DRIVER_SILENCE` is the watchdog's patience, `DRIVER_JUMP` moves the wall clock at every second look.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from process_engine import START, ProcessEngine

from assay.errors import AssayError
from assay.improve.engines.protocol import EngineLostError, TrialFailedError
from assay.improve.experiments.result import Arm, Block
from assay.improve.journal import block_table, faults, run_folder
from assay.improve.journal.journal import Journal, JournalError
from assay.improve.journal.journaled_engine import JournaledEngine, RollbackError
from assay.improve.journal.recovery import recover
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.improve.journal.watchdog import Watchdog
from assay.improve.workloads.workload import PlannedRequest, Window, Workload

WORKLOAD = Workload("fake", "two requests", (PlannedRequest(0, "one two", 4),))
CANDIDATES = ({"threads": 2}, {"batch": 16}, {"cache": "q8_0"})
SILENCE_S = float(os.environ.get("DRIVER_SILENCE", "60"))
JUMP_S = float(os.environ.get("DRIVER_JUMP", "0"))


class Controller:
    def __init__(self, run: RunFolder, journal: Journal, engine: JournaledEngine) -> None:
        self.run, self.journal, self.engine = run, journal, engine
        self.index = 0

    def block(self, experiment: str, pair: int, arm: Arm) -> Block:
        found = self.engine.measure(WORKLOAD, Window(requests=2))
        block = Block(
            experiment, self.index, pair, arm, found.started_at, found.seconds,
            found.figures["output_throughput"], found.output_tokens, len(found.records),
            found.load_state, found.settings,
        )  # fmt: skip
        self.index += 1
        self.journal.append("block", **block_table.block_data(block))
        print(f"block {block.index} {block.value!r}", flush=True)
        return block

    def experiment(self, name: str, changes: dict[str, object]) -> bool:
        """Control, treatment, control; whether the answers stayed the same."""
        self.journal.append("experiment", name=name, changes=changes)
        expected = self.engine.probe(["x"], 4)
        self.block(name, 0, "control")
        try:
            undo = self.engine.configure(changes)  # type: ignore[arg-type]
        except TrialFailedError as error:
            self.journal.append("verdict", experiment=name, verdict="invalid", why=error.message)
            return False
        try:
            self.block(name, 0, "treatment")
            passed = self.engine.probe(["x"], 4) == expected
        finally:
            undo()
        verdict = "improved" if passed and "threads" in changes else "undecided"
        verdict = verdict if passed else "invalid"
        self.journal.append("verdict", experiment=name, verdict=verdict)
        return verdict == "improved"

    def work(self) -> str:
        self.journal.append("fingerprint", engine="fake")
        self.journal.append("phase", name="capture")
        self.engine.capture(WORKLOAD, Window(requests=1), self.run.trace)
        self.journal.append("baseline", figures={})
        self.journal.append("noise", sd=0.0)
        self.journal.append("plan")
        self.run.write_json(self.run.plan.name, {"floor_ns": None})
        self.journal.append("candidates", candidates=[dict(one) for one in CANDIDATES])
        for changes in CANDIDATES:
            name = " ".join(f"{key}={value}" for key, value in changes.items())
            try:
                proven = self.experiment(name, dict(changes))
            except EngineLostError as error:
                self.engine.revert(error.message, automatic=True)
                continue
            if proven:
                self.engine.configure(changes)
                self.journal.append("kept", changes=changes)
        self.block("confirmation", 0, "treatment")
        self.engine.declare_safe("confirmed")
        self.journal.append("equivalence", verdict="not needed")
        return "improved"


class JumpingClock:
    """A wall clock that somebody sets forth and back."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return time.time() + JUMP_S * (self.looks % 2)


def end_both(watchdog: Watchdog) -> None:
    """Make the action `kill` end the watchdog first."""
    plain_kill = os.kill

    def kill(pid: int, number: int) -> None:
        plain_kill(watchdog.pid, number)
        plain_kill(pid, number)

    faults.os = SimpleNamespace(**{**vars(os), "kill": kill})  # type: ignore[attr-defined]


def main() -> int:
    state, port, mode = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    run = run_folder.create("fake")
    print(run.id, flush=True)
    inner = ProcessEngine(port, state, run.logs, run.id)
    journal = Journal.create(run.path, clock=JumpingClock())
    watchdog = Watchdog.start(run, lambda text: journal.append("degradation", text=text))
    watchdog.beat(SILENCE_S)
    if "DRIVER_BOTH" in os.environ:
        end_both(watchdog)
    journal.append("started", command="driver")
    engine = JournaledEngine(inner, journal, run, beat=lambda seconds: watchdog.beat(SILENCE_S))
    inner.start(START)
    engine.declare_safe("start", on_death=mode)
    code, verdict = 0, "rolled back"
    try:
        verdict = Controller(run, journal, engine).work()
    except (JournalError, OSError, EngineLostError, RollbackError) as error:
        print(f"fault: {error}", flush=True)
        code = getattr(error, "exit_code", 2)
        try:
            engine.revert(str(error), automatic=True)
        except AssayError as second:
            print(f"fault: {second}", flush=True)
            journal.close()
            print(recover(run, "controller", str(second)).sentence, flush=True)
            watchdog.close()
            return 4
    block_table.rebuild(run)
    journal.append("report", files={})
    settings = dict(engine.settings())
    journal.append("finished", verdict=verdict, hash=configuration_hash(settings))
    watchdog.close()
    journal.close()
    print(json.dumps(faults.reached), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
