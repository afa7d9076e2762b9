"""A rival of a workload in a process of its own: `python -m assay.bench.rivals.rival_process`.

The interpreter is another one, which has the rival's packages. Messages are JSON, one a line: what to
do comes on standard input, answers leave on what was standard output; arrays travel as NumPy archives.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np

from assay.bench.harness.quiescence import wait_until_idle
from assay.errors import AssayError
from assay.runtime.hardware import Device
from assay.workloads.contract import DataSet, Missing, Program
from assay.workloads.registry import workload as workload_named


class RivalProcess:
    """One rival, ready for data of one size."""

    def __init__(self) -> None:
        """Nothing is prepared yet."""
        self._program: Program | None = None
        self._data: dict[str, DataSet] = {}

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Do what a message asks for."""
        match asked["do"]:
            case "prepare":
                return self._prepare(asked)
            case "run":
                return self._run(asked["data"])
            case "outputs":
                np.savez(asked["file"], allow_pickle=False, **self._ready.outputs())
                return {}
            case "poison":
                self._ready.poison()
                return {}
        raise ValueError(f"expected prepare, run, outputs or poison, got {asked['do']!r}")

    @property
    def _ready(self) -> Program:
        assert self._program is not None, "prepare comes first"
        return self._program

    def _prepare(self, asked: dict[str, Any]) -> dict[str, Any]:
        workload = workload_named(asked["workload"])
        if asked["case"]:
            workload = next(case for case in workload.gpu_cases if case.case == asked["case"])
        rival = next(rival for rival in workload.rivals if rival.name == asked["rival"])
        prepared = rival.prepare(self._read(asked["data"]), Device(asked["device"]))
        if isinstance(prepared, Missing):
            return {"missing": prepared.reason}
        self._program = prepared
        return {}

    def _run(self, data: dict[str, Any]) -> dict[str, Any]:
        """Load, which is not timed, and run; the clock is the program's or this process's, without messages."""
        self._ready.load(self._read(data))
        wait_until_idle()
        start = time.perf_counter()
        stages = self._ready.run()
        taken = time.perf_counter() - start
        own = self._ready.own_seconds()
        # Worker threads that still poll for work would share cores with what is measured next.
        wait_until_idle()
        return {"seconds": taken if own is None else own, "stages": dict(stages)}

    def _read(self, data: dict[str, Any]) -> DataSet:
        file = data["file"]
        if file not in self._data:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            # One at a time: data sets may be large, and a timed one is asked for again and again.
            self._data = {file: DataSet(arrays, data["units"])}
        return self._data[file]


def main() -> None:
    """Answer messages until there are none."""
    # Libraries print; what they print must not be taken for answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    rival = RivalProcess()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            said = rival.answer(asked)
        except (AssayError, ImportError, RuntimeError, OSError, ValueError, MemoryError) as error:
            said = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
