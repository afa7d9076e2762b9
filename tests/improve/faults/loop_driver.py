"""The loop itself on a real server process, with figures of simulated time; faults by environment.

`python loop_driver.py STATE PORT`: as driver.py, but what is driven is `run_loop`. Two threads are
1.6 times as fast, so that the loop keeps, confirms and leaves out a change within seconds.
`DRIVER_RESUME` goes on with the run that is there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from driver import JumpingClock, PatientWatchdog
from planted_engine import PlantedEngine, planted_workload

from assay.errors import AssayError
from assay.improve.engines.http import HttpEngine
from assay.improve.journal import faults, guard, run_folder
from assay.improve.journal.chain import Record
from assay.improve.journal.journal import Journal
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions
from assay.improve.loop.progress import Silent
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Window, Workload
from assay.report.run import write_run

FOLDER = Path(__file__).parent
BUDGET_S = 120.0


class PlantedServer(HttpEngine):
    """A server that is really started, stopped and asked; only the times are made up."""

    def __init__(self, url: str, command: str, logs: Path) -> None:
        self.planted = PlantedEngine(effect=_speed, noise=0.004)
        super().__init__(url, command, adapter=FOLDER / "fake.yaml", folder=logs)

    def measure(self, workload: Workload, window: Window) -> Measurement:
        self.probe(["are you there?"], 1)
        settings = dict(self.settings())
        self.planted._settings = settings
        return replace(self.planted.measure(workload, window), settings=settings)


def _speed(settings: Mapping[str, Setting]) -> float:
    return 1.6 if settings.get("threads") == 2 else 1.0


class Talking(Silent):
    """Says what happens, for the log of a test that fails."""

    def say(self, text: str) -> None:
        print(f"# {text}", flush=True)

    def result(self, text: str) -> None:
        print(f"# {text}", flush=True)


def tell_blocks() -> None:
    """Print each block once its record is on disk."""
    append = Journal.append

    def told(journal: Journal, kind: str, /, **data: Any) -> Record:
        record = append(journal, kind, **data)
        if kind == "block":
            print(f"block {data['index']} {data['value']!r}", flush=True)
        return record

    Journal.append = told  # type: ignore[method-assign]


def set_clock() -> None:
    """Give the journal a wall clock that jumps."""
    create = Journal.create
    Journal.create = lambda folder: create(folder, JumpingClock())  # type: ignore[method-assign]


def main() -> int:
    state, port = Path(sys.argv[1]), int(sys.argv[2])
    server = f"{sys.executable} -S -E {FOLDER / 'fake_server.py'} --port {port} --state {state}"
    guard.Watchdog = PatientWatchdog  # type: ignore[attr-defined]
    tell_blocks()
    set_clock()
    engine = PlantedServer(f"http://127.0.0.1:{port}", f"{server} {{settings}}", state / "logs")
    options = RunOptions(
        budget_s=BUDGET_S, use_history=False, lever_files=(FOLDER / "fake_levers.yaml",)
    )
    code = 0
    try:
        outcome = run_loop(
            engine,
            planted_workload(),
            options,
            write_run,
            progress=Talking(),
            clock=engine.planted.clock,
            resume=run_folder.find("latest") if "DRIVER_RESUME" in os.environ else None,
        )
        print(f"outcome {outcome.verdict}", flush=True)
        code = 0 if outcome.problem is None else outcome.problem.exit_code
    except (AssayError, OSError) as error:
        print(f"fault: {error}", flush=True)
        code = getattr(error, "exit_code", 2)
    finally:
        engine.close()
    print(json.dumps(faults.reached), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
