"""Traces of `assay bench profile`: steps are calls of one case, whose operations count their work.

No model predicts them. Their floor is that of the operations, each at the best rates of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from assay.diagnose.diagnosis import Situation
from assay.errors import InputError
from assay.intervals import certain
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.header import CASE
from assay.observe.trace import Trace
from assay.planner.counted import Work, floor_seconds
from assay.planner.graph import Graph, Node
from assay.planner.sources import hardware_spec
from assay.planner.specs import HardwareSpec

BELOW: Final = 0.9
"""An operation that took less than this share of its floor is told."""
CHECKED_NS: Final = 50_000
"""Of shorter floors starting an operation is most of the time that is measured."""
SERIAL_STEPS: Final = "serial_steps"
"""The field of a graph's batch with the longest chain of dependent operations of a call."""


@dataclass(frozen=True, slots=True)
class CaseWork:
    """What one call of a case needs, whatever the implementation."""

    name: str
    flops: float
    bytes: float
    serial_steps: float

    @property
    def notes(self) -> list[str]:
        """What no floor has."""
        if not self.serial_steps:
            return []
        return [
            f"{self.serial_steps:,.0f} steps of a call need the one before them: their latency is not "
            "in the floor"
        ]


def case_work(trace: Trace, where: str) -> CaseWork | None:
    """The work of the case that a trace is of; None where it is no such trace."""
    stated = trace.header.metadata.get(CASE)
    if stated is None:
        return None
    if not isinstance(stated, Mapping) or not isinstance(stated.get("name"), str):
        raise InputError(f'{where}: expected "{CASE}" of the header with a name, got {stated!r}')
    numbers = []
    for name in ("flops", "bytes", SERIAL_STEPS):
        value = stated.get(name) or 0.0
        if not isinstance(value, (int, float)) or not 0.0 <= value < 1e30:
            raise InputError(f'{where}: expected "{name}" of its case as a number, got {value!r}')
        numbers.append(float(value))
    return CaseWork(stated["name"], *numbers)


def case_hardware(trace: Trace) -> HardwareSpec | None:
    """The calibration of the machine that a trace of a case was recorded on, where it is here."""
    fingerprint = trace.header.hardware.get("fingerprint")
    if CASE not in trace.header.metadata or not isinstance(fingerprint, str):
        return None
    try:
        return hardware_spec(fingerprint)
    except InputError:
        return None


def case_situation(work: CaseWork, hardware: HardwareSpec | None, where: str) -> Situation:
    """What ran."""
    return Situation(
        where, work.name, hardware.name if hardware else None, "assay", 1, False, can_predict=False
    )


def case_graph(
    trace: Trace, work: CaseWork, hardware: HardwareSpec | None
) -> tuple[tuple[Graph, ...], list[str]]:
    """Operations with their floors as the graph of every step, and notes; none where rates are unknown."""
    if hardware is None:
        return (), [
            *work.notes,
            "no floor: the machine of the trace is not calibrated here; assay calibrate measures it, "
            "--gpu names a file that it wrote",
        ]
    try:
        nodes = _nodes(trace, hardware)
        whole = floor_seconds([Work(work.flops, work.bytes)], hardware)
    except InputError as error:
        return (), [*work.notes, f"no floor: {error.message}"]
    if not nodes:
        return (), [*work.notes, "no floor: no operation of the trace counts its bytes"]
    floor = sum(node.floor_ns for node in nodes)
    notes = [
        *work.notes,
        f"no prediction of its time: floors alone. Operations as they are take {floor / 1e3:,.1f} us at "
        f"the machine's best rates; the work of a call, {work.flops:.3g} FLOPs and {work.bytes:.3g} "
        f"bytes moved once, {whole * 1e6:,.1f} us",
    ]
    batch = {SERIAL_STEPS: work.serial_steps}
    totals = {"floor": certain(floor)}
    return (Graph(nodes, totals, work.name, hardware.name, "assay", batch),), notes


def below_floor(operations: pl.DataFrame) -> list[str]:
    """Operations that took less than their floor: rates were too low, or bytes are counted twice."""
    below = operations.filter(
        (pl.col("floor_ns") >= CHECKED_NS) & (pl.col("kernel_ns") < BELOW * pl.col("floor_ns"))
    )
    return [
        f"{name} takes {kernel / floor:.2f} of its floor: the calibration was of a busier machine, or it "
        "moves fewer bytes than it counts"
        for name, kernel, floor in below.select("operation", "kernel_ns", "floor_ns").rows()
    ]


def _nodes(trace: Trace, hardware: HardwareSpec) -> tuple[Node, ...]:
    """A node an operation: calls of a case are alike, so the mean over them."""
    counted = (
        trace.events.lazy()
        .filter(
            pl.col("kind").is_in(list(schema.DEVICE_KINDS))
            & pl.col("op").is_not_null()
            & pl.col("step").is_not_null()
            & ((pl.col("bytes") > 0) | (pl.col("flops") > 0))
        )
        .group_by(pl.col("op").cast(pl.String), "bytes", "flops")
        .len()
        .sort("op", "bytes", "flops")
        .collect()
    )
    steps = max(trace.steps.height, 1)
    nodes: list[Node] = []
    for (operation,), rows in counted.group_by("op", maintain_order=True):
        flops = nbytes = floor = computing = kernels = 0.0
        for _, moved, computed, count in rows.rows():
            times = count / steps
            own = Work(float(computed or 0.0), float(moved or 0.0))
            seconds = floor_seconds([own], hardware)
            if seconds > floor_seconds([own._replace(flops=0.0)], hardware):
                computing += times * seconds
            floor += times * seconds
            flops, nbytes = flops + times * own.flops, nbytes + times * own.bytes
            kernels += times
        nodes.append(
            Node(
                str(operation), str(operation), None, "", flops, nbytes, 0.0,
                *(4 * (1e9 * floor,)),
                bound="compute" if computing > floor / 2 else "memory",
                stream=0, dependencies=(), equations=(), kernels=max(round(kernels), 1),
            )
        )  # fmt: skip
    return tuple(nodes)
