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
    is_alike: bool = False
    """Whether they are one chain."""

    def halves(self) -> tuple[Group, Group]:
        """The first and the second half of its nodes, in the order of the step.

        >>> [half.name for half in Group("mlp", "mlp", ("a", "b", "c")).halves()]
        ['a', 'b..c']
        """
        middle = len(self.nodes) // 2
        return (
            _part(self.operation, self.nodes[:middle], self.is_alike),
            _part(self.operation, self.nodes[middle:], self.is_alike),
        )

    def delays_ns(self, dose_ns: int) -> dict[str, int]:
        """The delay of each node where those of a step add up to a dose."""
        return dict.fromkeys(self.nodes, round(dose_ns / len(self.nodes)))


def _part(operation: str, nodes: tuple[str, ...], is_alike: bool) -> Group:
    name = nodes[0] if len(nodes) == 1 else f"{nodes[0]}..{nodes[-1]}"
    return Group(name, operation, nodes, is_alike or len(nodes) == 1)


class Treatment(NamedTuple):
    """A run of a block: a delay of a group, or none."""

    group: Group | None
    dose_ns: int


def selected(nodes: Sequence[TargetNode], patterns: Sequence[str] | None) -> list[TargetNode]:
    """The nodes whose names or operations match one of the patterns; all where none are given.

    >>> nodes = [TargetNode("layers.0.mlp", "mlp"), TargetNode("head", "final_norm+lm_head")]
    >>> [node.name for node in selected(nodes, ["lm_head"])]
    ['head']
    """
    if patterns is None:
        return list(nodes)
    for pattern in patterns:
        if not any(_matches(node, pattern) for node in nodes):
            names = ", ".join(dict.fromkeys(node.operation for node in nodes))
            raise InputError(
                f'nodes: expected nodes or operations of the step, got "{pattern}"',
                f"operations: {names}",
            )
    return [node for node in nodes if any(_matches(node, pattern) for pattern in patterns)]


def groups(nodes: Sequence[TargetNode]) -> list[Group]:
    """The nodes of each chain where a step has several chains, else those of each operation.

    >>> nodes = [TargetNode("a", "copy", "0"), TargetNode("b", "fill", "0"), TargetNode("c", "copy", "1")]
    >>> [(group.name, group.operation) for group in groups(nodes)]
    [('a..b', 'copy, fill'), ('c', 'copy')]
    >>> [group.name for group in groups([TargetNode("a", "copy"), TargetNode("b", "copy")])]
    ['copy']
    """
    by_chain = len({node.chain for node in nodes if node.chain}) > 1
    members: dict[tuple[str, str], list[TargetNode]] = {}
    for node in nodes:
        key = (node.chain, "") if by_chain and node.chain else ("", node.operation)
        members.setdefault(key, []).append(node)
    grouped = []
    for (chain, operation), within in members.items():
        names = tuple(node.name for node in within)
        operations = ", ".join(dict.fromkeys(node.operation for node in within))
        alike = len({node.chain or node.name for node in within}) == 1
        whole = _part(operations, names, alike)
        grouped.append(whole if chain or len(names) == 1 else whole._replace(name=operation))
    return grouped


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
