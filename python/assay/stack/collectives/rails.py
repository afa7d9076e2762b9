"""Collectives on their own over several nodes: the spanning algorithms at the rate of idle adapters.

In a training step collectives share links and adapters with others and with computation
(`interconnect.nic.share`); alone, as nccl-tests times them, they reach more. Transfers speed up with
their length, the slower the more nodes pass them on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.model import Expression, Scope, Variable, maximum, minimum, number, sqrt, where
from assay.stack import alpha_beta, interconnect
from assay.stack.alpha_beta import Medium, Span
from assay.stack.collectives import constants as c
from assay.stack.collectives.spans import EXCHANGES, LINKS
from assay.stack.fits import approximate
from assay.stack.kernels import device

_NONE = number("0 s")
_NOTHING = number("0 byte")
_NEVER = number("1e9 s")
_LEAST_SHARE = 1e-6

_RATE = c.rail_share * interconnect.bisection_bandwidth * number("1 GPU")
IDLE_RAILS = Medium(c.rail_latency, _RATE)
"""Adapters between nodes that nothing else uses, one rail for each GPU of a node."""
_EXCHANGING_RAILS = Medium(c.exchange_rail_latency, _RATE)


_Time = Callable[[Expression], Expression]


def _ramped(time: _Time, size: Expression, ramp: Expression, nodes: Expression) -> Expression:
    """A time by size, when the rate of transfers grows with their length."""
    transfer = maximum(time(size) - time(_NOTHING), _NONE)
    return time(size) + sqrt(transfer * ramp * nodes)


class BetweenNodes:
    """Times of collectives of some ranks over several nodes, as variables under a prefix."""

    def __init__(
        self, into: Scope, *, size: Expression, ranks: Expression, local_ranks: Expression, nodes: Expression
    ) -> None:
        """Keep the shape; the methods declare the variables."""
        self.into, self.size, self.nodes = into, size, nodes
        self.span = Span(local_ranks, ranks / local_ranks, LINKS, IDLE_RAILS)
        large = (nodes <= 2) | (size >= c.LEAST_ACROSS)
        self.is_measured = (nodes <= c.FITTED_NODES) & (size <= c.FITTED_ACROSS) & large

    def _declare(self, name: str, meaning: str, time: _Time, ramp: Expression) -> Variable:
        return approximate(
            self.into,
            f"across.{name}, t [s as us]: {meaning}",
            _ramped(time, self.size, ramp, self.nodes),
            valid=(self.nodes <= 1) | self.is_measured,
            reference=c.BETWEEN_NODES,
        )

    def all_reduce(self) -> Expression:
        """All-reduce: rings, trees of nodes, or such trees with sums in the switches."""
        ring = self._declare(
            "all_reduce.ring_time",
            "all-reduce in rings through all nodes",
            lambda size: 2 * alpha_beta.spanning_ring_all_gather(size, self.span),
            c.rail_ramp,
        )
        tree = self._declare(
            "all_reduce.tree_time",
            "all-reduce over trees of nodes",
            lambda size: alpha_beta.spanning_tree_all_reduce(size, self.span),
            c.rail_ramp,
        )
        rate = maximum(c.switch_share, _LEAST_SHARE) * device.link_bandwidth
        switch = self._declare(
            "all_reduce.switch_time",
            "all-reduce over trees of nodes, reduced in their switches",
            lambda size: alpha_beta.spanning_switch_tree_all_reduce(size, self.span, rate),
            c.rail_ramp,
        )
        return minimum(ring, tree, where(c.switch_share > 0, switch, _NEVER))

    def ring(self) -> Expression:
        """All-gather or reduce-scatter in rings through all nodes."""
        return self._declare(
            "ring_time",
            "all-gather or reduce-scatter in rings through all nodes",
            lambda size: alpha_beta.spanning_ring_all_gather(size, self.span),
            c.rail_ramp,
        )

    def all_to_all(self) -> Expression:
        """All-to-all over links and adapters."""
        span = replace(self.span, local=EXCHANGES, across=_EXCHANGING_RAILS)
        return self._declare(
            "exchange_time",
            "all-to-all over links and adapters",
            lambda size: alpha_beta.spanning_all_to_all(size, span),
            c.exchange_rail_ramp,
        )
