"""A node: its GPUs, and the power of its CPUs, memory and storage."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited
from assay.stack import works
from assay.stack.gpu import power as gpu_power
from assay.stack.manufacturing import packages

scope = Scope("cluster", "Nodes, network, racks, failures")

DGX = cited(works.DGX_H100, "hardware overview")
PARTS = cited(works.POWER_PROVISIONING, "power of a server as the sum over its components")
FLEET = cited(works.POWER_PROVISIONING, "power of racks and clusters as the sum over their servers")
_IDLE_BUSY = cited(works.POWER_PROVISIONING, "power between idle and busy, by CPU utilization")

node_gpus = scope.declare(
    "node.gpus, n_node [GPU/node]: GPUs in a node", bounds=POSITIVE, reference=DGX, boundary="primitive", nature="count"
)
nodes = scope.declare(
    "nodes, N [node]: nodes on the site",
    bounds=POSITIVE,
    reference=by_definition(),
    boundary="scenario",
    nature="count",
)
gpus = scope.declare(
    "gpus, N_GPU [GPU]: GPUs on the site",
    equals=nodes * node_gpus,
    reference=by_definition("sum over the nodes"),
    nature="count",
)
delivery_time = scope.declare(
    "delivery_time, T_del [s as day]: time in which the site's GPUs are made",
    equals=gpus / packages.gpu_rate,
    reference=by_definition("GPUs over their rate"),
    target=True,
)

# A node without its GPUs: the power of every component may be given directly.
liquid_share = scope.declare(
    "node.liquid_share, s_liq: share of a node's heat removed by liquid",
    bounds=(0, 1),
    reference=by_definition("heat into liquid over all heat"),
    boundary="scenario",
)
cpus = scope.declare("node.cpus, n_CPU [1/node]: host CPUs of a node", reference=DGX, boundary="primitive")
cpu_idle_power = scope.declare(
    "cpu.idle_power, P_idle [W]: power of an idle host CPU", reference=_IDLE_BUSY, boundary="primitive"
)
cpu_busy_power = scope.declare(
    "cpu.busy_power, P_busy [W]: power of a fully utilized host CPU", reference=_IDLE_BUSY, boundary="primitive"
)
cpu_working_load = scope.declare(
    "cpu.working_load, u_k [1 as %]: utilization of the host CPUs while kernels run",
    bounds=(0, 1),
    reference=_IDLE_BUSY,
    boundary="scenario",
)
cpu_load = scope.declare(
    "cpu.load, u [1 as %]: utilization of the host CPUs",
    bounds=(0, 1),
    equals=cpu_working_load * gpu_power.duty,
    reference=_IDLE_BUSY,
)
cpu_power = scope.declare(
    "node.cpu_power, P_CPU [W/node]: power of a node's host CPUs",
    equals=cpus * (cpu_idle_power + cpu_load * (cpu_busy_power - cpu_idle_power)),
    reference=_IDLE_BUSY,
)
memory_size = scope.declare(
    "node.memory_size, M_host [byte/node as GB/node]: host memory of a node", reference=DGX, boundary="primitive"
)
memory_unit_power = scope.declare(
    "memory.power_by_size, p_RAM [W/byte as W/GB]: power of host memory by its size",
    reference=PARTS,
    boundary="primitive",
)
memory_power = scope.declare(
    "node.memory_power, P_RAM [W/node]: power of a node's host memory",
    equals=memory_size * memory_unit_power,
    reference=PARTS,
)
drives = scope.declare("node.drives, n_SSD [1/node]: drives of a node", reference=DGX, boundary="primitive")
drive_power = scope.declare("drive.power, P_drive [W]: power of one drive", reference=PARTS, boundary="primitive")
storage_power = scope.declare(
    "node.storage_power, P_SSD [W/node]: power of a node's local storage", equals=drives * drive_power, reference=PARTS
)
