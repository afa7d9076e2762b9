"""Nodes of a step: the work of each equation, laid out over layers and operations.

An equation for one operation gives a node its work. One that several operations share is split:
launches evenly, the rest by the bytes that each moves, so that nodes add up to the equation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from assay.planner.evaluation import PARTS, STEP, SUMS, Spread
from assay.planner.graph import Node
from assay.planner.operations import SHARED, Operation

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Work:
    time: float
    floor: float
    size: float
    flops: float


class Layout:
    """Turns operations into nodes with the values of one evaluated step."""

    def __init__(
        self, given: Values, values: Values, phase: str, tokens: float,
        spreads: Mapping[str, float], *, kernels_alone: bool = False,
    ) -> None:  # fmt: skip
        """Keep inputs and outputs; `spreads` has further log spreads of a family of kernels.

        `kernels_alone` states that times of expert GEMMs are those of their kernels, without glue.
        """
        self.given, self.values, self.phase, self.extra = given, values, phase, spreads
        self.kernels_alone = kernels_alone
        self.tokens = tokens
        self.nodes: list[Node] = []

    def add(
        self, operations: Sequence[Operation], layer: int | None, beside: Sequence[Operation] = ()
    ) -> None:
        """Append nodes, each after the one before it; `beside` are others that share equations."""
        shares = {item: _Shares(self, item, [*operations, *beside]) for item in SHARED}
        for operation in operations:
            first = operation.items[0]
            work = shares[first].of(operation) if first in shares else self._sum(operation)
            self._append(operation, layer, work)

    def _sum(self, operation: Operation) -> _Work:
        parts = [self.item(item) for item in operation.items]
        scale = operation.scale
        if operation.is_linear:
            scale *= self.values[_LINEAR] / self.values[_ATTENTION]
        return _Work(
            scale * sum(p.time for p in parts), scale * sum(p.floor for p in parts),
            scale * sum(p.size for p in parts), scale * sum(p.flops for p in parts),
        )  # fmt: skip

    def item(self, item: str) -> _Work:
        """The work of an equation in one layer, or outside of layers."""
        if item == "outer":
            values = self.values
            return _Work(values[f"{STEP}outer_time"], 0.0, values[f"{STEP}outer_passes.size"], 0.0)
        prefix = f"{STEP}operation.{item}."
        if item in SUMS:
            # Every rank contributes and receives the outputs of all tokens.
            size = 4 * self.tokens * self.given["architecture.hidden"]
            return _Work(self.values[prefix + "time"], 0.0, size, 0.0)
        parts = ("time", "floor", "size", "flops")
        work = _Work(*(self.values.get(prefix + part, 0.0) for part in parts))
        if item in _EXPERTS:
            return replace(work, time=work.time - self.glue)
        return (
            replace(work, time=work.time + len(_EXPERTS) * self.glue) if item == "routing" else work
        )

    @cached_property
    def glue(self) -> float:
        """Time of an expert GEMM's equation that is not its kernel's.

        Its tables timed whole layers of experts: sorting, activation and weighted sum are in the
        fitted time without work, less the launch of the GEMM itself.
        """
        if self.kernels_alone:
            return 0.0
        is_prompt = self.given[f"{STEP}prefill_tokens"] > 0
        name = "serving.prompt_expert_slowdown" if is_prompt else "serving.expert_slowdown"
        launch = self.given["kernels.experts.launch_time"] * self.given[name]
        above = [
            self.values[f"{STEP}operation.{item}.time"]
            - self.values[f"{STEP}operation.{item}.floor"]
            for item in _EXPERTS
        ]
        return max(min(launch - self.given["kernels.passes.launch_time"], *above), 0.0)

    def _append(self, operation: Operation, layer: int | None, work: _Work) -> None:
        name = operation.name if layer is None else f"layers.{layer}.{operation.name}"
        taken = {node.name for node in self.nodes[-16:]}
        if name in taken:
            name = f"{name}.{sum(other.startswith(name) for other in taken) + 1}"
        written = operation.written * work.size
        if operation.outputs:
            written = min(2 * self.tokens * operation.outputs, work.size)
        if operation.depth:
            written = min(work.flops / operation.depth, work.size)
        lo, hi = self._spread(operation).ends(work.time, work.floor)
        used = [
            name for item in operation.items if self.item(item).time for name in self._used(item)
        ]
        self.nodes.append(
            Node(
                name, operation.name, layer, self.phase, work.flops, work.size - written, written,
                1e9 * work.floor, 1e9 * work.time, 1e9 * lo, 1e9 * hi,
                self._bound(operation, work), 0,
                (self.nodes[-1].name,) if self.nodes else (), tuple(used), operation.kernels,
            )
        )  # fmt: skip

    def _used(self, item: str) -> list[str]:
        """Variables of the graph of equations that an item's numbers come from."""
        if item == "outer":
            return [f"{STEP}outer_time", f"{STEP}outer_passes.size"]
        prefix = f"{STEP}operation.{item}."
        parts = [prefix + part for part in PARTS if prefix + part in self.values]
        # How many splits of the KV cache decode attention has (Flash-Decoding).
        return [*parts, f"{STEP}{item}.parts"] if item.startswith("decode_") else parts

    def _spread(self, operation: Operation) -> Spread:
        item = operation.items[0]
        family = _FAMILIES.get(item, "kernels.gemm")
        narrow = self.given.get("serving.compute_bits", 16.0) <= 8 and item not in _WIDE
        names = [f"{family}.spread"]
        if narrow and f"{family}.eight_bit_spread" in self.given:
            names = [f"{family}.eight_bit_spread"]
        own = sum(self.given.get(name, 0.0) ** 2 for name in names)
        if item in SHARED:
            own += _SPLIT_SPREAD**2
        return Spread(
            math.sqrt(own + self.extra.get(item, 0.0) ** 2 + self.extra.get("", 0.0) ** 2)
        )

    def _bound(self, operation: Operation, work: _Work) -> str:
        if operation.items[0] in SUMS:
            return "network"
        memory = work.size / self.values["kernels.device.memory_bandwidth"]
        compute = work.flops / self.values["kernels.device.peak_flops"]
        family = _FAMILIES.get(operation.items[0], "kernels.gemm")
        launch = self.given.get(f"{family}.launch_time", 0.0)
        if family == "kernels.passes":
            launch *= operation.kernels
        return max((memory, "memory"), (compute, "compute"), (launch, "launch"))[1]


_FAMILIES = {
    "decode_full": "kernels.decode", "decode_window": "kernels.decode",
    "prompt_full": "kernels.prefill", "prompt_window": "kernels.prefill",
    "experts_up": "kernels.experts", "experts_down": "kernels.experts",
    "passes": "kernels.passes", "routing": "kernels.passes", "state": "kernels.passes",
    "outer": "kernels.passes", "attention_sum": "collectives", "feed_forward_sum": "collectives",
    "send": "collectives", "context_sum": "collectives",
}  # fmt: skip
_LINEAR, _ATTENTION = "architecture.linear.matrices", "architecture.attention.matrices"
_EXPERTS = ("experts_up", "experts_down")
_SPLIT_SPREAD = 0.4
"""Log spread of how operations share an equation."""
_WIDE = ("logits", "latent_values")
"""GEMMs that keep 16-bit operands."""


class _Shares:
    """How the operations of a layer share one equation."""

    def __init__(self, layout: Layout, item: str, operations: Sequence[Operation]) -> None:
        self.members = [operation for operation in operations if operation.items == (item,)]
        if not self.members:
            return
        self.whole = layout.item(item)
        counts = {"passes": "serving.layer_kernels", "routing": "serving.expert_kernels"}
        kernels = layout.given.get(counts.get(item, ""), 3.0)
        if item == "outer":
            kernels = layout.given[f"{STEP}outer_kernels"]
        launched = kernels * layout.given["kernels.passes.launch_time"]
        if item == "routing":
            launched += len(_EXPERTS) * layout.glue
        self.launch = min(launched, self.whole.time)
        self.kernels = sum(member.kernels for member in self.members)
        self.weight = math.fsum(member.weight for member in self.members)

    def of(self, operation: Operation) -> _Work:
        """The share of one operation."""
        launch = self.launch * operation.kernels / self.kernels
        moved = operation.weight / self.weight if self.weight else 1 / len(self.members)
        time = launch + (self.whole.time - self.launch) * moved
        return _Work(time, 0.0, self.whole.size * moved, 0.0)
