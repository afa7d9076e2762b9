"""One harness behind every performance claim."""

from assay.bench.harness.case import Case, Settings, Suite
from assay.bench.harness.comparison import Comparison, compare
from assay.bench.harness.result import Figure, Result, load
from assay.bench.harness.session import run, settings
from assay.bench.suites.registry import SUITES, suite

__all__ = [
    "SUITES",
    "Case",
    "Comparison",
    "Figure",
    "Result",
    "Settings",
    "Suite",
    "compare",
    "load",
    "run",
    "settings",
    "suite",
]
