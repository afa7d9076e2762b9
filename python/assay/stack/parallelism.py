"""How a training job is split over GPUs, and the memory that each then needs."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, number, total, where
from assay.stack import architecture

scope = Scope("parallelism", "Splits of a job and memory of a GPU")

_MEGATRON = "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters"
_SPLIT = cited(_MEGATRON, "sec. 2 and 3")
_BUBBLE = cited(_MEGATRON, "sec. 2.2")
_ZERO = cited("Rajbhandari et al. 2020, ZeRO: Memory Optimizations", "sec. 3.1 and 5")
_ACTIVATIONS = cited(
    "Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models",
    "sec. 4",
)
_SUM = by_definition("sum over the parts")


tensor = scope.variable(
    "tensor", "t", "1", "ranks that split every layer's weights", bounds=(1, None),
    reference=_SPLIT, boundary="scenario",
)  # fmt: skip
pipeline = scope.variable(
    "pipeline", "p", "1", "stages that split the layers", bounds=(1, None), reference=_SPLIT,
    boundary="scenario",
)  # fmt: skip
interleave = scope.variable(
    "interleave", "v", "1", "parts of the model that a stage holds in turn", bounds=(1, None),
    reference=_BUBBLE, boundary="scenario",
)  # fmt: skip
data = scope.variable(
    "data", "d", "1", "replicas that split the batch", bounds=(1, None), reference=_SPLIT,
    boundary="scenario",
)  # fmt: skip
micro_batch = scope.variable(
    "micro_batch", "b", "1", "sequences in one pass through a stage", bounds=POSITIVE,
    reference=_SPLIT, boundary="scenario",
)  # fmt: skip
batch = scope.variable(
    "batch", "B", "1", "sequences in one step", bounds=POSITIVE, reference=_SPLIT,
    boundary="scenario",
)  # fmt: skip
gpus = scope.variable(
    "gpus", "n", "GPU", "GPUs of the job", equals=number("1 GPU") * tensor * pipeline * data,
    reference=_SPLIT,
)  # fmt: skip
micro_batches = scope.variable(
    "micro_batches", "m", "1", "passes of a replica in one step",
    equals=batch / (data * micro_batch), reference=_SPLIT,
)  # fmt: skip
bubble_overhead = scope.variable(
    "bubble_overhead", "o_b", "1", "idle time of a stage over its busy time",
    equals=(pipeline - 1) / (interleave * micro_batches), reference=_BUBBLE,
)  # fmt: skip
bubble_multiplier = scope.variable(
    "bubble_multiplier", "1+o_b", "1", "time of the passes of a step over the busy time of a stage",
    equals=1 + bubble_overhead, reference=_BUBBLE,
)  # fmt: skip
shard_parameters = scope.variable(
    "shard_parameters", "N_s", "1", "weights that one GPU works with",
    equals=architecture.parameters / (tensor * pipeline), reference=_SPLIT,
)  # fmt: skip
weight_bytes = scope.variable(
    "weight_bytes", "b_w", "byte", "bytes of a weight in use", reference=_ZERO, boundary="scenario"
)
gradient_bytes = scope.variable(
    "gradient_bytes", "b_g", "byte", "bytes of a gradient", reference=_ZERO, boundary="scenario"
)
optimizer_bytes = scope.variable(
    "optimizer_bytes", "b_o", "byte", "bytes of a weight's optimiser state", reference=_ZERO,
    boundary="scenario",
)  # fmt: skip
state_bytes = scope.variable(
    "state_bytes", "b_s", "byte", "bytes that a GPU keeps for each weight it works with",
    reference=_ZERO,
)  # fmt: skip
for _name, _whole, _split in (
    ("replicated", (weight_bytes, gradient_bytes, optimizer_bytes), ()),
    ("zero1", (weight_bytes, gradient_bytes), (optimizer_bytes,)),
    ("zero2", (weight_bytes,), (gradient_bytes, optimizer_bytes)),
    ("zero3", (), (weight_bytes, gradient_bytes, optimizer_bytes)),
):
    _kept = [total(*_whole)] if _whole else []
    _shared = [total(*_split) / data] if _split else []
    scope.equation(
        state_bytes, total(*_kept, *_shared), name=f"parallelism.states.{_name}", reference=_ZERO
    )
state_memory = scope.variable(
    "memory.states", "M_s", "byte", "weights, gradients and optimiser states of a GPU",
    display="GiB", equals=shard_parameters * state_bytes, reference=_ZERO,
)  # fmt: skip
sequences_in_flight = scope.variable(
    "in_flight", "n_f", "1", "passes whose activations the first stage holds at once",
    equals=pipeline + where(interleave > 1, (pipeline - 1) / interleave, 0),
    reference=_ACTIVATIONS,
)  # fmt: skip
activation_width = scope.variable(
    "activation_width", "w_a", "byte", "bytes kept of each element of the residual stream in a layer",
    reference=_ACTIVATIONS,
)  # fmt: skip
_scores = number("5 byte/token") * architecture.heads * architecture.sequence / architecture.hidden
for _name, _width in (
    ("tensor", number("10 byte") + (number("24 byte") + _scores) / tensor),
    ("sequence", (number("34 byte") + _scores) / tensor),
    ("sequence_selective", number("34 byte") / tensor),
    ("full", number("2 byte")),
):
    scope.equation(
        activation_width, _width, name=f"parallelism.activations.{_name}", reference=_ACTIVATIONS
    )
activation_memory = scope.variable(
    "memory.activations", "M_a", "byte", "activations of a GPU of the first stage", display="GiB",
    equals=number("1 1/token")
    * architecture.sequence
    * micro_batch
    * architecture.hidden
    * (architecture.layers / pipeline)
    * sequences_in_flight
    * activation_width,
    reference=_ACTIVATIONS,
)  # fmt: skip
memory = scope.variable(
    "memory.total", "M", "byte", "memory that a GPU needs", display="GiB",
    equals=state_memory + activation_memory, reference=_SUM,
)  # fmt: skip
