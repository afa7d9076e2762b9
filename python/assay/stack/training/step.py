"""Time of one optimizer step: stages, micro-batches, bubbles, and exposed communication."""

from __future__ import annotations

from assay.model import by_definition, ceil, cited, fitted, maximum, minimum, number, where
from assay.stack import architecture, gpu, interconnect, optimizer, parallelism, software
from assay.stack.fits import approximate
from assay.stack.kernels import combine, device, passes
from assay.stack.order_statistics import expected_largest
from assay.stack.training import attention, clock, head, layer, traffic
from assay.stack.training.job import gpus, scope, tokens_per_step
from assay.stack.training.model_error import attention_error, exchange_error, model_error
from assay.stack.training.weights import forward_passes_of

_MEGATRON = (
    "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters "
    "Using Megatron-LM"
)
_STAGES = cited(_MEGATRON, "sec. 2.2")
_FLOPS = cited(_MEGATRON, "appendix, floating-point operations")
_RECOMPUTE = cited(
    "Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models",
    "sec. 5",
)
_FSDP = cited(
    "Zhao et al. 2023, PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel",
    "sec. 3.3.1",
)
_LARGEST = cited("David and Nagaraja 2003, Order Statistics, 3rd edition", "sec. 3.1")
_FITTED = fitted("docs/design/training-model.md", "published steps")
_NONE = number("0 s")
_SHARE = (0, 1)


tensor_overlap = scope.variable(
    "tensor_overlap", "o_t", "1", "overlapped share of communication inside layers",
    bounds=_SHARE, reference=_FITTED, boundary="needs-source",
)  # fmt: skip
data_overlap = scope.variable(
    "data_overlap", "o_d", "1", "share of busy time that can overlap data-parallel communication",
    bounds=_SHARE, reference=_FITTED, boundary="needs-source",
)  # fmt: skip
exchange_overlap = scope.variable(
    "exchange_overlap", "o_x", "1",
    "share of a layer's computation that can overlap the exchange of tokens between experts",
    bounds=_SHARE, reference=_FITTED, boundary="needs-source",
)  # fmt: skip
contention = scope.variable(
    "contention", "k", "1", "slowdown of kernels by overlapped communication, over its time",
    reference=_FITTED, boundary="needs-source",
)  # fmt: skip
gpu_spread = scope.variable(
    "gpu_spread", "sigma_g", "1", "relative spread of the speeds of GPUs of one kind",
    reference=_FITTED, boundary="needs-source",
)  # fmt: skip
step_start = scope.variable(
    "step_start", "t_0", "s", "fixed time per step", display="ms",
    reference=_FITTED, boundary="needs-source",
)  # fmt: skip

layer_compute = scope.variable(
    "layer.compute_time", "t_L", "s", "kernels of a layer in one pass, recomputation included",
    display="ms",
    equals=forward_passes_of(parallelism.recompute) * layer.products_forward
    + layer.products_backward
    + layer.forward_pass_count * layer.forward_passes.time
    + layer.backward_passes.time
    + attention_error * (attention.forwards * attention.forward_time + attention.backward_time),
    reference=_RECOMPUTE,
)  # fmt: skip
inner_exposed = scope.variable(
    "layer.exposed_share", "e_t", "1", "exposed share of communication inside layers",
    equals=where(
        (software.overlap > 0.5) & (software.tensor_overlap > 0.5), 1 - tensor_overlap, 1
    ),
    reference=_FSDP,
)  # fmt: skip
_directions = where(parallelism.recompute > 1.5, 3, 2)
_exchange = _directions * traffic.expert_exchange_time
# PyTorch's selective recomputation keeps what reduce-scatters return, and gathers again.
_gathered_again = where(
    (parallelism.recompute > 0.5)
    & (parallelism.recompute < 1.5)
    & (software.selective_products > 0.5)
    & (parallelism.sequence_parallel > 0.5)
    & (parallelism.tensor <= interconnect.node_ranks),
    2 * traffic.tensor_gather,
    _NONE,
)
# Expert dispatch of one micro-batch overlaps the computation of another.
_hidden_exchange = minimum(_exchange, exchange_overlap * layer_compute)
layer_traffic = scope.variable(
    "layer.traffic_time", "t_Lc", "s", "exposed communication of a layer in one pass",
    display="ms",
    equals=_directions * (inner_exposed * traffic.tensor_time + traffic.context_time)
    + inner_exposed * _gathered_again
    + where(
        software.overlap > 0.5,
        _exchange - _hidden_exchange + contention * _hidden_exchange,
        _exchange,
    ),
    reference=_RECOMPUTE,
)  # fmt: skip
_slots = parallelism.pipeline * parallelism.interleave
stage_layers = scope.variable(
    "stage.layers", "L_s", "1", "layers of the longest stage",
    equals=where(
        parallelism.pipeline > 1,
        ceil(architecture.layers / _slots) * parallelism.interleave,
        architecture.layers,
    ),
    reference=_STAGES,
)  # fmt: skip
# The first and last stage may have one layer less, to balance embedding and head.
_left_out = ceil((parallelism.pipeline * stage_layers - architecture.layers) / 2)
head_extra = scope.variable(
    "head.extra_time", "t_hx", "s",
    "time that the head adds to the last stage, less the time of its missing layers",
    display="ms",
    equals=where(
        parallelism.pipeline > 1,
        maximum(_NONE, head.head_time - _left_out * (layer_compute + layer_traffic)),
        head.head_time,
    ),
    reference=_STAGES,
)  # fmt: skip
micro_batch_count = maximum(parallelism.micro_batches, 1)
accumulation = passes.declare(
    scope, "accumulation.",
    where(
        (software.fused_accumulation > 0.5) | (parallelism.zero_stage > 1.5),
        0 * optimizer.weight_bytes,
        parallelism.shard_parameters * (optimizer.weight_bytes + 2 * optimizer.gradient_bytes),
    ),
    2, what="adding the gradients of a pass to their sums",
)  # fmt: skip
warm_up = scope.variable(
    "stage.idle_passes", "n_b", "1", "pipeline bubble in micro-batches",
    equals=parallelism.bubble_overhead * parallelism.micro_batches, reference=_STAGES,
)  # fmt: skip
pass_time = scope.variable(
    "kernels_time", "t_k", "s", "kernel time of all passes of a step", display="ms",
    equals=micro_batch_count * (stage_layers * layer_compute + head_extra + accumulation.time),
    reference=_STAGES,
)  # fmt: skip
bubble_time = scope.variable(
    "bubble_time", "t_bub", "s", "pipeline bubble time of a step",
    display="ms",
    equals=warm_up * (stage_layers * (layer_compute + layer_traffic) + traffic.hop_time),
    reference=_STAGES,
)  # fmt: skip
_updated_weights = where(
    parallelism.zero_stage > 0.5, parallelism.owned_parameters, parallelism.shard_parameters
)
update = passes.declare(
    scope, "update.",
    _updated_weights * optimizer.update_bytes
    + parallelism.shard_parameters * optimizer.clearing_bytes, 12,
    what="the optimizer's update",
)  # fmt: skip
straggling = scope.variable(
    "straggling", "s_n", "1", "expected time of the slowest GPU over the median one",
    equals=1 + gpu_spread * expected_largest(gpus / number("1 GPU")), reference=_LARGEST,
)  # fmt: skip

inner_traffic = scope.variable(
    "inner_traffic_time", "t_it", "s", "exposed communication inside layers of a step",
    display="ms", equals=micro_batch_count * stage_layers * layer_traffic, reference=_STAGES,
)  # fmt: skip
outer_exposed = scope.variable(
    "data.exposed_share", "e_d", "1", "exposed share of communication between stages or replicas",
    equals=where(software.overlap > 0.5, 1 - data_overlap, 1), reference=_FSDP,
)  # fmt: skip
hop_traffic = scope.variable(
    "hop_traffic_time", "t_ht", "s", "exposed pipeline communication of a step",
    display="ms", equals=micro_batch_count * traffic.hop_time * outer_exposed, reference=_STAGES,
)  # fmt: skip
busy = scope.variable(
    "busy_time", "t_busy", "s", "time of a step before data-parallel communication", display="ms",
    equals=pass_time + bubble_time + inner_traffic + hop_traffic, reference=_STAGES,
)  # fmt: skip
_volume = micro_batch_count * traffic.each_time
_hidden = minimum(_volume, data_overlap * busy)
sharded_traffic = scope.variable(
    "data.sharded_time", "t_ds", "s",
    "time added to a step by exchanges of every pass: exposed time and slowdown of compute",
    display="ms",
    equals=_volume - _hidden + contention * _hidden + micro_batch_count * traffic.each_latency,
    reference=_FSDP,
)  # fmt: skip
owner_traffic = approximate(
    scope, "data.owner_time", "t_do", "s", "time added to a step by broadcasts of weight owners",
    combine.overlap(busy, micro_batch_count * traffic.broadcast_time, number("4")) - busy,
    valid=parallelism.shards > 1, reference=_FITTED, display="ms",
)  # fmt: skip
data_traffic = scope.variable(
    "data_traffic_time", "t_dt", "s", "time added to a step by data-parallel communication",
    display="ms",
    equals=where(
        parallelism.shards > 1,
        where(
            parallelism.zero_stage > 1.5,
            where(software.owner_broadcast > 0.5, owner_traffic, sharded_traffic),
            traffic.once_time * outer_exposed,
        ),
        _NONE,
    ),
    reference=_FSDP,
)  # fmt: skip

flops_per_step = scope.variable(
    "flops_per_step", "F", "FLOP", "model FLOPs of one optimizer step",
    equals=tokens_per_step * architecture.training_flops, reference=_FLOPS,
)  # fmt: skip
peak_flops = scope.variable(
    "peak_flops", "P_run", "FLOP/s", "power-limited peak rate of all GPUs in the job",
    display="TFLOP/s", equals=gpus * gpu.power_limited_peak_flops,
    reference=by_definition("sum over the job's GPUs"),
)  # fmt: skip
benchmark_compute_time = scope.variable(
    "benchmark_compute_time", "t_comp0", "s",
    "compute and bubble time of a step at the clock of the kernels' benchmarks",
    equals=straggling * (pass_time + bubble_time + update.time + step_start), reference=_STAGES,
)  # fmt: skip
clock_bound_time = scope.variable(
    "clock_bound_time", "t_f", "s",
    "time of a step that grows as the power limit lowers the clock", display="ms",
    equals=straggling
    * (
        (micro_batch_count + warm_up) * stage_layers * clock.layer_clock_bound
        + micro_batch_count * clock.head_clock_bound
    ),
    reference=_STAGES,
)  # fmt: skip
compute_time = scope.variable(
    "compute_time",
    "t_comp",
    "s",
    "compute and bubble time of a step",
    reference=_STAGES,
)
scope.equation(
    compute_time,
    model_error * (benchmark_compute_time + clock_bound_time * (1 / device.clock_ratio - 1)),
    reference=_STAGES,
)
scope.approximation(
    compute_time, flops_per_step / peak_flops, name="at_peak", valid=peak_flops > number("0 FLOP/s"),
    meaning="lower bound: all FLOPs at the power-limited peak rate", reference=_FLOPS,
)  # fmt: skip
exposed_communication_time = scope.variable(
    "exposed_communication_time", "t_comm", "s",
    "exposed communication of a step",
    equals=model_error
    * straggling
    * (inner_traffic + hop_traffic + exchange_error * data_traffic + traffic.tied_time),
    reference=by_definition("communication time less overlap"),
)  # fmt: skip
step_time = scope.variable(
    "step_time", "t_step", "s", "time of one optimizer step",
    equals=compute_time + exposed_communication_time,
    reference=by_definition("busy plus exposed time"), target=True,
)  # fmt: skip
