"""The workloads by name; the module of a workload is imported on first use."""

from __future__ import annotations

import importlib
from typing import Final

from assay.errors import unknown_name
from assay.workloads.contract import ArrayWorkload

WORKLOADS: Final[dict[str, str]] = {
    "order-book": "order_book.workload",
    "order-book-feed": "order_book.feed_workload",
    "perception": "perception.workload",
    "protein": "protein.workload",
}
"""Names as commands have them, and the module of `assay.workloads` that has `WORKLOAD`."""


def workload(name: str) -> ArrayWorkload:
    """The workload of this name."""
    if name not in WORKLOADS:
        raise unknown_name("workload", name, WORKLOADS)
    loaded: ArrayWorkload = importlib.import_module(f"assay.workloads.{WORKLOADS[name]}").WORKLOAD
    return loaded
