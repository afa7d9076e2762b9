"""Templates for one link: the caller gives its latency and bandwidth."""

from __future__ import annotations

from assay.model import Expression, Reference, Scope, Variable, minimum
from assay.stack import alpha_beta
from assay.stack.alpha_beta import Medium
from assay.stack.collectives.constants import MPICH, NCCL, RING, TREE


def declare_time(into: Scope, name: str, meaning: str, equals: Expression, reference: Reference) -> Variable:
    """Declare a time in a scope."""
    return into.declare(f"{name}, t [s as us]: {meaning}", equals=equals, reference=reference)


def all_reduce(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression, latency: Expression, bandwidth: Expression
) -> Variable:
    """All-reduce over one link: the faster of ring and tree, as NCCL chooses."""
    medium = Medium(latency, bandwidth)
    ring = declare_time(
        into, f"{prefix}ring_time", "all-reduce in a ring", alpha_beta.ring_all_reduce(size, ranks, medium), RING
    )
    tree = declare_time(
        into, f"{prefix}tree_time", "all-reduce over two trees", alpha_beta.tree_all_reduce(size, ranks, medium), TREE
    )
    return declare_time(into, f"{prefix}time", "all-reduce, the faster of ring and tree", minimum(ring, tree), NCCL)


def all_gather(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression, latency: Expression, bandwidth: Expression
) -> Variable:
    """All-gather in a ring; `size` is the output of every rank."""
    time = alpha_beta.ring_all_gather(size, ranks, Medium(latency, bandwidth))
    return declare_time(into, f"{prefix}time", "all-gather in a ring", time, MPICH)


def reduce_scatter(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression, latency: Expression, bandwidth: Expression
) -> Variable:
    """Reduce-scatter in a ring; `size` is the input of every rank."""
    time = alpha_beta.ring_all_gather(size, ranks, Medium(latency, bandwidth))
    return declare_time(into, f"{prefix}time", "reduce-scatter in a ring", time, MPICH)


def all_to_all(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression, latency: Expression, bandwidth: Expression
) -> Variable:
    """All-to-all, all messages at once; `size` is the input of every rank."""
    time = alpha_beta.direct_all_to_all(size, ranks, Medium(latency, bandwidth))
    return declare_time(into, f"{prefix}time", "all-to-all, all messages at once", time, MPICH)


def broadcast(
    into: Scope, prefix: str, *, size: Expression, ranks: Expression, latency: Expression, bandwidth: Expression
) -> Variable:
    """Broadcast over two trees."""
    time = alpha_beta.tree_broadcast(size, ranks, Medium(latency, bandwidth))
    return declare_time(into, f"{prefix}time", "broadcast over two trees", time, TREE)
