"""Whether a program computes what it is timed for: outputs poisoned, inputs new, units counted.

Each way to fake a figure has its own complaint: outputs that are not written, outputs of an
earlier run, outputs taken from elsewhere, and more units than there are in the data.
"""

from __future__ import annotations

import math

from assay.workloads.contract import ArrayWorkload, Program

_FRESH_SEED = 1_000_003
"""Beyond the seeds of claims: data that the program has not seen."""


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
        self._checks = 0

    def error(self, _: int) -> float:
        """The relative error on new data; NaN where the program did not do the work."""
        self._checks += 1
        data = self.workload.generate(_FRESH_SEED + self._checks, self.size)
        self.program.load(data)
        self.program.poison()
        untouched = self.workload.verify(self.program.outputs(), data)
        self.program.run()
        verified = self.workload.verify(self.program.outputs(), data)
        self.against, self.tolerance = verified.against, verified.tolerance
        if untouched.error <= untouched.tolerance:
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

    def _complain(self, text: str) -> float:
        self.complaints.append(text)
        return math.nan
