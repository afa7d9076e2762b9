"""Reading traces: a generated Kineto file, imported and summarized, with peak memory.

Each sample is a process from start to end. The rival is HolisticTraceAnalysis where it is
installed: it parses the same file and sums kernels by type, its imports not counted.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.harness.table import TIMES_AT_MOST
from assay.bench.rivals import trace_analysis
from assay.bench.rivals.trace_analysis import HTA, Analysis
from assay.bench.suites import generated_trace
from assay.bench.suites.generated_trace import Written

EVENTS: Final = 1_000_000
QUICK_EVENTS: Final = 20_000
LARGEST_FOR_RIVAL: Final = 2_000_000
"""Events beyond which the rival is left out: it would take many minutes and all memory."""
ROUNDS: Final = 9
"""Seeds share them: three each. One each has no spread that another run could be held against."""

_CLOCK: Final = SelfTimedClock()


class _File:
    """A generated file that is deleted with the last case that reads it."""

    def __init__(self, events: int, rival_python: Path | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="assay-bench-trace-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.path = self.folder / "trace.json"
        self.written: Written = generated_trace.write(self.path, events)
        self.rival_python = rival_python
        self.rival_runs: list[Analysis] = []

    def analyze_with_hta(self) -> float:
        """Seconds of the rival."""
        self.rival_runs.append(trace_analysis.analyze_with_hta(self.path, self.rival_python))
        return self.rival_runs[-1].seconds

    def rival_memory(self, number: int) -> float:
        """Peak memory of a run of the rival that was timed before."""
        return self.rival_runs[number % len(self.rival_runs)].resident_bytes


def cases(settings: Settings) -> list[Case]:
    """Summary and import of each size: time and memory."""
    sizes = [size[0] for size in settings.sizes] or [QUICK_EVENTS if settings.quick else EVENTS]
    gathered = []
    for events in sizes:
        # Of a small file, starting the process would be most of the time.
        bar = {TIMES_AT_MOST: 0.1} if events >= EVENTS else {}
        file = functools.cache(functools.partial(_File, events, settings.rival_python))
        for what, unit, prepare in (
            ("import and summary", "s", _summary_seconds),
            ("import and summary, peak resident memory", "MB", _summary_memory),
            ("import to Parquet", "s", _store_seconds),
            ("import to Parquet, peak resident memory", "MB", _store_memory),
        ):
            gathered.append(
                Case(
                    f"{what}, {events:,} events",
                    unit,
                    functools.partial(prepare, file),
                    bar if prepare is _summary_seconds else {},
                    rounds=ROUNDS,
                )
            )
    return gathered


def _summary_seconds(file: Callable[[], _File]) -> PreparedCase:
    written = file()
    return _summary(
        written, lambda done: done.seconds, lambda _: written.analyze_with_hta(), _scan(written)
    )


def _summary_memory(file: Callable[[], _File]) -> PreparedCase:
    written = file()
    return _summary(written, lambda done: done.resident_bytes, written.rival_memory)


def _store_seconds(file: Callable[[], _File]) -> PreparedCase:
    written = file()
    return _store(written, lambda done: done.seconds, _scan(written))


def _store_memory(file: Callable[[], _File]) -> PreparedCase:
    return _store(file(), lambda done: done.resident_bytes)


def _scan(file: _File) -> Subject:
    """In the same rounds, so that results of other hours can be held against each other."""
    return Subject(
        "looking at every byte", lambda _: trace_analysis.scan(file.path).seconds, _CLOCK
    )


def _summary(
    file: _File,
    measured: Callable[[Analysis], float],
    rival_call: Callable[[int], float],
    ceiling: Subject | None = None,
) -> PreparedCase:
    def error(_: int) -> float:
        data = trace_analysis.summarize(file.path).data
        written = file.written
        return max(
            _difference(data["kernels"], written.kernels),
            _difference(data["device_ns"], written.kernel_ns + written.copy_ns),
        )

    rival: Subject | Absent = Absent(HTA, "not installed")
    if file.written.events > LARGEST_FOR_RIVAL:
        rival = Absent(HTA, f"not run beyond {LARGEST_FOR_RIVAL:,} events")
    elif trace_analysis.has_hta(file.rival_python):
        rival = Subject(HTA, rival_call, _CLOCK)
    return PreparedCase(
        Subject("assay", lambda _: measured(trace_analysis.summarize(file.path)), _CLOCK),
        Check("the generator's count and sum of kernels", error, 0.0),
        ceiling=ceiling,
        rivals=[rival],
        bytes=file.written.nbytes,
        note=f"a file of {file.written.nbytes / 1e6:,.0f} MB",
    )


def _store(
    file: _File, measured: Callable[[Analysis], float], ceiling: Subject | None = None
) -> PreparedCase:
    def stored() -> Analysis:
        folder = file.folder / "stored"
        shutil.rmtree(folder, ignore_errors=True)
        return trace_analysis.store(file.path, folder)

    def error(_: int) -> float:
        kinds: dict[str, Any] = stored().data["kinds"]
        return max(
            _difference(kinds["kernel"]["count"], file.written.kernels),
            _difference(kinds["kernel"]["ns"], file.written.kernel_ns),
        )

    return PreparedCase(
        Subject("assay", lambda _: measured(stored()), _CLOCK),
        Check("the generator's count and sum of kernels", error, 0.0),
        ceiling=ceiling,
        bytes=file.written.nbytes,
    )


def _difference(got: int, expected: int) -> float:
    return abs(got - expected) / expected


SUITE = Suite(
    "trace",
    cases,
    axes=(1,),
    size_meaning="events",
    devices=("cpu",),
    has_rivals_elsewhere=True,
    seeding="inputs",
)
