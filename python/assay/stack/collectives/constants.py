"""Constants of a node's links and of NCCL, fitted on measured collectives.

NCCL has three protocols. Eager messages (LL) carry a flag in every word, fast ones (LL128) a flag
in every 128-byte line, bulk ones (Simple) synchronize a buffer at a time: from the least latency to
the highest bandwidth. The step of a fast message is `interconnect.link.latency`, the rate of a bulk
one is `interconnect.link.rate`; shares are of the links' rate.
"""

from __future__ import annotations

from assay.model import POSITIVE, Reference, Scope, Variable, by_definition, cited, fitted, number
from assay.stack import works

scope = Scope("collectives", "Time of collective operations")

RING = cited("Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations")
TREE = cited("Sanders, Speck and Traeff 2009, Two-tree algorithms for full bandwidth broadcast, reduction and scan")
MPICH = cited(works.COLLECTIVES_IN_MPICH)
NCCL = cited("NVIDIA, NCCL source code, github.com/NVIDIA/nccl", "src/graph/tuning.cc")
FITTED = fitted("docs/design/collectives-model.md", "measured collectives of four accelerators")
BETWEEN_NODES = fitted("docs/design/collectives-model.md", "published runs of nccl-tests on several nodes")

FITTED_SIZES = (number("512 byte"), number("1073741824 byte"))
"""Message sizes of the tables, the last one doubled: rates are constant there."""
FITTED_RANKS = 8
"""The most ranks of a node in the tables."""
FITTED_NODES = 32
"""The most nodes of a published run."""
FITTED_ACROSS = number("17179869184 byte")
"""The largest message of a published run on several nodes."""
LEAST_ACROSS = number("33554432 byte")
"""The smallest message of a published run on more than two nodes."""


def _fitted(heading: str, library: bool = False) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=FITTED, boundary="primitive", library=library)


start = _fitted("start, t_0 [s as us]: launch latency of a collective")
eager_latency_ratio = _fitted("eager_latency_ratio, r_e: step latency of an eager message over that of a fast one")
eager_share = _fitted("eager_share, eta_e: share of the links' rate with eager messages")
fast_start_ratio = _fitted("fast_start_ratio, r_f: launch with fast messages over `collectives.start`")
fast_share = _fitted("fast_share, eta_f: share of the links' rate with fast messages")
fast_copy = _fitted("fast_copy, c_f: time of a rank's own part over that of a part sent, fast messages")
bulk_start_ratio = _fitted("bulk_start_ratio, r_b: launch with bulk messages over `collectives.start`")
bulk_latency = _fitted("bulk_latency, alpha_b [s as us]: step latency of a bulk message")
own_copy = _fitted("own_copy, c_b: time of a rank's own part over that of a part sent, bulk messages")
ramp = _fitted("ramp, x_0: transfer time at half rate of bulk messages, over `collectives.start`")
switch_start_ratio = _fitted("switch_start_ratio, r_s: launch of in-switch reductions over `collectives.start`")
switch_share = scope.declare(
    "switch_share, eta_s: share of the links' rate with in-switch reductions; 0 if unsupported",
    reference=FITTED,
    boundary="primitive",
)
exchange_eager_ratio = _fitted(
    "exchange_eager_ratio, r_x: launch of an eager all-to-all over `collectives.start`", library=True
)
exchange_eager_share = _fitted(
    "exchange_eager_share, eta_xe: share of the links' rate in an eager all-to-all", library=True
)
exchange_start = _fitted("exchange_start, t_x [s as us]: launch latency of a bulk all-to-all")
exchange_share = _fitted("exchange_share, eta_x: share of the links' rate in a bulk all-to-all")
exchange_copy = _fitted(
    "exchange_copy, c_x: time of a rank's own part over that of a part sent, all-to-all", library=True
)
direct_start = _fitted("direct_start, t_d [s as us]: latency of an engine's own all-reduce")
direct_share = _fitted("direct_share, eta_d: share of the links' rate in an engine's own all-reduce")
spread = scope.declare(
    "spread, sigma: logarithmic spread of measured over predicted ring collectives",
    reference=by_definition("spread of the fit"),
    boundary="primitive",
    library=True,
)
exchange_spread = scope.declare(
    "exchange_spread, sigma_x: logarithmic spread of measured over predicted all-to-alls",
    reference=by_definition("spread of the fit"),
    boundary="primitive",
    library=True,
)


def _between_nodes(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=BETWEEN_NODES, boundary="primitive")


rail_share = scope.declare(
    "rail.share, eta_r: share of the adapters' line rate that large collectives reach, alone on the network",
    bounds=(0, 1),
    reference=BETWEEN_NODES,
    boundary="primitive",
)
rail_latency = _between_nodes("rail.latency, alpha_r [s as us]: latency of a step between nodes, alone on the network")
rail_ramp = _between_nodes("rail.ramp, x_r [s as us]: transfer time at half rate between nodes, for each node")
exchange_rail_latency = _between_nodes(
    "rail.exchange_latency, alpha_rx [s as us]: launch of an all-to-all between nodes"
)
exchange_rail_ramp = _between_nodes(
    "rail.exchange_ramp, x_rx [s as us]: transfer time of an all-to-all at half rate between nodes, for each node"
)


def _error(heading: str, reference: Reference) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=reference, boundary="needs-source")


error = _error("error, e: model error: measured over predicted time of a ring collective inside a node", FITTED)
exchange_error = _error(
    "exchange_error, e_x: model error: measured over predicted time of an all-to-all inside a node", FITTED
)
rail_error = _error(
    "rail.error, e_r: model error: measured over predicted time of a ring collective between nodes", BETWEEN_NODES
)
exchange_rail_error = _error(
    "rail.exchange_error, e_rx: model error: measured over predicted time of an all-to-all between nodes", BETWEEN_NODES
)
