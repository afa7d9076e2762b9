"""What the suite `ops` knows of an operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay.bench.case import Absent, Check
from assay.bench.clocks import Call
from assay.runtime.hardware import Device


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operation is tried, and on what."""

    device: Device
    dtype: str
    rows: int
    columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.rows, self.columns)


@dataclass(frozen=True, slots=True)
class Work:
    """An operation made ready: the call, its check, and the same by others."""

    call: Call
    check: Check
    in_numpy: Call | Absent
    in_torch: Callable[[Any, Callable[[Any], Any]], Call]
    """From PyTorch's module and a function that places host values, the call."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that can be made ready at a place."""

    name: str
    dtypes: tuple[str, ...]
    make: Callable[[Place], Work]
    reads_only: bool = False
    """Whether next to nothing is written, so that reading is the ceiling, not copying."""
