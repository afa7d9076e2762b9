"""The suites by name; the module of a suite is imported on first use."""

from __future__ import annotations

import importlib
from typing import Final

from assay.bench.harness.case import Suite
from assay.errors import unknown_name
from assay.workloads.registry import WORKLOADS

SUITES: Final = (
    "ceilings", "ops", "gemm", "gemv", "attention", "decode", "speculation", "pool", "scheduler",
    "sharing", "graph", "tracing", "trace", "load", "improve", "speech",
    "order-book-latency",
)  # fmt: skip
"""Every suite; each is a module of `assay.bench.suites` with a `SUITE`."""


def suite(name: str) -> Suite:
    """The suite of this name."""
    if name in WORKLOADS:
        from assay.bench.suites.array_workload import suite_of

        return suite_of(name)
    if name not in SUITES:
        known = (*SUITES, *WORKLOADS)
        raise unknown_name("suite", name, known, "assay bench list has them")
    loaded: Suite = importlib.import_module(f"assay.bench.suites.{name.replace('-', '_')}").SUITE
    return loaded
