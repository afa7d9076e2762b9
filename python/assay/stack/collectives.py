"""Collectives: templates that declare the time of an operation in the scope that needs it."""

from __future__ import annotations

from assay.model import (
    POSITIVE,
    Expression,
    Reference,
    Scope,
    Variable,
    by_definition,
    cited,
    minimum,
)
from assay.stack import alpha_beta, interconnect
from assay.stack.alpha_beta import Medium, Span

scope = Scope("collectives", "Time of collective operations")

RING = cited(
    "Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations"
)
TREE = cited(
    "Sanders, Speck and Traeff 2009, Two-tree algorithms for full bandwidth broadcast, reduction and scan"
)
MPICH = cited(
    "Thakur, Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in MPICH"
)
NCCL = cited("NVIDIA, NCCL source code", "src/graph/tuning.cc")
_HOCKNEY = cited("Hockney 1994, The communication challenge for MPP: Intel Paragon and Meiko CS-2")


def _time(
    into: Scope, name: str, meaning: str, equals: Expression, reference: Reference
) -> Variable:
    return into.variable(name, "t", "s", meaning, display="us", equals=equals, reference=reference)


def all_reduce(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression,
    latency: Expression, bandwidth: Expression,
) -> Variable:  # fmt: skip
    """All-reduce over one medium: ring or tree, whichever ends first, as the library chooses."""
    medium = Medium(latency, bandwidth)
    ring = _time(
        into, f"{prefix}ring_time", "all-reduce in a ring",
        alpha_beta.ring_all_reduce(size, ranks, medium), RING,
    )  # fmt: skip
    tree = _time(
        into, f"{prefix}tree_time", "all-reduce over two trees",
        alpha_beta.tree_all_reduce(size, ranks, medium), TREE,
    )  # fmt: skip
    return _time(
        into, f"{prefix}time", "all-reduce, ring or tree as is faster", minimum(ring, tree), NCCL
    )


def all_gather(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression,
    latency: Expression, bandwidth: Expression,
) -> Variable:  # fmt: skip
    """All-gather in a ring; `size` is what every rank holds in the end."""
    time = alpha_beta.ring_all_gather(size, ranks, Medium(latency, bandwidth))
    return _time(into, f"{prefix}time", "all-gather in a ring", time, MPICH)


def reduce_scatter(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression,
    latency: Expression, bandwidth: Expression,
) -> Variable:  # fmt: skip
    """Reduce-scatter in a ring; `size` is what every rank holds at first."""
    time = alpha_beta.ring_all_gather(size, ranks, Medium(latency, bandwidth))
    return _time(into, f"{prefix}time", "reduce-scatter in a ring", time, MPICH)


def all_to_all(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression,
    latency: Expression, bandwidth: Expression,
) -> Variable:  # fmt: skip
    """All-to-all, all messages at once; `size` is what every rank holds at first."""
    time = alpha_beta.direct_all_to_all(size, ranks, Medium(latency, bandwidth))
    return _time(into, f"{prefix}time", "all-to-all, all messages at once", time, MPICH)


def broadcast(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression,
    latency: Expression, bandwidth: Expression,
) -> Variable:  # fmt: skip
    """Broadcast over two trees."""
    time = alpha_beta.tree_broadcast(size, ranks, Medium(latency, bandwidth))
    return _time(into, f"{prefix}time", "broadcast over two trees", time, TREE)


LINKS = Medium(interconnect.link_latency, interconnect.link_rate)
"""Links inside a node."""

RAILS = Medium(interconnect.nic_latency, interconnect.nic_rate)
"""Adapters between nodes, one rail for each GPU of a node."""


def span_of(ranks: Expression, local_ranks: Expression) -> Span:
    """Ranks of which so many lie in one node, over its links and rails."""
    return Span(local_ranks, ranks / local_ranks, LINKS, RAILS)


def hierarchical_all_reduce(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-reduce level by level: inside nodes, between them, inside."""
    time = alpha_beta.hierarchical_all_reduce(size, span)
    return _time(into, f"{prefix}time", "all-reduce, level by level", time, MPICH)


def hierarchical_all_gather(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-gather level by level: between nodes, then inside."""
    time = alpha_beta.hierarchical_all_gather(size, span)
    return _time(into, f"{prefix}time", "all-gather, level by level", time, MPICH)


def hierarchical_reduce_scatter(
    into: Scope, prefix: str, *, size: Expression, span: Span
) -> Variable:
    """Reduce-scatter level by level: inside nodes, then between."""
    time = alpha_beta.hierarchical_all_gather(size, span)
    return _time(into, f"{prefix}time", "reduce-scatter, level by level", time, MPICH)


def hierarchical_all_to_all(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-to-all level by level: inside nodes by destination, then between them."""
    time = alpha_beta.hierarchical_all_to_all(size, span)
    return _time(into, f"{prefix}time", "all-to-all, level by level", time, MPICH)


def spanning_all_reduce(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-reduce through all ranks of several nodes: rings or trees, as is faster."""
    ring = _time(
        into, f"{prefix}ring_time", "all-reduce in rings through all nodes",
        2 * alpha_beta.spanning_ring_all_gather(size, span), NCCL,
    )  # fmt: skip
    tree = _time(
        into, f"{prefix}tree_time", "all-reduce over trees of nodes",
        alpha_beta.spanning_tree_all_reduce(size, span), NCCL,
    )  # fmt: skip
    return _time(
        into, f"{prefix}time", "all-reduce, rings or trees as is faster", minimum(ring, tree), NCCL
    )


def spanning_all_gather(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-gather in rings through all ranks of several nodes."""
    time = alpha_beta.spanning_ring_all_gather(size, span)
    return _time(into, f"{prefix}time", "all-gather in rings through all nodes", time, NCCL)


def spanning_reduce_scatter(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """Reduce-scatter in rings through all ranks of several nodes."""
    time = alpha_beta.spanning_ring_all_gather(size, span)
    return _time(into, f"{prefix}time", "reduce-scatter in rings through all nodes", time, NCCL)


def spanning_all_to_all(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-to-all of everyone with everyone: links and adapters at once."""
    time = alpha_beta.spanning_all_to_all(size, span)
    return _time(into, f"{prefix}time", "all-to-all over links and adapters", time, NCCL)


size = scope.variable(
    "size", "S", "byte", "bytes that every rank holds in the end", reference=by_definition(),
    boundary="scenario", library=True,
)  # fmt: skip
ranks = scope.variable(
    "ranks", "p", "1", "ranks that take part", bounds=(1, None), reference=by_definition(),
    boundary="scenario", library=True,
)  # fmt: skip
local_ranks = scope.variable(
    "local.ranks", "r", "1", "ranks of one node that take part", bounds=(1, None),
    reference=by_definition(), boundary="scenario", library=True,
)  # fmt: skip
latency = scope.variable(
    "latency", "alpha", "s", "latency of a message between nodes", display="us",
    reference=_HOCKNEY, boundary="primitive", library=True,
)  # fmt: skip
bandwidth = scope.variable(
    "bandwidth", "1/beta", "byte/s", "rate of a message between nodes", display="GB/s",
    bounds=POSITIVE, reference=_HOCKNEY, boundary="primitive", library=True,
)  # fmt: skip
local_latency = scope.variable(
    "local.latency", "alpha_l", "s", "latency of a message inside a node", display="us",
    reference=_HOCKNEY, boundary="primitive", library=True,
)  # fmt: skip
local_bandwidth = scope.variable(
    "local.bandwidth", "1/beta_l", "byte/s", "rate of a message inside a node", display="GB/s",
    bounds=POSITIVE, reference=_HOCKNEY, boundary="primitive", library=True,
)  # fmt: skip

_SPAN = Span(
    local_ranks,
    ranks / local_ranks,
    Medium(local_latency, local_bandwidth),
    Medium(latency, bandwidth),
)
_ACROSS = Medium(latency, bandwidth)


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
    "pairwise.alltoall", "all-to-all in pairs",
    alpha_beta.pairwise_all_to_all(size, ranks, _ACROSS), MPICH,
)  # fmt: skip
hierarchical_allgather = _library(
    "hierarchical.allgather", "all-gather between nodes, then inside them",
    alpha_beta.hierarchical_all_gather(size, _SPAN), MPICH,
)  # fmt: skip
hierarchical_allreduce = _library(
    "hierarchical.allreduce", "reduce-scatter inside, all-reduce across, all-gather inside",
    alpha_beta.hierarchical_all_reduce(size, _SPAN), MPICH,
)  # fmt: skip
