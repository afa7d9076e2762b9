"""Templates for ranks spread over nodes: links inside, adapters between."""

from __future__ import annotations

from dataclasses import replace

from assay.model import Expression, Scope, Variable, minimum
from assay.stack import alpha_beta, interconnect
from assay.stack.alpha_beta import Medium, Span
from assay.stack.collectives import constants
from assay.stack.collectives.constants import MPICH, NCCL
from assay.stack.collectives.templates import declare_time
from assay.stack.kernels import device

LINKS = Medium(interconnect.link_latency, interconnect.link_rate)
"""Links inside a node."""

RAILS = Medium(interconnect.nic_latency, interconnect.nic_rate)
"""Adapters between nodes, one rail for each GPU of a node."""

EXCHANGES = Medium(constants.exchange_start, constants.exchange_share * device.link_bandwidth)
"""Links inside a node in an all-to-all: one launch for all messages, and a fitted rate."""


def span_of(ranks: Expression, local_ranks: Expression) -> Span:
    """A group of ranks spread over nodes, over links inside and rails between them."""
    return Span(local_ranks, ranks / local_ranks, LINKS, RAILS)


def hierarchical_all_reduce(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-reduce level by level: inside nodes, between them, inside."""
    time = alpha_beta.hierarchical_all_reduce(size, span)
    return declare_time(into, f"{prefix}time", "all-reduce, level by level", time, MPICH)


def hierarchical_all_gather(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-gather level by level: between nodes, then inside."""
    time = alpha_beta.hierarchical_all_gather(size, span)
    return declare_time(into, f"{prefix}time", "all-gather, level by level", time, MPICH)


def hierarchical_reduce_scatter(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """Reduce-scatter level by level: inside nodes, then between."""
    time = alpha_beta.hierarchical_all_gather(size, span)
    return declare_time(into, f"{prefix}time", "reduce-scatter, level by level", time, MPICH)


def hierarchical_all_to_all(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-to-all level by level: inside nodes by destination, then between them."""
    time = alpha_beta.hierarchical_all_to_all(size, span)
    return declare_time(into, f"{prefix}time", "all-to-all, level by level", time, MPICH)


def spanning_all_reduce(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-reduce through all ranks of several nodes: rings or trees, as is faster."""
    ring = declare_time(
        into,
        f"{prefix}ring_time",
        "all-reduce in rings through all nodes",
        2 * alpha_beta.spanning_ring_all_gather(size, span),
        NCCL,
    )
    tree = declare_time(
        into,
        f"{prefix}tree_time",
        "all-reduce over trees of nodes",
        alpha_beta.spanning_tree_all_reduce(size, span),
        NCCL,
    )
    return declare_time(into, f"{prefix}time", "all-reduce, the faster of rings and trees", minimum(ring, tree), NCCL)


def spanning_all_gather(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-gather in rings through all ranks of several nodes."""
    time = alpha_beta.spanning_ring_all_gather(size, span)
    return declare_time(into, f"{prefix}time", "all-gather in rings through all nodes", time, NCCL)


def spanning_reduce_scatter(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """Reduce-scatter in rings through all ranks of several nodes."""
    time = alpha_beta.spanning_ring_all_gather(size, span)
    return declare_time(into, f"{prefix}time", "reduce-scatter in rings through all nodes", time, NCCL)


def spanning_all_to_all(into: Scope, prefix: str, *, size: Expression, span: Span) -> Variable:
    """All-to-all of everyone with everyone: links and adapters at once."""
    if span.local is LINKS:
        span = replace(span, local=EXCHANGES)
    time = alpha_beta.spanning_all_to_all(size, span)
    return declare_time(into, f"{prefix}time", "all-to-all over links and adapters", time, MPICH)
