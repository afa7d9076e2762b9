"""A node: its GPUs, and the power of its CPUs, memory and storage."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited
from assay.stack import gpu, manufacturing

scope = Scope("cluster", "Nodes, network, racks, failures")

DGX = cited("NVIDIA DGX H100/H200 System User Guide", "hardware overview")
_PROVISIONING = "Fan, Weber and Barroso 2007, Power Provisioning for a Warehouse-sized Computer"
PARTS = cited(_PROVISIONING, "power of a server as the sum over its components")
FLEET = cited(_PROVISIONING, "power of racks and clusters as the sum over their servers")
_IDLE_BUSY = cited(_PROVISIONING, "power between idle and busy, by CPU utilization")

node_gpus = scope.variable(
    "node.gpus", "n_node", "GPU/node", "GPUs in a node", bounds=POSITIVE,
    reference=DGX, boundary="primitive", nature="count",
)  # fmt: skip
nodes = scope.variable(
    "nodes", "N", "node", "nodes on the site", bounds=POSITIVE,
    reference=by_definition(), boundary="scenario", nature="count",
)  # fmt: skip
gpus = scope.variable(
    "gpus", "N_GPU", "GPU", "GPUs on the site", equals=nodes * node_gpus,
    reference=by_definition("sum over the nodes"), nature="count",
)  # fmt: skip
delivery_time = scope.variable(
    "delivery_time", "T_del", "s", "time in which the site's GPUs are made", display="day",
    equals=gpus / manufacturing.gpu_rate, reference=by_definition("GPUs over their rate"),
    target=True,
)  # fmt: skip

# A node without its GPUs: the power of every component may be given directly.
liquid_share = scope.variable(
    "node.liquid_share", "s_liq", "1", "share of a node's heat removed by liquid",
    bounds=(0, 1), reference=by_definition("heat into liquid over all heat"), boundary="scenario",
)  # fmt: skip
cpus = scope.variable(
    "node.cpus", "n_CPU", "1/node", "host CPUs of a node", reference=DGX,
    boundary="primitive",
)  # fmt: skip
cpu_idle_power = scope.variable(
    "cpu.idle_power", "P_idle", "W", "power of an idle host CPU",
    reference=_IDLE_BUSY, boundary="primitive",
)  # fmt: skip
cpu_busy_power = scope.variable(
    "cpu.busy_power", "P_busy", "W", "power of a fully utilized host CPU",
    reference=_IDLE_BUSY, boundary="primitive",
)  # fmt: skip
cpu_working_load = scope.variable(
    "cpu.working_load", "u_k", "1", "utilization of the host CPUs while kernels run", display="%",
    bounds=(0, 1), reference=_IDLE_BUSY, boundary="scenario",
)  # fmt: skip
cpu_load = scope.variable(
    "cpu.load", "u", "1", "utilization of the host CPUs", display="%", bounds=(0, 1),
    equals=cpu_working_load * gpu.duty, reference=_IDLE_BUSY,
)  # fmt: skip
cpu_power = scope.variable(
    "node.cpu_power", "P_CPU", "W/node", "power of a node's host CPUs",
    equals=cpus * (cpu_idle_power + cpu_load * (cpu_busy_power - cpu_idle_power)),
    reference=_IDLE_BUSY,
)  # fmt: skip
memory_size = scope.variable(
    "node.memory_size", "M_host", "byte/node", "host memory of a node", display="GB/node",
    reference=DGX, boundary="primitive",
)  # fmt: skip
memory_unit_power = scope.variable(
    "memory.power_by_size", "p_RAM", "W/byte", "power of host memory by its size",
    display="W/GB", reference=PARTS, boundary="primitive",
)  # fmt: skip
memory_power = scope.variable(
    "node.memory_power", "P_RAM", "W/node", "power of a node's host memory",
    equals=memory_size * memory_unit_power, reference=PARTS,
)  # fmt: skip
drives = scope.variable(
    "node.drives", "n_SSD", "1/node", "drives of a node", reference=DGX, boundary="primitive"
)
drive_power = scope.variable(
    "drive.power", "P_drive", "W", "power of one drive", reference=PARTS, boundary="primitive"
)
storage_power = scope.variable(
    "node.storage_power", "P_SSD", "W/node", "power of a node's local storage",
    equals=drives * drive_power, reference=PARTS,
)  # fmt: skip
