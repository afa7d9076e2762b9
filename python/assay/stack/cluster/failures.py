"""Failures, checkpoints, and the availability of a run."""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, cited, exp, minimum, sqrt, where
from assay.stack import optimizer, parallelism, works
from assay.stack.architecture import parameters
from assay.stack.cluster.nodes import DGX, drives, node_gpus, scope
from assay.stack.training import job as training_job, run as training_run

_ZERO = cited(works.ZERO, "sec. 3.1")
_LLAMA = cited(works.LLAMA_3, "sec. 3.3.4 and Table 5")
_STORAGE = cited(works.LLAMA_3, "sec. 3.3.1, storage and checkpoints")
_RELIABILITY = cited(
    "Kokolis et al. 2025, Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
    "mean time to failure by size of job",
)
_DALY = cited(works.CHECKPOINT_INTERVAL, "optimum interval by perturbation")
_DALY_TIME = cited(works.CHECKPOINT_INTERVAL, "wall time under Poisson failures")
_YOUNG = cited("Young 1974, A first order approximation to the optimum checkpoint interval", "CACM 17(9)")


# Failures: independent parts fail at constant rates, and one failure stops the whole job.
job_nodes = scope.declare(
    "job.nodes, n_job [node]: nodes allocated to the job",
    equals=training_job.gpus / node_gpus,
    reference=by_definition("the job's GPUs over those of a node"),
)
gpu_failure_rate = scope.declare(
    "failures.gpu_rate, lambda_GPU [1/(s*GPU) as 1/(year*GPU)]: interruptions caused by one GPU, by time",
    reference=_LLAMA,
    boundary="primitive",
)
node_failure_rate = scope.declare(
    "failures.node_rate, lambda_node [1/(s*node) as 1/(year*node)]: interruptions caused by the rest of one "
    "node, by time",
    reference=_LLAMA,
    boundary="primitive",
)
shared_failure_rate = scope.declare(
    "failures.shared_rate, lambda_0 [1/s as 1/year]: interruptions by time that do not grow with the job: "
    "storage, scheduler, software",
    reference=_LLAMA,
    boundary="primitive",
)
failure_rate = scope.declare(
    "job.failure_rate, lambda [1/s as 1/day]: interruptions of the job, by time",
    equals=training_job.gpus * gpu_failure_rate + job_nodes * node_failure_rate + shared_failure_rate,
    reference=_RELIABILITY,
)
mtbf = scope.declare(
    "job.mtbf, M [s as h]: mean time between interruptions of the job", equals=1 / failure_rate, reference=_RELIABILITY
)
checkpoint_size = scope.declare(
    "checkpoint.size, S_ckpt [byte as GB]: size of one checkpoint: trained weights and their optimizer states",
    equals=parallelism.trained_share * parameters.parameters * (optimizer.weight_bytes + optimizer.state_bytes),
    reference=_ZERO,
)
drive_capacity = scope.declare(
    "drive.capacity, C_SSD [byte as TB]: capacity of a drive", reference=DGX, boundary="primitive"
)
node_storage = scope.declare(
    "node.storage, C_loc [byte/node as TB/node]: capacity of a node's drives",
    equals=drives * drive_capacity,
    reference=DGX,
)
local_copies = scope.declare(
    "checkpoint.local_copies, n_loc: checkpoints that the drives of the job's nodes hold",
    equals=job_nodes * node_storage / checkpoint_size,
    reference=by_definition("capacity over size"),
    target=True,
)
storage_bandwidth = scope.declare(
    "storage.bandwidth, B_store [byte/s as GB/s]: write bandwidth of the shared checkpoint store",
    bounds=POSITIVE,
    reference=_STORAGE,
    boundary="primitive",
)
node_storage_bandwidth = scope.declare(
    "storage.node_bandwidth, b_store [byte/(s*node) as GB/(s*node)]: write bandwidth of one node to the store",
    bounds=POSITIVE,
    reference=DGX,
    boundary="primitive",
)
checkpoint_time = scope.declare(
    "checkpoint.time, t_ckpt [s]: time to write or read one checkpoint",
    equals=checkpoint_size / minimum(storage_bandwidth, job_nodes * node_storage_bandwidth),
    reference=_STORAGE,
)
hidden_share = scope.declare(
    "checkpoint.hidden_share, s_hid: share of checkpoint writing that overlaps training",
    bounds=(0, 1),
    reference=_STORAGE,
    boundary="scenario",
)
checkpoint_stall = scope.declare(
    "checkpoint.stall, delta [s]: time for which a checkpoint stops training",
    equals=checkpoint_time * (1 - hidden_share),
    reference=_DALY,
)
restart_delay = scope.declare(
    "failures.restart_delay, t_start [s as min]: time to detect a failure, replace the node and restart the job",
    reference=_RELIABILITY,
    boundary="scenario",
)
restart_time = scope.declare(
    "job.restart_time, R [s as min]: time from an interruption to resumed training",
    equals=restart_delay + checkpoint_time,
    reference=_DALY_TIME,
)
interval = scope.declare(
    "checkpoint.interval, tau [s as min]: training time between checkpoints",
    bounds=POSITIVE,
    equals=where(
        checkpoint_stall < 2 * mtbf,
        sqrt(2 * checkpoint_stall * mtbf)
        * (1 + sqrt(checkpoint_stall / (2 * mtbf)) / 3 + checkpoint_stall / (2 * mtbf) / 9)
        - checkpoint_stall,
        mtbf,
    ),
    reference=_DALY,
)
scope.approximation(
    interval,
    sqrt(2 * checkpoint_stall * mtbf),
    name="checkpoint.young",
    valid=checkpoint_stall < mtbf / 10,
    meaning="first order in the stall over the mean time",
    reference=_YOUNG,
)
planned_share = scope.declare(
    "run.planned_share, s_plan: share of the wall-clock time lost to planned stops",
    bounds=(0, 1),
    reference=_LLAMA,
    boundary="scenario",
)
availability = scope.declare(
    "run.availability, A: share of wall-clock time spent on training progress",
    bounds=(0, 1),
    equals=(1 - planned_share)
    * interval
    / (mtbf * exp(restart_time / mtbf) * (exp((interval + checkpoint_stall) / mtbf) - 1)),
    reference=_DALY_TIME,
)
productive_share = scope.declare(
    "run.productive_share, s_prod: share of the time between interruptions spent on optimizer steps, not on evaluation",
    bounds=("positive", 1),
    reference=_RELIABILITY,
    boundary="scenario",
)
scope.equation(
    training_run.run_yield,
    availability * productive_share,
    name="run.yield",
    meaning="share of time left after failures, checkpoints and planned stops",
    reference=cited(_RELIABILITY.work, "effective training time ratio"),
)
interruptions = scope.declare(
    "run.interruptions, n_fail: expected interruptions during the run",
    equals=failure_rate * training_run.time_to_train / training_run.run_yield,
    reference=_RELIABILITY,
    target=True,
)
