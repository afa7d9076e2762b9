"""A collective on its own, as nccl-tests times it: time, algorithm bandwidth and bus bandwidth."""

from __future__ import annotations

from assay.model import Expression, Variable, by_definition, ceil, cited, equal, minimum, where
from assay.stack import interconnect
from assay.stack.collectives import constants as c, library
from assay.stack.collectives.constants import scope
from assay.stack.collectives.rails import BetweenNodes

_TESTS = cited("NVIDIA, nccl-tests, github.com/NVIDIA/nccl-tests", "doc/PERFORMANCE.md")
size, ranks = library.size, library.ranks

per_node = scope.declare(
    "per_node, r_n: ranks in each node: all of them, or as many as its GPUs",
    equals=minimum(ranks, interconnect.node_ranks),
    bounds=(1, None),
    reference=by_definition("a collective fills a node before it takes another"),
)
nodes = scope.declare(
    "nodes, N: nodes that a collective takes", equals=ranks / per_node, bounds=(1, None), reference=by_definition()
)
scope.inequality(
    "nodes.full", equal(nodes, ceil(nodes)), "every node of the collective has as many ranks", reference=by_definition()
)

_BETWEEN = BetweenNodes(scope, size=size, ranks=ranks, local_ranks=per_node, nodes=nodes)
_OTHERS = (ranks - 1) / ranks


def _declare(
    name: str, what: str, across: Expression, passes: float, errors: tuple[Expression, Expression]
) -> dict[str, Variable]:
    """Time and bandwidths of one operation, with the model's error inside a node and between nodes."""
    inside, between = errors
    time = scope.declare(
        f"{name}.time, t [s as us]: time of {what} on its own",
        equals=where(nodes > 1, across * between, library.OPERATIONS[name] * inside),
        reference=by_definition("of links inside a node, of adapters between nodes"),
        target=True,
    )
    algorithm = scope.declare(
        f"{name}.algorithm_bandwidth, B_a [byte/s as GB/s]: algorithm bandwidth of {what}: bytes over time",
        equals=size / time,
        reference=_TESTS,
        target=True,
    )
    bus = scope.declare(
        f"{name}.bus_bandwidth, B_b [byte/s as GB/s]: bus bandwidth of {what}: what each link would carry in a ring",
        equals=algorithm * passes * _OTHERS,
        reference=_TESTS,
        target=True,
    )
    return {"time": time, "algorithm_bandwidth": algorithm, "bus_bandwidth": bus}


_RING = (c.error, c.rail_error)
_PASSED = _BETWEEN.ring()
FIGURES: dict[str, dict[str, Variable]] = {
    "all_reduce": _declare("all_reduce", "an all-reduce", _BETWEEN.all_reduce(), 2, _RING),
    "all_gather": _declare("all_gather", "an all-gather", _PASSED, 1, _RING),
    "reduce_scatter": _declare("reduce_scatter", "a reduce-scatter", _PASSED, 1, _RING),
    "all_to_all": _declare(
        "all_to_all", "an all-to-all", _BETWEEN.all_to_all(), 1, (c.exchange_error, c.exchange_rail_error)
    ),
}
"""Figures of each operation by name."""
