"""Records of what a device ran."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """One completed operation or memory event."""

    sequence: int
    kind: str
    """launch, copy to device, copy to host, copy within device, copy within host, fill, graph,
    allocate or free"""
    name: str
    stream: int
    bytes: int
    flops: float
    submitted_ns: int
    start_ns: int | None
    end_ns: int | None
    failure: str | None
    graph: int | None
    """the id of the replayed graph; its nodes name the operations inside"""
    task: int | None
    """the id of the task that it was charged to"""


class Records(NamedTuple):
    """Records in order, and how many were dropped before them."""

    records: list[Record]
    dropped: int
