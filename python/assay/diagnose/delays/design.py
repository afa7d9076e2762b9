"""The design of a causal profile: which nodes are delayed together, by how much, in which order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from assay.diagnose.delays.target import TargetNode
from assay.errors import InputError

DOSES: Final = (0.05, 0.1)
"""Delays of a step, as shares of it: small, so that they say what a small change would do."""
LARGEST_DOSE: Final = 0.2
"""The largest delay that noise may raise them to."""
CONTROLS: Final = 3
"""Runs without a delay in a block, at least; more where a block has many delays."""


class Group(NamedTuple):
    """Nodes that are delayed together, each by an equal share."""

    name: str
    operation: str
    nodes: tuple[str, ...]

    def halves(self) -> tuple[Group, Group]:
        """The first and the second half of its nodes, in the order of the step.

        >>> [one.name for one in Group("mlp", "mlp", ("a", "b", "c")).halves()]
        ['a', 'b..c']
        """
        middle = len(self.nodes) // 2
        return (
            _part(self.operation, self.nodes[:middle]),
            _part(self.operation, self.nodes[middle:]),
        )

    def delays_ns(self, dose_ns: int) -> dict[str, int]:
        """The delay of each node where those of a step add up to a dose."""
        return dict.fromkeys(self.nodes, round(dose_ns / len(self.nodes)))


def _part(operation: str, nodes: tuple[str, ...]) -> Group:
    name = nodes[0] if len(nodes) == 1 else f"{nodes[0]}..{nodes[-1]}"
    return Group(name, operation, nodes)


class Treatment(NamedTuple):
    """A run of a block: a delay of a group, or none."""

    group: Group | None
    dose_ns: int


def groups(nodes: Sequence[TargetNode], patterns: Sequence[str] | None) -> list[Group]:
    """The nodes of each operation; `patterns` choose nodes by their names or operations.

    >>> nodes = [TargetNode("layers.0.mlp", "mlp"), TargetNode("head", "lm_head")]
    >>> [group.name for group in groups(nodes, None)], len(groups(nodes, ["*head"]))
    (['layers.0.mlp', 'head'], 1)
    """
    chosen = list(nodes)
    if patterns is not None:
        for pattern in patterns:
            if not any(_matches(node, pattern) for node in nodes):
                names = ", ".join(dict.fromkeys(node.operation for node in nodes))
                raise InputError(
                    f'nodes: expected nodes or operations of the step, got "{pattern}"',
                    f"operations: {names}",
                )
        chosen = [node for node in nodes if any(_matches(node, one) for one in patterns)]
    by_operation: dict[str, list[str]] = {}
    for node in chosen:
        by_operation.setdefault(node.operation, []).append(node.name)
    return [
        Group(names[0] if len(names) == 1 else operation, operation, tuple(names))
        for operation, names in by_operation.items()
    ]


def _matches(node: TargetNode, pattern: str) -> bool:
    # Fused operations are joined by `+`; each of them is a name too.
    names = (node.name, node.operation, *node.operation.split("+"))
    return any(fnmatchcase(name, pattern) for name in names)


def block(
    treated: Sequence[Group], doses_ns: Sequence[int], source: random.Random
) -> list[Treatment]:
    """One block: every dose of every group and the controls, in random order."""
    treatments = [Treatment(group, dose) for group in treated for dose in doses_ns]
    controls = max(CONTROLS, round(len(treatments) ** 0.5))
    treatments += [Treatment(None, 0)] * controls
    source.shuffle(treatments)
    return treatments
