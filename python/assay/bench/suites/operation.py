"""What the suite `ops` knows of an operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay import xp
from assay.bench.harness.case import Absent, Check
from assay.bench.harness.clocks import Call
from assay.runtime.array import Array
from assay.runtime.hardware import Device


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operation is tried, and on what."""

    device: Device
    dtype: str
    rows: int
    columns: int
    copies: int = 1
    """In how many places inputs and outputs lie, which calls take in turn."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.rows, self.columns)

    def spread(self, array: Array) -> list[Array]:
        """The array, and the same elsewhere, as often as there are places."""
        others = range(self.copies - 1)
        return [array, *(xp.asarray(array, copy=True) for _ in others)]

    def spread_tensor(self, tensor: Any) -> list[Any]:
        """The same of a tensor of PyTorch's."""
        return [tensor, *(tensor.clone() for _ in range(self.copies - 1))]


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
    allocates: bool = False
    """Whether results are fresh memory, which captures refuse: calls are made one by one."""
