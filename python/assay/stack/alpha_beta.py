"""Algorithms of collectives as expressions: steps that each cost a latency and bytes over a rate.

Sizes follow nccl-tests: the output of a rank for an all-gather, its input for a reduce-scatter or
an all-to-all, and either for an all-reduce.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import Expression, ceil, log2, maximum, minimum, where


@dataclass(frozen=True)
class Medium:
    """A link in the alpha-beta model: latency of a step, and bandwidth."""

    latency: Expression
    bandwidth: Expression


def ring_all_gather(size: Expression, ranks: Expression, medium: Medium) -> Expression:
    """All-gather, or reduce-scatter, in a ring: each of p - 1 steps passes a p-th part on."""
    return (ranks - 1) * (medium.latency + size / (ranks * medium.bandwidth))


def ring_all_reduce(size: Expression, ranks: Expression, medium: Medium) -> Expression:
    """All-reduce in a ring: a reduce-scatter, then an all-gather."""
    return 2 * ring_all_gather(size, ranks, medium)


def tree_all_reduce(size: Expression, ranks: Expression, medium: Medium) -> Expression:
    """All-reduce up and down two trees at once, each with half of the bytes, pipelined."""
    return 2 * tree_broadcast(size, ranks, medium)


def tree_broadcast(size: Expression, ranks: Expression, medium: Medium) -> Expression:
    """Broadcast, or reduction to one rank, over two trees at once, pipelined."""
    depth = ceil(log2(ranks))
    return where(ranks > 1, depth * medium.latency + size / medium.bandwidth, 0 * medium.latency)


def direct_all_to_all(size: Expression, ranks: Expression, medium: Medium) -> Expression:
    """All-to-all with all messages in flight at once: one latency plus bytes over bandwidth."""
    sent = size * (ranks - 1) / (ranks * medium.bandwidth)
    return where(ranks > 1, medium.latency + sent, 0 * medium.latency)


@dataclass(frozen=True)
class Span:
    """Ranks spread over nodes: so many in each, links inside, adapters between.

    Each of a node's ranks has an adapter of its own (a rail), so that what leaves a node leaves
    over as many adapters as it has ranks.
    """

    local_ranks: Expression
    nodes: Expression
    local: Medium
    across: Medium

    @property
    def ranks(self) -> Expression:
        """All ranks."""
        return self.local_ranks * self.nodes

    @property
    def bandwidth(self) -> Expression:
        """Rate of a ring or tree through all ranks: the links', or that of a node's rails."""
        rails = self.local_ranks * self.across.bandwidth
        one_each = where(self.local_ranks > 1, minimum(self.local.bandwidth, rails), rails)
        return where(self.nodes > 1, one_each, self.local.bandwidth)


def hierarchical_all_gather(size: Expression, span: Span) -> Expression:
    """All-gather between nodes of each rank's share, then of everything inside the nodes."""
    across = ring_all_gather(size / span.local_ranks, span.nodes, span.across)
    return across + ring_all_gather(size, span.local_ranks, span.local)


def hierarchical_all_reduce(size: Expression, span: Span) -> Expression:
    """Reduce-scatter inside the nodes, all-reduce between them, all-gather inside."""
    return 2 * hierarchical_all_gather(size, span)


def hierarchical_all_to_all(size: Expression, span: Span) -> Expression:
    """Hierarchical all-to-all: inside nodes by destination, then between ranks of equal local index."""
    inside = direct_all_to_all(size, span.local_ranks, span.local)
    return inside + direct_all_to_all(size, span.nodes, span.across)


def spanning_ring_all_gather(size: Expression, span: Span) -> Expression:
    """All-gather in rings through all ranks, one per rail; one step per node crosses nodes."""
    ranks = span.ranks
    crossing = span.nodes - 1
    latency = (ranks - 1 - crossing) * span.local.latency + crossing * span.across.latency
    return where(ranks > 1, latency + size * (ranks - 1) / (ranks * span.bandwidth), 0 * span.local.latency)


def spanning_tree_all_reduce(size: Expression, span: Span) -> Expression:
    """All-reduce over trees of nodes, with a chain through the ranks of each node."""
    depth = ceil(log2(span.nodes))
    latency = (span.local_ranks - 1) * span.local.latency + depth * span.across.latency
    return where(span.ranks > 1, 2 * (latency + size / span.bandwidth), 0 * span.local.latency)


def spanning_switch_tree_all_reduce(size: Expression, span: Span, switch_rate: Expression) -> Expression:
    """All-reduce over trees of nodes whose switches reduce (NVLSTree): links and adapters at once.

    Of two nodes each sends everything once; of more, a node passes sums up one tree and down another.
    """
    latency = spanning_tree_all_reduce(0 * size, span)
    rails = span.local_ranks * span.across.bandwidth
    sent = size * where(span.nodes > 2, 2, 1) / rails
    return latency + maximum(size / switch_rate, sent)


def spanning_all_to_all(size: Expression, span: Span) -> Expression:
    """All-to-all of everyone with everyone: links and adapters carry their parts at once."""
    ranks = span.ranks
    inside = size * (span.local_ranks - 1) / (ranks * span.local.bandwidth)
    outside = size * (ranks - span.local_ranks) / (ranks * span.across.bandwidth)
    latency = where(span.nodes > 1, span.across.latency, span.local.latency)
    slower = where(inside > outside, inside, outside)
    return where(ranks > 1, latency + slower, 0 * span.local.latency)
