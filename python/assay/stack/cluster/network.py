"""The network between nodes: a folded Clos of equal switches, its optics and their power."""

from __future__ import annotations

from assay.model import ceil, cited, where
from assay.stack import interconnect
from assay.stack.cluster.nodes import PARTS, gpus, node_gpus, nodes, scope

_FAT_TREE = cited(
    "Al-Fares, Loukissas and Vahdat 2008, A Scalable, Commodity Data Center Network Architecture",
    "sec. 2.2, Clos networks and fat trees",
)
_OPTICS = cited("NVIDIA MMS4X00-NS400 transceiver, product specifications", "overview")
_SWITCH = cited("NVIDIA QM9700/QM9790 InfiniBand switch systems, user manual", "specifications")

adapter_power = scope.variable(
    "network.adapter_power", "P_adapter", "W", "power of the network adapter behind one port",
    reference=PARTS, boundary="primitive",
)  # fmt: skip
endpoints = scope.variable(
    "network.endpoints", "N_end", "1", "node ports on the compute network",
    equals=gpus * interconnect.adapters, reference=_FAT_TREE,
)  # fmt: skip
radix = scope.variable(
    "network.switch_ports", "k", "1", "ports of a switch", bounds=(2, None),
    reference=_SWITCH, boundary="primitive", nature="count",
)  # fmt: skip
tiers = scope.variable(
    "network.tiers", "L", "1", "tiers of switches",
    equals=where(
        endpoints <= radix,
        1,
        where(endpoints <= radix**2 / 2, 2, where(endpoints <= radix**3 / 4, 3, 4)),
    ),
    reference=_FAT_TREE,
)  # fmt: skip
switches = scope.variable(
    "network.switches", "N_sw", "1", "switches of the compute network",
    equals=ceil(endpoints / radix * (1 + 2 * (tiers - 1) / interconnect.oversubscription)),
    reference=_FAT_TREE,
)  # fmt: skip
optical_share = scope.variable(
    "network.optical_share", "s_opt", "1", "share of the links to nodes that are optical",
    bounds=(0, 1), reference=_OPTICS, boundary="scenario",
)  # fmt: skip
transceivers = scope.variable(
    "network.transceivers", "N_opt", "1", "optical transceivers, two for each optical link",
    equals=2 * endpoints * (optical_share + (tiers - 1) / interconnect.oversubscription),
    reference=_FAT_TREE,
)  # fmt: skip
switch_power = scope.variable(
    "network.switch_power", "P_sw", "W", "power of a switch without its optics",
    reference=_SWITCH, boundary="primitive",
)  # fmt: skip
transceiver_power = scope.variable(
    "network.transceiver_power", "P_opt", "W", "power of one optical transceiver",
    reference=_OPTICS, boundary="primitive",
)  # fmt: skip
network_power = scope.variable(
    "network.power", "P_net", "W", "power of all switches and transceivers",
    equals=switches * switch_power + transceivers * transceiver_power, reference=PARTS,
)  # fmt: skip
nic_power = scope.variable(
    "node.nic_power", "P_NIC", "W/node",
    "power of a node's network adapters and its share of switches and optics",
    equals=node_gpus * interconnect.adapters * adapter_power + network_power / nodes, reference=PARTS,
)  # fmt: skip
