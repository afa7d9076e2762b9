"""Nodes, racks and the power of the machines in them."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, total
from assay.stack import gpu

scope = Scope("cluster", "Nodes, racks, site")

_DGX = cited("NVIDIA DGX H100/H200 System User Guide", "hardware overview")
_SUM = by_definition("sum over the parts")

node_gpus = scope.variable(
    "node.gpus",
    "n_node",
    "GPU/node",
    "GPUs in a node",
    bounds=POSITIVE,
    reference=_DGX,
    boundary="primitive",
)
cpu_power = scope.variable(
    "node.cpu_power", "P_CPU", "W/node", "power of a node's host processors",
    reference=_DGX, boundary="needs-source",
)  # fmt: skip
memory_power = scope.variable(
    "node.memory_power", "P_RAM", "W/node", "power of a node's host memory",
    reference=_DGX, boundary="needs-source",
)  # fmt: skip
nic_power = scope.variable(
    "node.nic_power", "P_NIC", "W/node", "power of a node's network adapters",
    reference=_DGX, boundary="needs-source",
)  # fmt: skip
storage_power = scope.variable(
    "node.storage_power", "P_SSD", "W/node", "power of a node's local storage",
    reference=_DGX, boundary="needs-source",
)  # fmt: skip
other_power = scope.variable(
    "node.other_power", "P_misc", "W/node", "power of fans, boards and supplies of a node",
    reference=_DGX, boundary="needs-source",
)  # fmt: skip
node_gpu_power = scope.variable(
    "node.gpu_power", "P_GPUs", "W/node", "power of all GPUs in a node",
    equals=node_gpus * gpu.power, reference=_SUM,
)  # fmt: skip
node_power = scope.variable(
    "node.power", "P_node", "W/node", "power of a node",
    equals=total(node_gpu_power, cpu_power, memory_power, nic_power, storage_power, other_power),
    reference=_SUM,
)  # fmt: skip
nodes = scope.variable(
    "nodes", "N", "node", "nodes on the site", bounds=POSITIVE,
    reference=by_definition(), boundary="scenario",
)  # fmt: skip
gpus = scope.variable(
    "gpus", "N_GPU", "GPU", "GPUs on the site", equals=nodes * node_gpus, reference=_SUM
)
it_power = scope.variable(
    "it_power", "P_IT", "W", "power of all machines on the site", equals=nodes * node_power,
    reference=_SUM,
)  # fmt: skip
rack_nodes = scope.variable(
    "rack.nodes", "N_rack", "node", "nodes in a rack",
    reference=by_definition(), boundary="scenario", library=True,
)  # fmt: skip
rack_peak_flops = scope.variable(
    "rack.peak_flops", "P_rack", "FLOP/s", "peak rate of a rack", display="PFLOP/s",
    equals=rack_nodes * node_gpus * gpu.peak_flops, reference=_SUM, library=True,
)  # fmt: skip
