"""A predicted step: operations with their work, floor and interval, and what depends on what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from assay.intervals import Interval

UNITS: Final = {
    "step": "ns", "floor": "ns", "ttft": "ns", "bytes": "byte", "power": "W", "sm_clock": "Hz",
    "tokens_per_second": "token/s", "joules_per_token": "J/token",
    "dollars_per_token": "USD/token",
}  # fmt: skip
"""The totals of a step and their units."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operation of the step as the engine runs it: one kernel, or a few that belong together.

    Times are nanoseconds on the ceilings of the hardware; `floor_ns` is the speed of light: no
    kernel that moves these bytes and computes these FLOPs is faster. `lo_ns` and `hi_ns` bound
    90 % of what is observed where `expected_ns` is predicted.
    """

    name: str
    """Unique in the graph: `layers.3.qkv_proj`, `lm_head`."""
    operation: str
    """A name of `assay.observe.operations`; fused ones are joined by `+`."""
    layer: int | None
    phase: str
    """prefill, decode or mixed."""
    flops: float
    bytes_read: float
    bytes_written: float
    floor_ns: float
    expected_ns: float
    lo_ns: float
    hi_ns: float
    bound: str
    """What limits it: memory, compute, launch, network or host."""
    stream: int
    """Nodes of one stream run in order; 0 is the main one, -1 the host."""
    dependencies: tuple[str, ...]
    """Names of nodes that must finish first."""
    equations: tuple[str, ...]
    """Variables of the graph of equations that the numbers come from."""
    kernels: int = 1
    """Kernels that the engine launches for it."""


@dataclass(frozen=True, slots=True)
class Graph:
    """What one step should be: its nodes, and the figures of the whole.

    `totals` are figures of `UNITS` with their 90 % intervals; what cannot be computed is absent,
    and `missing` says why.
    """

    nodes: tuple[Node, ...]
    totals: Mapping[str, Interval]
    model: str
    hardware: str
    engine: str
    batch: Mapping[str, Any]
    """The fields of the `BatchConfig` it was predicted for."""
    missing: Mapping[str, str] = field(default_factory=dict)
    degradations: tuple[str, ...] = ()
    """Every assumption, estimate and borrowed number behind it, in words."""
    rent: str = ""
    """The rent of a GPU behind the cost, and whose it is; empty where there is no cost."""

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def to_data(self, *, nodes: bool = True) -> dict[str, Any]:
        """The graph as plain data; times in nanoseconds."""
        data: dict[str, Any] = {
            "model": self.model,
            "hardware": self.hardware,
            "engine": self.engine,
            "batch": dict(self.batch),
            "totals": self.totals_json(),
            "missing": dict(self.missing),
            "degradations": list(self.degradations),
            "rent": self.rent,
        }
        if nodes:
            data["nodes"] = [asdict(node) for node in self.nodes]
        return data

    def totals_json(self) -> dict[str, Any]:
        """The totals as plain data, each with its unit."""
        return {
            name: {**total.to_json("expected"), "unit": UNITS[name]}
            for name, total in self.totals.items()
        }

    def of(self, operation: str) -> tuple[Node, ...]:
        """The nodes of an operation, in order of layers."""
        return tuple(node for node in self.nodes if node.operation == operation)
