"""A training job: its GPUs, its batch, its number format, and how these split over replicas."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, number
from assay.stack import parallelism, works
from assay.stack.architecture import shapes

scope = Scope("training", "Time, throughput and utilization of a training run")

_SPLIT = cited(works.MEGATRON_CLUSTERS, "sec. 2 and 3")
_FP8 = cited(works.FP8_FORMATS)

gpus = scope.declare(
    "gpus, n [GPU]: GPUs in the job",
    bounds=POSITIVE,
    reference=by_definition(),
    boundary="scenario",
    family="training",
    nature="count",
)
batch = scope.declare(
    "batch, B: sequences in one optimizer step",
    bounds=POSITIVE,
    reference=_SPLIT,
    boundary="scenario",
    family="training",
    nature="count",
)
compute_bits = scope.declare(
    "compute_bits, b_c: bits of the operands of layer GEMMs",
    bounds=(4, 16),
    reference=_FP8,
    boundary="scenario",
    family="training",
)
operand_bytes = scope.declare(
    "operand_bytes, b_x [byte]: bytes of an operand of layer GEMMs",
    equals=number("1 byte") * compute_bits / 8,
    reference=by_definition("eight bits to a byte"),
)
tokens_per_step = scope.declare(
    "tokens_per_step, B_t [token]: tokens in one optimizer step",
    bounds=POSITIVE,
    equals=batch * shapes.sequence,
    reference=by_definition("sequences by their length"),
)
scope.equation(
    parallelism.data,
    gpus / (number("1 GPU") * parallelism.tensor * parallelism.pipeline * parallelism.context),
    name="replicas",
    meaning="replicas follow from the job's GPUs",
    reference=_SPLIT,
)
scope.equation(
    parallelism.micro_batches,
    batch / (parallelism.data * parallelism.micro_batch),
    name="passes",
    meaning="micro-batches follow from the batch",
    reference=_SPLIT,
)
