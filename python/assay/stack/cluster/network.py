"""The network between nodes: a folded Clos of equal switches, its optics and their power."""

from __future__ import annotations

from assay.model import ceil, cited, where
from assay.stack import interconnect, works
from assay.stack.cluster.nodes import PARTS, gpus, node_gpus, nodes, scope

_FAT_TREE = cited(works.FAT_TREE, "sec. 2.2, Clos networks and fat trees")
_OPTICS = cited("NVIDIA MMS4X00-NS400 transceiver, product specifications", "overview")
_SWITCH = cited("NVIDIA QM9700/QM9790 InfiniBand switch systems, user manual", "specifications")

adapter_power = scope.declare(
    "network.adapter_power, P_adapter [W]: power of the network adapter behind one port",
    reference=PARTS,
    boundary="primitive",
)
endpoints = scope.declare(
    "network.endpoints, N_end: node ports on the compute network",
    equals=gpus * interconnect.adapters,
    reference=_FAT_TREE,
)
radix = scope.declare(
    "network.switch_ports, k: ports of a switch",
    bounds=(2, None),
    reference=_SWITCH,
    boundary="primitive",
    nature="count",
)
tiers = scope.declare(
    "network.tiers, L: tiers of switches",
    equals=where(endpoints <= radix, 1, where(endpoints <= radix**2 / 2, 2, where(endpoints <= radix**3 / 4, 3, 4))),
    reference=_FAT_TREE,
)
switches = scope.declare(
    "network.switches, N_sw: switches of the compute network",
    equals=ceil(endpoints / radix * (1 + 2 * (tiers - 1) / interconnect.oversubscription)),
    reference=_FAT_TREE,
)
optical_share = scope.declare(
    "network.optical_share, s_opt: share of the links to nodes that are optical",
    bounds=(0, 1),
    reference=_OPTICS,
    boundary="scenario",
)
transceivers = scope.declare(
    "network.transceivers, N_opt: optical transceivers, two for each optical link",
    equals=2 * endpoints * (optical_share + (tiers - 1) / interconnect.oversubscription),
    reference=_FAT_TREE,
)
switch_power = scope.declare(
    "network.switch_power, P_sw [W]: power of a switch without its optics", reference=_SWITCH, boundary="primitive"
)
transceiver_power = scope.declare(
    "network.transceiver_power, P_opt [W]: power of one optical transceiver", reference=_OPTICS, boundary="primitive"
)
network_power = scope.declare(
    "network.power, P_net [W]: power of all switches and transceivers",
    equals=switches * switch_power + transceivers * transceiver_power,
    reference=PARTS,
)
nic_power = scope.declare(
    "node.nic_power, P_NIC [W/node]: power of a node's network adapters and its share of switches and optics",
    equals=node_gpus * interconnect.adapters * adapter_power + network_power / nodes,
    reference=PARTS,
)
