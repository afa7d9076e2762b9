"""One harness behind every performance claim."""

from assay.bench.case import Case, Settings, Suite
from assay.bench.comparison import Comparison, compare
from assay.bench.harness import SUITES, run, settings, suite
from assay.bench.result import Figure, Result, load
from assay.bench.stored import Ceilings, ceilings

__all__ = [
    "SUITES",
    "Case",
    "Ceilings",
    "Comparison",
    "Figure",
    "Result",
    "Settings",
    "Suite",
    "ceilings",
    "compare",
    "load",
    "run",
    "settings",
    "suite",
]
