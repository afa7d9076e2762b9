"""Collectives of free shape: the textbook algorithms, and a node's measured ones."""

from __future__ import annotations

from assay.model import POSITIVE, Expression, Reference, Variable, by_definition
from assay.stack import alpha_beta
from assay.stack.alpha_beta import Medium, Span
from assay.stack.collectives.constants import MPICH, RING, TREE, scope
from assay.stack.collectives.node import node_all_gather, node_all_reduce, node_all_to_all, node_reduce_scatter

size = scope.declare(
    "size, S [byte]: bytes of the output of every rank, or of its input where that is more, as nccl-tests counts",
    reference=by_definition(),
    boundary="scenario",
)
ranks = scope.declare("ranks, p: participating ranks", bounds=(1, None), reference=by_definition(), boundary="scenario")
local_ranks = scope.declare(
    "local.ranks, r: participating ranks of one node",
    bounds=(1, None),
    reference=by_definition(),
    boundary="scenario",
    library=True,
)
latency = scope.declare(
    "latency, alpha [s as us]: latency of a message between nodes", reference=MPICH, boundary="primitive", library=True
)
bandwidth = scope.declare(
    "bandwidth, 1/beta [byte/s as GB/s]: rate of a message between nodes",
    bounds=POSITIVE,
    reference=MPICH,
    boundary="primitive",
    library=True,
)
local_latency = scope.declare(
    "local.latency, alpha_l [s as us]: latency of a message inside a node",
    reference=MPICH,
    boundary="primitive",
    library=True,
)
local_bandwidth = scope.declare(
    "local.bandwidth, 1/beta_l [byte/s as GB/s]: rate of a message inside a node",
    bounds=POSITIVE,
    reference=MPICH,
    boundary="primitive",
    library=True,
)

direct = scope.declare(
    "direct, d: 1 where an engine's own all-reduce is used, 0 for the library's. Unless given, 0",
    equals=0,
    bounds=(0, 1),
    reference=by_definition(),
)

_ACROSS = Medium(latency, bandwidth)
_SPAN = Span(local_ranks, ranks / local_ranks, Medium(local_latency, local_bandwidth), _ACROSS)


def _library(name: str, meaning: str, equals: Expression, reference: Reference) -> Variable:
    return scope.declare(f"{name}, t [s as us]: {meaning}", equals=equals, reference=reference, library=True)


ring_allgather = _library(
    "ring.allgather",
    "all-gather, or reduce-scatter, in a ring",
    alpha_beta.ring_all_gather(size, ranks, _ACROSS),
    MPICH,
)
ring_allreduce = _library(
    "ring.allreduce", "all-reduce in a ring", alpha_beta.ring_all_reduce(size, ranks, _ACROSS), RING
)
tree_allreduce = _library(
    "tree.allreduce", "all-reduce over two trees", alpha_beta.tree_all_reduce(size, ranks, _ACROSS), TREE
)
alltoall = _library(
    "direct.alltoall", "all-to-all, all messages at once", alpha_beta.direct_all_to_all(size, ranks, _ACROSS), MPICH
)
hierarchical_allgather = _library(
    "hierarchical.allgather",
    "all-gather between nodes, then inside them",
    alpha_beta.hierarchical_all_gather(size, _SPAN),
    MPICH,
)
hierarchical_allreduce = _library(
    "hierarchical.allreduce",
    "reduce-scatter inside, all-reduce across, all-gather inside",
    alpha_beta.hierarchical_all_reduce(size, _SPAN),
    MPICH,
)

OPERATIONS: dict[str, Variable] = {
    "all_reduce": node_all_reduce(scope, "node.all_reduce.", size=size, ranks=ranks, direct=direct),
    "all_gather": node_all_gather(scope, "node.all_gather.", size=size, ranks=ranks),
    "reduce_scatter": node_reduce_scatter(scope, "node.reduce_scatter.", size=size, ranks=ranks),
    "all_to_all": node_all_to_all(scope, "node.all_to_all.", size=size, ranks=ranks),
}
"""Time inside a node by operation."""
