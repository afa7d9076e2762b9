"""Collectives of free shape: the textbook algorithms, and a node's measured ones."""

from __future__ import annotations

from assay.model import POSITIVE, Expression, Reference, Variable, by_definition
from assay.stack import alpha_beta
from assay.stack.alpha_beta import Medium, Span
from assay.stack.collectives.constants import MPICH, RING, TREE, scope
from assay.stack.collectives.node import (
    node_all_gather,
    node_all_reduce,
    node_all_to_all,
    node_reduce_scatter,
)

size = scope.variable(
    "size", "S", "byte", "bytes in the output of every rank", reference=by_definition(),
    boundary="scenario", library=True,
)  # fmt: skip
ranks = scope.variable(
    "ranks", "p", "1", "participating ranks", bounds=(1, None), reference=by_definition(),
    boundary="scenario", library=True,
)  # fmt: skip
local_ranks = scope.variable(
    "local.ranks", "r", "1", "participating ranks of one node", bounds=(1, None),
    reference=by_definition(), boundary="scenario", library=True,
)  # fmt: skip
latency = scope.variable(
    "latency", "alpha", "s", "latency of a message between nodes", display="us",
    reference=MPICH, boundary="primitive", library=True,
)  # fmt: skip
bandwidth = scope.variable(
    "bandwidth", "1/beta", "byte/s", "rate of a message between nodes", display="GB/s",
    bounds=POSITIVE, reference=MPICH, boundary="primitive", library=True,
)  # fmt: skip
local_latency = scope.variable(
    "local.latency", "alpha_l", "s", "latency of a message inside a node", display="us",
    reference=MPICH, boundary="primitive", library=True,
)  # fmt: skip
local_bandwidth = scope.variable(
    "local.bandwidth", "1/beta_l", "byte/s", "rate of a message inside a node", display="GB/s",
    bounds=POSITIVE, reference=MPICH, boundary="primitive", library=True,
)  # fmt: skip

direct = scope.variable(
    "direct", "d", "1", "1 where an engine's own all-reduce is used, 0 for the library's",
    bounds=(0, 1), reference=by_definition(), boundary="scenario", library=True,
)  # fmt: skip

_ACROSS = Medium(latency, bandwidth)
_SPAN = Span(local_ranks, ranks / local_ranks, Medium(local_latency, local_bandwidth), _ACROSS)


def _library(name: str, meaning: str, equals: Expression, reference: Reference) -> Variable:
    return scope.variable(
        name, "t", "s", meaning, display="us", equals=equals, reference=reference, library=True
    )


ring_allgather = _library(
    "ring.allgather", "all-gather, or reduce-scatter, in a ring",
    alpha_beta.ring_all_gather(size, ranks, _ACROSS), MPICH,
)  # fmt: skip
ring_allreduce = _library(
    "ring.allreduce", "all-reduce in a ring", alpha_beta.ring_all_reduce(size, ranks, _ACROSS), RING
)
tree_allreduce = _library(
    "tree.allreduce", "all-reduce over two trees",
    alpha_beta.tree_all_reduce(size, ranks, _ACROSS), TREE,
)  # fmt: skip
alltoall = _library(
    "direct.alltoall", "all-to-all, all messages at once",
    alpha_beta.direct_all_to_all(size, ranks, _ACROSS), MPICH,
)  # fmt: skip
hierarchical_allgather = _library(
    "hierarchical.allgather", "all-gather between nodes, then inside them",
    alpha_beta.hierarchical_all_gather(size, _SPAN), MPICH,
)  # fmt: skip
hierarchical_allreduce = _library(
    "hierarchical.allreduce", "reduce-scatter inside, all-reduce across, all-gather inside",
    alpha_beta.hierarchical_all_reduce(size, _SPAN), MPICH,
)  # fmt: skip

OPERATIONS: dict[str, Variable] = {
    "all_reduce": node_all_reduce(
        scope, "node.all_reduce.", size=size, ranks=ranks, direct=direct, library=True
    ),
    "all_gather": node_all_gather(scope, "node.all_gather.", size=size, ranks=ranks, library=True),
    "reduce_scatter": node_reduce_scatter(
        scope, "node.reduce_scatter.", size=size, ranks=ranks, library=True
    ),
    "all_to_all": node_all_to_all(scope, "node.all_to_all.", size=size, ranks=ranks, library=True),
}
"""Time inside a node by operation."""
