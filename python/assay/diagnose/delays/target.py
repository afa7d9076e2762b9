"""What can be profiled: something that runs steps with delays before its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class TargetNode(NamedTuple):
    """A place of a step that can be delayed."""

    name: str
    """Unique in its target."""
    operation: str
    chain: str = ""
    """Nodes of a chain run one after the other, with no wait of another stream between them: the
    step waits for all of them or for none, unless other streams contend for what they run on.
    Empty where chains are not known."""


class Run(NamedTuple):
    """What one run measured."""

    step_ns: float
    """A step."""
    spent_ns: float
    """The delay of a step, over all nodes, as it was measured."""


class Target(Protocol):
    """Runs steps; `run` is called many times, with other delays each time."""

    @property
    def nodes(self) -> tuple[TargetNode, ...]:
        """The nodes that can be delayed, in order."""

    @property
    def least_delay_ns(self) -> int:
        """The shortest delay of a node that the target keeps accurately."""

    def plain(self) -> float:
        """A step without delay nodes, in nanoseconds."""

    def run(self, delays_ns: Mapping[str, int]) -> Run:
        """Run steps with these delays by name of node, and none before the others."""
