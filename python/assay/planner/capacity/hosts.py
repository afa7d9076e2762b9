"""Power of a server beside its boards: host CPUs, memory, drives, adapters, switches, fans and supplies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from assay.catalog import entries

_FIGURES: Final = ("cluster.node.design_power", "cluster.node.other_share")
_CPUS: Final = ("cpu.idle_power", "cpu.busy_power", "cpu.working_load", "node.cpus")


@dataclass(frozen=True, slots=True)
class Host:
    """What the node of an accelerator draws beside its boards, by GPU."""

    watts: float
    """CPUs, memory, drives, adapters and a share of the switches."""
    most_watts: float
    """As `watts`, with busy CPUs."""
    multiple: float
    """Of boards and those: fans, and what power supplies lose."""
    name: str
    """The node in the catalog."""

    def drawn(self, boards: float) -> float:
        """Watts of a GPU with its share of the node, by those of its board."""
        return (boards + self.watts) * self.multiple

    def most(self, limit: float) -> float:
        """Watts to provision for a GPU, by the power limit of its board."""
        return (limit + self.most_watts) * self.multiple


@cache
def host_of(accelerator: str) -> Host | None:
    """The node that belongs to an accelerator; None where the catalog has none."""
    from assay.stack import registry

    if accelerator not in entries.names("accelerators"):
        return None
    own = entries.read("accelerators", accelerator)
    companions = own.facts.get("companions", {})
    if "nodes" not in companions or "networks" not in companions:
        return None
    parts = [entries.read(group, companions[group]) for group in ("nodes", "networks")]
    given = {**own.given, **parts[0].given, **parts[1].given}
    gpus = given["cluster.node.gpus"]
    # A leaf switch that is full: what a node has of it does not depend on how many there are.
    ports = given["cluster.network.switch_ports"]
    given["cluster.nodes"] = max(ports // gpus, 1.0)
    given["gpu.power.limit"] = limit = given.get("gpu.power.limit", given["gpu.power.rated"])
    graph = registry()
    design, other = (graph.resolve(name, given, intervals=False).value for name in _FIGURES)
    if design is None or other is None:
        return None
    most = design / (1 + other) / gpus - limit
    # CPUs work as those of a busy node do, not as hard as they can; some boards have their own.
    idle, busy, load, cpus = (given.get(f"cluster.{name}", 0.0) for name in _CPUS)
    return Host(most - (1 - load) * (busy - idle) * cpus / gpus, most, 1 + other, parts[0].path)
