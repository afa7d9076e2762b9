"""Operations of the suite `ops`: how they are set up, called and checked."""

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
class OperationSetup:
    """Device, element type and shape that an operation is measured with."""

    device: Device
    dtype: str
    rows: int
    columns: int
    copies: int = 1
    """Copies of inputs and outputs that calls rotate through."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.rows, self.columns)

    def rotated(self, array: Array) -> list[Array]:
        """The array and its copies."""
        return [array, *(xp.asarray(array, copy=True) for _ in range(self.copies - 1))]

    def rotated_tensors(self, tensor: Any) -> list[Any]:
        """A tensor of PyTorch and its copies."""
        return [tensor, *(tensor.clone() for _ in range(self.copies - 1))]


@dataclass(frozen=True, slots=True)
class PreparedOperation:
    """The call of an operation, its check, and the same operation of the rivals."""

    call: Call
    check: Check
    in_numpy: Call | Absent
    in_torch: Callable[[Any, Callable[[Any], Any]], Call]
    """Makes the call from PyTorch's module and a function that uploads host values."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation by name, and how to prepare it."""

    name: str
    dtypes: tuple[str, ...]
    make: Callable[[OperationSetup], PreparedOperation]
    reads_only: bool = False
    """Whether it writes next to nothing, so that the ceiling is reading, not copying."""
    allocates: bool = False
    """Whether it returns new arrays, which graph capture refuses: calls are made one by one."""
