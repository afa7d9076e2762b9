"""Interconnect of GPUs: links inside a node, adapters between nodes, network bisection."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, number
from assay.stack import hbm, works
from assay.stack.gpu import rates as gpu_rates

scope = Scope("interconnect", "Links inside a node and the network between nodes")

_SHARE = (0, 1)
_COST_MODEL = cited(works.COLLECTIVES_IN_MPICH, "cost model")
_DGX = cited(works.DGX_H100, "hardware overview")
_FAT_TREE = cited(works.FAT_TREE)
_DALLY = "Dally and Towles 2004, Principles and Practices of Interconnection Networks"
_BISECTION = cited(_DALLY, "ch. 3, topology basics")

link_latency = scope.declare(
    "link.latency, alpha_l [s as us]: latency of one step between GPUs of a node",
    reference=_COST_MODEL,
    boundary="primitive",
)
link_share = scope.declare(
    "link.share, eta_l: share of the links' rate that large transfers reach",
    bounds=_SHARE,
    reference=_COST_MODEL,
    boundary="primitive",
)
link_rate = scope.declare(
    "link.rate, B_l [byte/s as GB/s]: achieved bandwidth of a GPU's large transfers inside a node",
    equals=link_share * gpu_rates.link_bandwidth * number("1 GPU"),
    reference=by_definition("reached share of the links' rate"),
    bounds=POSITIVE,
)
node_ranks = scope.declare(
    "node_ranks, r: GPUs of a node that share links",
    bounds=(1, None),
    reference=_DGX,
    boundary="primitive",
    nature="count",
)
adapters = scope.declare("nic.count, n_nic [1/GPU]: network adapters per GPU", reference=_DGX, boundary="primitive")
adapter_rate = scope.declare(
    "nic.line_rate, r_nic [bit/s as Gbit/s]: line rate of an adapter in one direction",
    reference=_DGX,
    boundary="primitive",
)
nic_bandwidth = scope.declare(
    "nic.bandwidth, B_nic [byte/(s*GPU) as GB/(s*GPU)]: line rate of a GPU's adapters in one direction",
    equals=adapters * adapter_rate / hbm.BITS_PER_BYTE,
    reference=_DGX,
)
nic_latency = scope.declare(
    "nic.latency, alpha_n [s as us]: latency of one step between nodes", reference=_COST_MODEL, boundary="primitive"
)
nic_share = scope.declare(
    "nic.share, eta_n: share of the line rate that large transfers reach",
    bounds=_SHARE,
    reference=_COST_MODEL,
    boundary="primitive",
)
oversubscription = scope.declare(
    "oversubscription, o: oversubscription of the network; 1 without",
    bounds=(1, None),
    reference=_FAT_TREE,
    boundary="primitive",
)
bisection_bandwidth = scope.declare(
    "bisection.bandwidth, B_bis [byte/(s*GPU) as GB/(s*GPU)]: bisection bandwidth per GPU",
    equals=nic_bandwidth / oversubscription,
    reference=_BISECTION,
)
scope.inequality(
    "bisection.full",
    nic_bandwidth <= bisection_bandwidth * (1 + 1e-9),
    "the network has full bisection bandwidth",
    reference=_BISECTION,
)
link_ratio = scope.declare(
    "link.ratio, k_ln: rate of a GPU's links inside a node over its rate between nodes",
    equals=gpu_rates.link_bandwidth / bisection_bandwidth,
    reference=by_definition("rate over rate"),
    target=True,
)
nic_rate = scope.declare(
    "nic.rate, B_n [byte/s as GB/s]: achieved bandwidth of a GPU's large transfers between nodes",
    equals=nic_share * bisection_bandwidth * number("1 GPU"),
    reference=by_definition("reached share of the rate that the network carries"),
    bounds=POSITIVE,
)
