"""Nodes, the network and racks that join them, and what failures leave of a run's time."""

from __future__ import annotations

from assay.model import (
    POSITIVE,
    Scope,
    by_definition,
    ceil,
    cited,
    exp,
    minimum,
    sqrt,
    total,
    where,
)
from assay.stack import gpu, training

scope = Scope("cluster", "Nodes, network, racks, failures")

_DGX = cited("NVIDIA DGX H100/H200 System User Guide", "hardware overview")
_PROVISIONING = "Fan, Weber and Barroso 2007, Power Provisioning for a Warehouse-sized Computer"
_PARTS = cited(_PROVISIONING, "power of a server as the sum over its components")
_FLEET = cited(_PROVISIONING, "power of racks and clusters as the sum over their servers")
_IDLE_BUSY = cited(_PROVISIONING, "power between idle and busy, by CPU utilisation")
_FAT_TREE = cited(
    "Al-Fares, Loukissas and Vahdat 2008, A Scalable, Commodity Data Center Network Architecture",
    "sec. 2.2 and 3.1, Clos networks and fat trees",
)
_OPTICS = cited("NVIDIA MMS4X00-NS400 transceiver, product specifications", "overview")
_SWITCH = cited("NVIDIA QM9700/QM9790 InfiniBand switch systems, user manual", "specifications")
_LLAMA = cited("Llama Team 2024, The Llama 3 Herd of Models", "sec. 3.3.4 and Table 5")
_RELIABILITY = cited(
    "Kokolis et al. 2025, Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
    "mean time to failure by size of job",
)
_DALY_WORK = (
    "Daly 2006, A higher order estimate of the optimum checkpoint interval for restart dumps"
)
_DALY = cited(_DALY_WORK, "optimum interval by perturbation")
_DALY_TIME = cited(_DALY_WORK, "wall time under Poisson failures")
_YOUNG = cited(
    "Young 1974, A first order approximation to the optimum checkpoint interval", "CACM 17(9)"
)

node_gpus = scope.variable(
    "node.gpus", "n_node", "GPU/node", "GPUs in a node", bounds=POSITIVE,
    reference=_DGX, boundary="primitive",
)  # fmt: skip
nodes = scope.variable(
    "nodes", "N", "node", "nodes on the site", bounds=POSITIVE,
    reference=by_definition(), boundary="scenario",
)  # fmt: skip
gpus = scope.variable(
    "gpus", "N_GPU", "GPU", "GPUs on the site", equals=nodes * node_gpus, reference=_FLEET
)

# A node without its GPUs: every part may be pinned where only its power is known.
liquid_share = scope.variable(
    "node.liquid_share", "s_liq", "1", "share of a node's heat that leaves in liquid",
    bounds=(0, 1), reference=_DGX, boundary="scenario",
)  # fmt: skip
cpus = scope.variable(
    "node.cpus", "n_CPU", "1/node", "host processors of a node", reference=_DGX,
    boundary="primitive",
)  # fmt: skip
cpu_idle_power = scope.variable(
    "cpu.idle_power", "P_idle", "W", "power of an idle host processor",
    reference=_IDLE_BUSY, boundary="primitive",
)  # fmt: skip
cpu_busy_power = scope.variable(
    "cpu.busy_power", "P_busy", "W", "power of a fully used host processor",
    reference=_IDLE_BUSY, boundary="primitive",
)  # fmt: skip
cpu_load = scope.variable(
    "cpu.load", "u", "1", "utilisation of the host processors", display="%", bounds=(0, 1),
    reference=_IDLE_BUSY, boundary="scenario",
)  # fmt: skip
cpu_power = scope.variable(
    "node.cpu_power", "P_CPU", "W/node", "power of a node's host processors",
    equals=cpus * (cpu_idle_power + cpu_load * (cpu_busy_power - cpu_idle_power)),
    reference=_IDLE_BUSY,
)  # fmt: skip
memory_size = scope.variable(
    "node.memory_size", "M_host", "byte/node", "host memory of a node", display="GB/node",
    reference=_DGX, boundary="primitive",
)  # fmt: skip
memory_unit_power = scope.variable(
    "memory.power_by_size", "p_RAM", "W/byte", "power of host memory by its size",
    display="W/GB", reference=_PARTS, boundary="primitive",
)  # fmt: skip
memory_power = scope.variable(
    "node.memory_power", "P_RAM", "W/node", "power of a node's host memory",
    equals=memory_size * memory_unit_power, reference=_PARTS,
)  # fmt: skip
drives = scope.variable(
    "node.drives", "n_SSD", "1/node", "drives of a node", reference=_DGX, boundary="primitive"
)
drive_power = scope.variable(
    "drive.power", "P_drive", "W", "power of one drive", reference=_PARTS, boundary="primitive"
)
storage_power = scope.variable(
    "node.storage_power", "P_SSD", "W/node", "power of a node's local storage",
    equals=drives * drive_power, reference=_PARTS,
)  # fmt: skip

ports_per_gpu = scope.variable(
    "network.ports_per_gpu", "n_port", "1/GPU", "ports of the compute network by GPU",
    reference=_DGX, boundary="primitive",
)  # fmt: skip
adapter_power = scope.variable(
    "network.adapter_power", "P_adapter", "W", "power of the network adapter behind one port",
    reference=_PARTS, boundary="primitive",
)  # fmt: skip
endpoints = scope.variable(
    "network.endpoints", "N_end", "1", "ports that the compute network joins",
    equals=gpus * ports_per_gpu, reference=_FAT_TREE,
)  # fmt: skip
radix = scope.variable(
    "network.switch_ports", "k", "1", "ports of a switch", bounds=(2, None),
    reference=_SWITCH, boundary="primitive",
)  # fmt: skip
oversubscription = scope.variable(
    "network.oversubscription", "o", "1", "ports down over ports up of a leaf switch",
    bounds=(1, None), reference=_FAT_TREE, boundary="scenario",
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
    equals=ceil(endpoints / radix * (1 + 2 * (tiers - 1) / oversubscription)),
    reference=_FAT_TREE,
)  # fmt: skip
optical_share = scope.variable(
    "network.optical_share", "s_opt", "1", "share of the links to nodes that are optical",
    bounds=(0, 1), reference=_OPTICS, boundary="scenario",
)  # fmt: skip
transceivers = scope.variable(
    "network.transceivers", "N_opt", "1", "optical transceivers, two for each optical link",
    equals=2 * endpoints * (optical_share + (tiers - 1) / oversubscription),
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
    equals=switches * switch_power + transceivers * transceiver_power, reference=_PARTS,
)  # fmt: skip
nic_power = scope.variable(
    "node.nic_power", "P_NIC", "W/node",
    "power of a node's network adapters and of its part of switches and optics",
    equals=node_gpus * ports_per_gpu * adapter_power + network_power / nodes, reference=_PARTS,
)  # fmt: skip

node_gpu_power = scope.variable(
    "node.gpu_power", "P_GPUs", "W/node", "power of all GPUs in a node",
    equals=node_gpus * gpu.power, reference=_PARTS,
)  # fmt: skip
fan_share = scope.variable(
    "node.fan_share", "s_fan", "1", "power of an air-cooled node's fans over that of its parts",
    bounds=(0, 1), reference=_PARTS, boundary="primitive",
)  # fmt: skip
supply_efficiency = scope.variable(
    "node.supply_efficiency", "eta_PSU", "1", "efficiency of a node's power supplies",
    bounds=("positive", 1), reference=_PARTS, boundary="primitive",
)  # fmt: skip
other_share = scope.variable(
    "node.other_share", "s_misc", "1", "power of fans and lost in supplies over that of the parts",
    equals=(1 + fan_share * (1 - liquid_share)) / supply_efficiency - 1, reference=_PARTS,
)  # fmt: skip
other_power = scope.variable(
    "node.other_power", "P_misc", "W/node", "power of fans, boards and supplies of a node",
    equals=total(node_gpu_power, cpu_power, memory_power, nic_power, storage_power) * other_share,
    reference=_PARTS,
)  # fmt: skip
node_power = scope.variable(
    "node.power", "P_node", "W/node", "power of a node",
    equals=total(node_gpu_power, cpu_power, memory_power, nic_power, storage_power, other_power),
    reference=_PARTS,
)  # fmt: skip
it_power = scope.variable(
    "it_power", "P_IT", "W", "power of all machines on the site", equals=nodes * node_power,
    reference=_FLEET,
)  # fmt: skip
design_node_power = scope.variable(
    "node.design_power", "P_node_max", "W/node", "power of a node whose GPUs all draw their limit",
    equals=node_power + node_gpus * (gpu.power_limit - gpu.power), reference=_PARTS,
)  # fmt: skip
design_power = scope.variable(
    "design_power", "P_design", "W", "power of machines that the site is built for", display="kW",
    bounds=POSITIVE, equals=nodes * design_node_power, reference=_FLEET,
)  # fmt: skip
scope.inequality(
    "within_design", it_power <= design_power, "the machines draw no more than the site is built for",
    reference=_FLEET,
)  # fmt: skip

rack_nodes = scope.variable(
    "rack.nodes", "N_rack", "node", "nodes in a rack", bounds=POSITIVE,
    reference=by_definition(), boundary="scenario",
)  # fmt: skip
racks = scope.variable(
    "racks", "n_rack", "1", "racks of the site", equals=ceil(nodes / rack_nodes), reference=_FLEET
)
rack_power_limit = scope.variable(
    "rack.power_limit", "P_rack_max", "W", "power that a rack is supplied with",
    reference=_FLEET, boundary="scenario",
)  # fmt: skip
scope.inequality(
    "rack.within_limit", rack_nodes * node_power <= rack_power_limit,
    "the nodes of a rack draw no more than it is supplied with", reference=_FLEET,
)  # fmt: skip
rack_peak_flops = scope.variable(
    "rack.peak_flops", "P_rack", "FLOP/s", "peak rate of a rack", display="PFLOP/s",
    equals=rack_nodes * node_gpus * gpu.peak_flops, reference=_FLEET, library=True,
)  # fmt: skip

# Failures: independent parts fail at constant rates, and one failure stops the whole job.
job_nodes = scope.variable(
    "job.nodes", "n_job", "node", "nodes that the job holds", equals=training.gpus / node_gpus,
    reference=by_definition("the job's GPUs over those of a node"),
)  # fmt: skip
gpu_failure_rate = scope.variable(
    "failures.gpu_rate", "lambda_GPU", "1/(s*GPU)", "interruptions caused by one GPU, by time",
    display="1/(year*GPU)", reference=_LLAMA, boundary="primitive",
)  # fmt: skip
node_failure_rate = scope.variable(
    "failures.node_rate", "lambda_node", "1/(s*node)",
    "interruptions caused by the rest of one node, by time",
    display="1/(year*node)", reference=_LLAMA, boundary="primitive",
)  # fmt: skip
shared_failure_rate = scope.variable(
    "failures.shared_rate", "lambda_0", "1/s",
    "interruptions by time that do not grow with the job: storage, scheduler, software",
    display="1/year", reference=_LLAMA, boundary="primitive",
)  # fmt: skip
failure_rate = scope.variable(
    "job.failure_rate", "lambda", "1/s", "interruptions of the job, by time", display="1/day",
    equals=training.gpus * gpu_failure_rate + job_nodes * node_failure_rate + shared_failure_rate,
    reference=_RELIABILITY,
)  # fmt: skip
mtbf = scope.variable(
    "job.mtbf", "M", "s", "mean time between interruptions of the job", display="h",
    equals=1 / failure_rate, reference=_RELIABILITY,
)  # fmt: skip

checkpoint_size = scope.variable(
    "checkpoint.size", "S_ckpt", "byte", "size of one checkpoint", display="GB",
    reference=_LLAMA, boundary="decompose",
)  # fmt: skip
storage_bandwidth = scope.variable(
    "storage.bandwidth", "B_store", "byte/s", "rate at which the shared store takes checkpoints",
    display="GB/s", bounds=POSITIVE, reference=_LLAMA, boundary="primitive",
)  # fmt: skip
node_storage_bandwidth = scope.variable(
    "storage.node_bandwidth", "b_store", "byte/(s*node)", "rate at which one node writes to the store",
    display="GB/(s*node)", bounds=POSITIVE, reference=_DGX, boundary="primitive",
)  # fmt: skip
checkpoint_time = scope.variable(
    "checkpoint.time", "t_ckpt", "s", "time to write or read one checkpoint",
    equals=checkpoint_size / minimum(storage_bandwidth, job_nodes * node_storage_bandwidth),
    reference=_LLAMA,
)  # fmt: skip
hidden_share = scope.variable(
    "checkpoint.hidden_share", "s_hid", "1", "share of writing during which training goes on",
    bounds=(0, 1), reference=_LLAMA, boundary="scenario",
)  # fmt: skip
checkpoint_stall = scope.variable(
    "checkpoint.stall", "delta", "s", "time for which a checkpoint stops training",
    equals=checkpoint_time * (1 - hidden_share), reference=_DALY,
)  # fmt: skip
restart_delay = scope.variable(
    "failures.restart_delay", "t_start", "s",
    "time to notice a failure, replace the part and start the job", display="min",
    reference=_RELIABILITY, boundary="scenario",
)  # fmt: skip
restart_time = scope.variable(
    "job.restart_time", "R", "s", "time from an interruption until training goes on", display="min",
    equals=restart_delay + checkpoint_time, reference=_DALY_TIME,
)  # fmt: skip
interval = scope.variable(
    "checkpoint.interval", "tau", "s", "training time between checkpoints", display="min",
    bounds=POSITIVE,
    equals=where(
        checkpoint_stall < 2 * mtbf,
        sqrt(2 * checkpoint_stall * mtbf)
        * (1 + sqrt(checkpoint_stall / (2 * mtbf)) / 3 + checkpoint_stall / (2 * mtbf) / 9)
        - checkpoint_stall,
        mtbf,
    ),
    reference=_DALY,
)  # fmt: skip
scope.approximation(
    interval, sqrt(2 * checkpoint_stall * mtbf), name="checkpoint.young",
    valid=checkpoint_stall < mtbf / 10, meaning="first order in the stall over the mean time",
    reference=_YOUNG,
)  # fmt: skip
planned_share = scope.variable(
    "run.planned_share", "s_plan", "1", "share of the wall-clock time lost to planned stops",
    bounds=(0, 1), reference=_LLAMA, boundary="scenario",
)  # fmt: skip
availability = scope.variable(
    "run.availability", "A", "1", "share of the wall-clock time that ends as kept training",
    bounds=(0, 1),
    equals=(1 - planned_share)
    * interval
    / (mtbf * exp(restart_time / mtbf) * (exp((interval + checkpoint_stall) / mtbf) - 1)),
    reference=_DALY_TIME,
)  # fmt: skip
interruptions = scope.variable(
    "run.interruptions", "n_fail", "1", "interruptions to expect during the run",
    equals=failure_rate * training.time_to_train, reference=_RELIABILITY, target=True,
)  # fmt: skip
