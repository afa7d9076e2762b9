"""Collectives by message size: ring and two-level, each step with a latency and a rate."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited

scope = Scope("collectives", "Time of collective operations")

_RING = cited(
    "Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations"
)
_MPICH = cited(
    "Thakur, Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in MPICH"
)
_HOCKNEY = cited("Hockney 1994, The communication challenge for MPP")

size = scope.variable(
    "size", "S", "byte", "bytes that every rank holds in the end", reference=by_definition(),
    boundary="scenario",
)  # fmt: skip
ranks = scope.variable(
    "ranks", "p", "1", "ranks that take part", bounds=(1, None), reference=by_definition(),
    boundary="scenario",
)  # fmt: skip
local_ranks = scope.variable(
    "local.ranks", "r", "1", "ranks of one node that take part", bounds=(1, None),
    reference=by_definition(), boundary="scenario",
)  # fmt: skip
latency = scope.variable(
    "latency", "alpha", "s", "latency of a message between nodes", display="us",
    reference=_HOCKNEY, boundary="primitive",
)  # fmt: skip
bandwidth = scope.variable(
    "bandwidth", "1/beta", "byte/s", "rate of a message between nodes", display="GB/s",
    bounds=POSITIVE, reference=_HOCKNEY, boundary="primitive",
)  # fmt: skip
local_latency = scope.variable(
    "local.latency", "alpha_l", "s", "latency of a message inside a node", display="us",
    reference=_HOCKNEY, boundary="primitive",
)  # fmt: skip
local_bandwidth = scope.variable(
    "local.bandwidth", "1/beta_l", "byte/s", "rate of a message inside a node", display="GB/s",
    bounds=POSITIVE, reference=_HOCKNEY, boundary="primitive",
)  # fmt: skip
ring_allgather = scope.variable(
    "ring.allgather", "t_AG", "s", "all-gather, or reduce-scatter, in a ring",
    equals=(ranks - 1) * (latency + size / (ranks * bandwidth)), reference=_MPICH,
)  # fmt: skip
ring_allreduce = scope.variable(
    "ring.allreduce", "t_AR", "s", "all-reduce in a ring: reduce-scatter, then all-gather",
    equals=2 * ring_allgather, reference=_RING,
)  # fmt: skip
nodes = scope.variable(
    "nodes", "N", "1", "nodes that take part", equals=ranks / local_ranks,
    reference=by_definition(), bounds=(1, None),
)  # fmt: skip
local_allgather = scope.variable(
    "local.allgather", "t_AGl", "s", "all-gather of everything inside a node",
    equals=(local_ranks - 1) * (local_latency + size / (local_ranks * local_bandwidth)),
    reference=_MPICH,
)  # fmt: skip
across_allgather = scope.variable(
    "across.allgather", "t_AGa", "s", "all-gather between nodes, each rank with its node's share",
    equals=(nodes - 1) * (latency + size / (local_ranks * nodes * bandwidth)), reference=_MPICH,
)  # fmt: skip
hierarchical_allgather = scope.variable(
    "hierarchical.allgather", "t_AGh", "s", "all-gather between nodes, then inside them",
    equals=across_allgather + local_allgather, reference=_MPICH,
)  # fmt: skip
hierarchical_allreduce = scope.variable(
    "hierarchical.allreduce", "t_ARh", "s", "reduce-scatter inside, all-reduce across, all-gather inside",
    equals=2 * hierarchical_allgather, reference=_MPICH,
)  # fmt: skip
