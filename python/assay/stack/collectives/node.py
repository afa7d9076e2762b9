"""Collectives inside a node, by message size: the library picks the fastest protocol."""

from __future__ import annotations

from assay.model import Expression, Scope, Variable, maximum, minimum, number, sqrt, where
from assay.stack import interconnect
from assay.stack.collectives import constants as c
from assay.stack.fits import approximate
from assay.stack.kernels import device

_LINE_RATE = device.link_bandwidth
_NONE = number("0 s")
_NEVER = number("1e9 s")
_LEAST_SHARE = 1e-6
# NCCL reduces inside the switch only with more ranks than this; fewer use rings.
_SWITCH_RANKS = 4


def _ramped(time: Expression) -> Expression:
    """Time of a bulk transfer when its rate grows with its length."""
    return time + sqrt(time * c.ramp * c.start)


class Algorithms:
    """Times of one collective by algorithm and protocol, as variables under a prefix."""

    def __init__(
        self, into: Scope, prefix: str, what: str, steps: Expression, size: Expression, ranks: Expression
    ) -> None:
        """Keep the shape; the methods declare the variables."""
        self.into, self.prefix, self.what = into, prefix, what
        self.steps, self.size, self.ranks = steps, size, ranks
        self.part = size / (ranks * _LINE_RATE)

        least, most = c.FITTED_SIZES
        self.is_measured = (ranks <= c.FITTED_RANKS) & (size >= least) & (size <= most)

    def variable(self, name: str, meaning: str, equals: Expression) -> Variable:
        """Declare a time by a form fitted on measured collectives."""
        return approximate(
            self.into,
            f"{self.prefix}{name}, t [s as us]: {self.what}, {meaning}",
            equals,
            valid=(self.ranks <= 1) | self.is_measured,
            reference=c.FITTED,
        )

    def ring(self) -> list[Expression]:
        """Ring algorithm with eager (LL), fast (LL128) and bulk (Simple) messages."""
        latency = interconnect.link_latency
        eager = self.variable(
            "eager_time",
            "eager messages",
            c.start + self.steps * (c.eager_latency_ratio * latency + self.part / c.eager_share),
        )
        fast = self.variable(
            "fast_time",
            "fast messages",
            c.fast_start_ratio * c.start + self.steps * latency + (self.steps + c.fast_copy) * self.part / c.fast_share,
        )
        bulk = self.variable(
            "bulk_time",
            "bulk messages",
            c.bulk_start_ratio * c.start
            + self.steps * c.bulk_latency
            + _ramped((self.steps + c.own_copy) * self.part) / interconnect.link_share,
        )
        return [eager, fast, bulk]

    def switch(self) -> Expression:
        """In-switch reduction (NVLS/SHARP): every byte is sent up once and received once."""
        reduced = c.switch_start_ratio * c.start + self.ranks * self.part / maximum(c.switch_share, _LEAST_SHARE)
        return self.variable("switch_time", "reduced in the switch", reduced)

    def direct(self, enabled: Expression) -> Expression:
        """All-reduce kernels of an engine: one-shot or two-shot, whichever is faster."""
        others = self.ranks - 1
        one_shot = c.direct_start + others * self.ranks * self.part / c.direct_share
        two_shot = 2 * c.direct_start + 2 * others * self.part / c.direct_share
        return where(enabled > 0, minimum(one_shot, two_shot), _NEVER)

    def fastest(self, *times: Expression) -> Variable:
        """Time of the fastest algorithm; 0 for one rank."""
        return self.into.declare(
            f"{self.prefix}time, t [s as us]: {self.what}, fastest algorithm",
            equals=where(self.ranks > 1, minimum(*times), _NONE),
            reference=c.NCCL,
        )


def node_all_reduce(into: Scope, prefix: str, *, size: Expression, ranks: Expression, direct: Expression) -> Variable:
    """All-reduce inside a node; `direct` is 1 where the engine has its own all-reduce kernels."""
    algorithms = Algorithms(into, prefix, "all-reduce", 2 * (ranks - 1), size, ranks)
    able = (ranks > _SWITCH_RANKS) & (c.switch_share > 0)
    switch = where(able, algorithms.switch(), _NEVER)
    return algorithms.fastest(*algorithms.ring(), switch, algorithms.direct(direct))


def node_all_gather(into: Scope, prefix: str, *, size: Expression, ranks: Expression) -> Variable:
    """All-gather inside a node; `size` is the output of every rank."""
    algorithms = Algorithms(into, prefix, "all-gather", ranks - 1, size, ranks)
    return algorithms.fastest(*algorithms.ring())


def node_reduce_scatter(into: Scope, prefix: str, *, size: Expression, ranks: Expression) -> Variable:
    """Reduce-scatter inside a node; `size` is the input of every rank."""
    algorithms = Algorithms(into, prefix, "reduce-scatter", ranks - 1, size, ranks)
    return algorithms.fastest(*algorithms.ring())


def node_all_to_all(into: Scope, prefix: str, *, size: Expression, ranks: Expression) -> Variable:
    """All-to-all inside a node; `size` is the input of every rank."""
    algorithms = Algorithms(into, prefix, "all-to-all", ranks - 1, size, ranks)
    eager = algorithms.variable(
        "eager_time",
        "eager messages",
        c.exchange_eager_ratio * c.start + algorithms.steps * algorithms.part / c.exchange_eager_share,
    )
    bulk = algorithms.variable(
        "bulk_time",
        "bulk messages",
        c.exchange_start + _ramped((algorithms.steps + c.exchange_copy) * algorithms.part) / c.exchange_share,
    )
    return algorithms.fastest(eager, bulk)
