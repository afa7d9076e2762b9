"""Measured ceilings of this machine, stored for the planner."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assay import paths
from assay.bench.harness.case import UNITS
from assay.bench.harness.result import Figure, Result, load
from assay.errors import InputError
from assay.runtime.fingerprint import machine
from assay.runtime.hardware import Device


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Measured ceilings of a device, in base units."""

    measured: str
    """When, as an ISO date."""
    read: dict[int, float]
    """Read bandwidth in bytes per second, by working-set size."""
    copy: dict[int, float]
    """Copy bandwidth by working-set size; bytes read and written both count."""
    arithmetic: float
    """FP32 FLOP/s of fused multiply-adds in registers."""
    matmul: dict[str, float]
    """FLOP/s of a large GEMM, by element type."""
    launch: float
    """Seconds of the smallest operation, launched from Python."""
    graph_node: float | None
    """Seconds of the smallest operation in a replayed graph."""

    @property
    def memory_read(self) -> float:
        """Read bandwidth of memory: that of the largest working set."""
        return self.read[max(self.read)]

    @property
    def memory_copy(self) -> float:
        """Copy bandwidth of memory."""
        return self.copy[max(self.copy)]

    def to_data(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "memory_read": self.memory_read, "memory_copy": self.memory_copy}


def path_for(device: Device) -> Path:
    """The file of this machine's and device's ceilings, whether or not it exists."""
    return paths.cache("ceilings") / f"{device.name}-{machine(device).fingerprint}.json"


def store(result: Result, device: Device) -> str:
    """Store a result of the suite `ceilings` and return a line that says where.

    Quick runs and results with failed checks are not stored.
    """
    if result.quick:
        return "not stored: a quick run is a look, not a claim"
    wrong = [figure.name for figure in result.figures if not figure.check.passed]
    if wrong:
        return f"not stored: wrong answers of {', '.join(wrong)}"
    path = path_for(device)
    try:
        _summary(result)
    except InputError as error:
        return f"not stored: {error.message}"
    result.save(path)
    return f"stored for the planner in {path}"


def ceilings(device: Device) -> Ceilings | None:
    """Ceilings stored by `assay bench ceilings` on this machine and device; None if it never ran."""
    path = path_for(device)
    return _summary(load(path)) if path.exists() else None


def _summary(result: Result) -> Ceilings:
    by_operation: dict[str, list[Figure]] = {}
    for figure in result.figures:
        by_operation.setdefault(str(figure.parameters.get("operation")), []).append(figure)

    def only(operation: str) -> Figure:
        if operation not in by_operation:
            raise InputError(f"the result has no figure of {operation}", "measure all of them")
        return by_operation[operation][0]

    def bandwidth(operation: str) -> dict[int, float]:
        only(operation)
        return {int(one.parameters["bytes"]): _base(one) for one in by_operation[operation]}

    nodes = by_operation.get("graph node")
    return Ceilings(
        measured=result.started,
        read=bandwidth("read"),
        copy=bandwidth("copy"),
        arithmetic=_base(only("arithmetic")),
        matmul={str(one.parameters["dtype"]): _base(one) for one in by_operation.get("matmul", [])},
        launch=_base(only("launch")),
        graph_node=_base(nodes[0]) if nodes else None,
    )


def _base(figure: Figure) -> float:
    """The figure in base units: bytes or operations per second, or seconds."""
    return figure.value * UNITS[figure.unit].scale
