"""Interconnect of GPUs: links inside a node, adapters between nodes, network bisection."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, number
from assay.stack import gpu, hbm

scope = Scope("interconnect", "Links inside a node and the network between nodes")

_SHARE = (0, 1)
_COST_MODEL = cited(
    "Thakur, Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in "
    "MPICH",
    "cost model",
)
_DGX = cited("NVIDIA DGX H100/H200 System User Guide", "hardware overview")
_FAT_TREE = cited(
    "Al-Fares, Loukissas and Vahdat 2008, A Scalable, Commodity Data Center Network Architecture"
)
_DALLY = "Dally and Towles 2004, Principles and Practices of Interconnection Networks"
_BISECTION = cited(_DALLY, "ch. 3, topology basics")

link_latency = scope.variable(
    "link.latency", "alpha_l", "s", "latency of one step between GPUs of a node",
    display="us", reference=_COST_MODEL, boundary="primitive",
)  # fmt: skip
link_share = scope.variable(
    "link.share", "eta_l", "1", "share of the links' rate that large transfers reach",
    bounds=_SHARE, reference=_COST_MODEL, boundary="primitive",
)  # fmt: skip
link_rate = scope.variable(
    "link.rate", "B_l", "byte/s", "achieved bandwidth of a GPU's large transfers inside a node",
    display="GB/s", equals=link_share * gpu.link_bandwidth * number("1 GPU"),
    reference=by_definition("reached share of the links' rate"), bounds=POSITIVE,
)  # fmt: skip
node_ranks = scope.variable(
    "node_ranks", "r", "1", "GPUs of a node that share links", bounds=(1, None), reference=_DGX,
    boundary="primitive", nature="count",
)  # fmt: skip
adapters = scope.variable(
    "nic.count", "n_nic", "1/GPU", "network adapters per GPU", reference=_DGX, boundary="primitive"
)
adapter_rate = scope.variable(
    "nic.line_rate", "r_nic", "bit/s", "line rate of an adapter in one direction",
    display="Gbit/s", reference=_DGX, boundary="primitive",
)  # fmt: skip
nic_bandwidth = scope.variable(
    "nic.bandwidth", "B_nic", "byte/(s*GPU)", "line rate of a GPU's adapters in one direction",
    display="GB/(s*GPU)", equals=adapters * adapter_rate / hbm.BITS_PER_BYTE, reference=_DGX,
)  # fmt: skip
nic_latency = scope.variable(
    "nic.latency", "alpha_n", "s", "latency of one step between nodes", display="us",
    reference=_COST_MODEL, boundary="primitive",
)  # fmt: skip
nic_share = scope.variable(
    "nic.share", "eta_n", "1", "share of the line rate that large transfers reach",
    bounds=_SHARE, reference=_COST_MODEL, boundary="primitive",
)  # fmt: skip
oversubscription = scope.variable(
    "oversubscription", "o", "1", "oversubscription of the network; 1 without",
    bounds=(1, None), reference=_FAT_TREE, boundary="primitive",
)  # fmt: skip
bisection_bandwidth = scope.variable(
    "bisection.bandwidth", "B_bis", "byte/(s*GPU)",
    "bisection bandwidth per GPU",
    display="GB/(s*GPU)", equals=nic_bandwidth / oversubscription, reference=_BISECTION,
)  # fmt: skip
scope.inequality(
    "bisection.full",
    nic_bandwidth <= bisection_bandwidth * (1 + 1e-9),
    "the network has full bisection bandwidth",
    reference=_BISECTION,
)
nic_rate = scope.variable(
    "nic.rate", "B_n", "byte/s", "achieved bandwidth of a GPU's large transfers between nodes",
    display="GB/s", equals=nic_share * bisection_bandwidth * number("1 GPU"),
    reference=by_definition("reached share of the rate that the network carries"),
    bounds=POSITIVE,
)  # fmt: skip
