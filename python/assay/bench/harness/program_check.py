"""Whether a program computes what it is timed for: outputs poisoned, inputs new, units counted.

Each way to fake a figure has its own complaint: outputs that are not written, outputs of an
earlier run, outputs taken from elsewhere, and more units than there are in the data.
"""

from __future__ import annotations

import math
import time
from typing import Final

from assay.bench.harness.kept_outputs import TIMES_OF_PROCESSES, KeptOutputs, cpu_of_children
from assay.bench.harness.seeding import FIRST_UNSEEN, current_seed
from assay.errors import CheckFailedError
from assay.workloads.contract import ArrayWorkload, DataSet, Program

_FRESH_SEED: Final = FIRST_UNSEEN + 20
"""Beyond those that samples are calibrated with: data that the program has not seen."""
_FRESH_SEEDS: Final = 128
"""More than a check takes: each seed of a claim has its own, for what was checked with one is seen by the next."""
_TIMES_ON_NEW_DATA: Final = 5.0
"""New data may miss every cache and page; no program is honest that takes longer than so many times."""
_OF_FLOOR: Final = 1.0 / 3.0
"""Ceilings that were measured on a busy machine are too low, and the floor is as much too high."""
_CLOCK_S: Final = 1e-3
"""Below this, what other programs take of a core decides."""
TELLING_S: Final = 10 * _CLOCK_S
"""Runs that take so long on new data tell outputs that are kept from work that is done."""
_UNTOLD_S: Final = 2 * _CLOCK_S
"""Shorter ones do not, however little they take on data that were seen."""
_RUNS_ON_NEW_DATA: Final = 9
"""The fastest of so many counts before outputs are said to be kept: another program may have had the core."""
CLOCK: Final = time.perf_counter
"""As it was before any program of others was imported, which could replace it."""


class SeparateProgram(Program):
    """A program of which every run is a process of its own."""


class ProgramCheck:
    """Checks one program, each time on data that it has not seen."""

    def __init__(self, workload: ArrayWorkload, program: Program, size: int) -> None:
        """Check a program that was prepared for data of `size` units."""
        self.workload = workload
        self.program = program
        self.size = size
        self.against = "an independent implementation"
        self.tolerance = 0.0
        self.complaints: list[str] = []
        self.doubts: list[str] = []
        """What could not be checked, and refuses nothing."""
        self.fresh_seconds: list[float] = []
        self._seed = _FRESH_SEED + _FRESH_SEEDS * current_seed()
        self._checks = 0

    def error(self, _: int) -> float:
        """The relative error on new data; NaN where the program did not do the work."""
        self._checks += 1
        data, other = (
            self.workload.generate(self._seed + 2 * self._checks + place, self.size)
            for place in range(2)
        )
        self.program.load(data)
        self.program.poison()
        # Once is enough: the other implementation may take long.
        is_poisoned = self._checks > 1 or not self._is_right(data)
        self._run_on_new_data()
        # What is computed when outputs are read would be of the data that are loaded now.
        self.program.load(other)
        verified = self.workload.verify(self.program.outputs(), data)
        self.against, self.tolerance = verified.against, verified.tolerance
        if not is_poisoned:
            return self._complain("outputs are right before the run: they are not poisoned")
        if verified.units != data.units:
            return self._complain(
                f"the data hold {verified.units:,} {self.workload.unit}s, not {data.units:,}"
            )
        if math.isnan(verified.error):
            return self._complain("outputs were not all written")
        if verified.error > verified.tolerance:
            self._complain(f"outputs differ from {verified.against} on data not seen before")
        return verified.error

    def _is_right(self, data: DataSet) -> bool:
        verified = self.workload.verify(self.program.outputs(), data)
        return verified.error <= verified.tolerance

    def is_fake(self, timed_s: float, floor_s: float | None, wall_s: float | None = None) -> bool:
        """Whether timed runs cannot have done the work that runs on new data did.

        `wall_s` is what they took by the clock of this process, where they have another.
        """
        if floor_s is not None and timed_s < _OF_FLOOR * floor_s:
            self._complain(
                f"faster than this machine moves its bytes: {timed_s:.2e} s, floor {floor_s:.2e} s"
            )
            return True
        seen_s = timed_s if wall_s is None else wall_s
        most_s = _TIMES_ON_NEW_DATA * seen_s + _CLOCK_S
        while min(self.fresh_seconds) > most_s and len(self.fresh_seconds) < _RUNS_ON_NEW_DATA:
            self._load_new_data()
            self._run_on_new_data()
        if (fresh_s := min(self.fresh_seconds)) > most_s:
            self._complain(
                f"{fresh_s / seen_s:.0f} times as fast on data that were seen before: outputs are kept"
            )
            return True
        if fresh_s <= _UNTOLD_S:
            self.doubts.append(
                "samples are too short to tell whether outputs are kept from run to run: not checked"
            )
            return False
        kept, how = KeptOutputs(self.program.load, self._seconds, self._new_data), "kept"
        if isinstance(self.program, SeparateProgram):
            kept = KeptOutputs(
                self._load_anew, self._figure, self._new_data, cpu_of_children, TIMES_OF_PROCESSES
            )
            how = "kept between runs"
        if (times := kept.times_as_fast()) > 1.0:
            self._complain(
                f"{times:.2f} times as fast when it runs again on the same data: outputs are {how}"
            )
            return True
        return False

    def _load_anew(self, data: DataSet) -> None:
        """Load after others that never run: before every run alike, data are generated and written.

        On a busy machine, a process that has just computed waits for a core.
        """
        self.program.load(self.workload.generate(self._seed, self.size))
        self.program.load(data)

    def _figure(self) -> float:
        """Seconds of a run as its figure has them: by the clock, or as it reports them."""
        seconds, reported = self._seconds(), self.program.own_seconds()
        return seconds if reported is None else reported

    def _new_data(self) -> DataSet:
        self._checks += 1
        return self.workload.generate(self._seed + 2 * self._checks, self.size)

    def _load_new_data(self) -> None:
        self.program.load(self._new_data())

    def _run_on_new_data(self) -> None:
        self.fresh_seconds.append(self._seconds())

    def _seconds(self) -> float:
        start = CLOCK()
        self.program.run()
        seconds = CLOCK() - start
        if time.perf_counter is not CLOCK:
            time.perf_counter = CLOCK
            raise CheckFailedError(
                f"{self.workload.name}: the program replaced the clock, time.perf_counter",
                "what it took by another clock is no figure",
            )
        return seconds

    def _complain(self, text: str) -> float:
        self.complaints.append(text)
        return math.nan
