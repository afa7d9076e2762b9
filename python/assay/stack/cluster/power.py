"""Power of a node, of a rack and of all machines of the site."""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, ceil, total
from assay.stack import interconnect
from assay.stack.cluster.network import nic_power
from assay.stack.cluster.nodes import (
    FLEET,
    PARTS,
    cpu_busy_power,
    cpu_power,
    cpus,
    gpus,
    liquid_share,
    memory_power,
    node_gpus,
    nodes,
    scope,
    storage_power,
)
from assay.stack.gpu import power as gpu_power, rates as gpu_rates

node_gpu_power = scope.declare(
    "node.gpu_power, P_GPUs [W/node]: power of all GPUs in a node", equals=node_gpus * gpu_power.power, reference=PARTS
)
fan_share = scope.declare(
    "node.fan_share, s_fan: power of an air-cooled node's fans over that of its parts",
    bounds=(0, 1),
    reference=PARTS,
    boundary="primitive",
)
supply_efficiency = scope.declare(
    "node.supply_efficiency, eta_PSU: efficiency of a node's power supplies",
    bounds=("positive", 1),
    reference=PARTS,
    boundary="primitive",
)
_with_fans = 1 + fan_share * (1 - liquid_share)
_parts = total(node_gpu_power, cpu_power, memory_power, nic_power, storage_power)
supplied_power = scope.declare(
    "node.supplied_power, P_out [W/node]: power that a node's supplies give: its parts and fans",
    equals=_parts * _with_fans,
    reference=PARTS,
)
other_share = scope.declare(
    "node.other_share, s_misc: power of fans and lost in supplies over that of the parts",
    equals=_with_fans / supply_efficiency - 1,
    reference=PARTS,
)
other_power = scope.declare(
    "node.other_power, P_misc [W/node]: power of fans, boards and supplies of a node",
    equals=_parts * other_share,
    reference=PARTS,
)
node_power = scope.declare(
    "node.power, P_node [W/node]: power of a node",
    equals=total(node_gpu_power, cpu_power, memory_power, nic_power, storage_power, other_power),
    reference=PARTS,
)
it_power = scope.declare(
    "it_power, P_IT [W]: power of all machines on the site", equals=nodes * node_power, reference=FLEET
)
design_node_power = scope.declare(
    "node.design_power, P_node_max [W/node]: power to provision for a node: GPUs at their limit, CPUs busy, "
    "whatever the load",
    equals=total(node_gpus * gpu_power.power_limit, cpus * cpu_busy_power, memory_power, nic_power, storage_power)
    * (1 + other_share),
    reference=PARTS,
)
design_power = scope.declare(
    "design_power, P_design [W as kW]: design IT power of the site",
    bounds=POSITIVE,
    equals=nodes * design_node_power,
    reference=FLEET,
)
scope.inequality(
    "within_design", it_power <= design_power, "IT power is within the site's design power", reference=FLEET
)
rack_nodes = scope.declare(
    "rack.nodes, N_rack [node]: nodes in a rack",
    bounds=POSITIVE,
    reference=by_definition(),
    boundary="scenario",
    nature="count",
)
racks = scope.declare(
    "racks, n_rack: racks of the site",
    equals=ceil(nodes / rack_nodes),
    reference=by_definition("nodes over nodes of a rack, a started rack counts"),
)
rack_power_limit = scope.declare(
    "rack.power_limit, P_rack_max [W]: power supplied to a rack",
    reference=by_definition("rating of the rack's supply"),
    boundary="scenario",
)
scope.inequality(
    "rack.within_limit",
    rack_nodes * node_power <= rack_power_limit,
    "the power of a rack's nodes is within its supply",
    reference=FLEET,
)
rack_peak_flops = scope.declare(
    "rack.peak_flops, P_rack [FLOP/s as PFLOP/s]: peak rate of a rack",
    equals=rack_nodes * node_gpus * gpu_rates.peak_flops,
    reference=by_definition("sum over the GPUs of a rack"),
)
rack_bandwidth = scope.declare(
    "rack.bandwidth, B_rack [byte/s as TB/s]: rate of a rack to all others, in one direction",
    equals=rack_nodes * node_gpus * interconnect.bisection_bandwidth,
    bounds=POSITIVE,
    reference=by_definition("sum over the GPUs of a rack, less what the network is oversubscribed"),
)
rack_balance = scope.declare(
    "rack.balance, b_rack [FLOP/byte]: operations of a rack by byte that leaves it, both at their peak",
    equals=rack_peak_flops / rack_bandwidth,
    reference=by_definition("rate over rate"),
    target=True,
)
site_bisection = scope.declare(
    "site.bisection, B_site [byte/s as TB/s]: rate between two halves of the site, in one direction",
    equals=gpus / 2 * interconnect.bisection_bandwidth,
    reference=by_definition("half of the GPUs send to the other half"),
    target=True,
)
node_peak_flops = scope.declare(
    "node.peak_flops, P_n [FLOP/(s*node) as PFLOP/(s*node)]: peak rate of a node",
    equals=node_gpus * gpu_rates.peak_flops,
    reference=by_definition("sum over the GPUs of a node"),
    target=True,
)
node_bandwidth = scope.declare(
    "node.bandwidth, B_node [byte/(s*node) as GB/(s*node)]: rate of a node's network adapters, in one direction",
    equals=node_gpus * interconnect.nic_bandwidth,
    reference=by_definition("sum over the GPUs of a node"),
    target=True,
)
node_memory = scope.declare(
    "node.gpu_memory, C_n [byte/node as GB/node]: memory of a node's GPUs",
    equals=node_gpus * gpu_rates.memory_capacity,
    reference=by_definition("sum over the GPUs of a node"),
    target=True,
)
site_peak_flops = scope.declare(
    "site.peak_flops, P_site [FLOP/s as PFLOP/s]: peak rate of the site",
    equals=nodes * node_peak_flops,
    reference=by_definition("sum over nodes"),
    target=True,
)
rack_power = scope.declare(
    "rack.power, P_rack [W as kW]: power of a rack",
    equals=rack_nodes * node_power,
    reference=by_definition("sum over the nodes of a rack"),
    target=True,
)
