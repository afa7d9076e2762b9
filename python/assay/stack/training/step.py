"""Time of one optimizer step: stages, micro-batches, bubbles, and exposed communication."""

from __future__ import annotations

from assay.model import by_definition, ceil, cited, fitted, maximum, minimum, number, where
from assay.stack import interconnect, optimizer, parallelism, software, works
from assay.stack.architecture import operations, shapes
from assay.stack.fits import approximate
from assay.stack.gpu import power as gpu_power, rates as gpu_rates
from assay.stack.kernels import combine, device, passes
from assay.stack.order_statistics import expected_largest
from assay.stack.training import attention, clock, head, layer, traffic
from assay.stack.training.job import gpus, scope, tokens_per_step
from assay.stack.training.model_error import attention_error, exchange_error, model_error
from assay.stack.training.weights import forward_passes_of

_STAGES = cited(works.MEGATRON_CLUSTERS, "sec. 2.2")
_FLOPS = cited(works.MEGATRON_CLUSTERS, "appendix, floating-point operations")
_RECOMPUTE = cited(works.ACTIVATION_RECOMPUTATION, "sec. 5")
_FSDP = cited(works.FSDP, "sec. 3.3.1")
_RECIPES = cited("Google, tpu-recipes", "training on Trillium and TPU v5p with MaxText: TFLOP/s by device")
_LARGEST = cited("David and Nagaraja 2003, Order Statistics, 3rd edition", "sec. 3.1")
_FITTED = fitted("docs/design/training-model.md", "published steps")
_NONE = number("0 s")
_SHARE = (0, 1)


tensor_overlap = scope.declare(
    "tensor_overlap, o_t: overlapped share of communication inside layers",
    bounds=_SHARE,
    reference=_FITTED,
    boundary="needs-source",
)
data_overlap = scope.declare(
    "data_overlap, o_d: share of busy time that can overlap data-parallel communication",
    bounds=_SHARE,
    reference=_FITTED,
    boundary="needs-source",
)
exchange_overlap = scope.declare(
    "exchange_overlap, o_x: share of a layer's computation that can overlap the exchange of tokens between experts",
    bounds=_SHARE,
    reference=_FITTED,
    boundary="needs-source",
)
contention = scope.declare(
    "contention, k: slowdown of kernels by overlapped communication, over its time",
    reference=_FITTED,
    boundary="needs-source",
)
gpu_spread = scope.declare(
    "gpu_spread, sigma_g: relative spread of the speeds of GPUs of one kind", reference=_FITTED, boundary="needs-source"
)
step_start = scope.declare("step_start, t_0 [s as ms]: fixed time per step", reference=_FITTED, boundary="needs-source")

layer_compute = scope.declare(
    "layer.compute_time, t_L [s as ms]: kernels of a layer in one pass, recomputation included",
    equals=forward_passes_of(parallelism.recompute) * layer.products_forward
    + layer.products_backward
    + layer.forward_pass_count * layer.forward_passes.time
    + layer.backward_passes.time
    + layer.repeated_time
    + layer.adapter_time
    + attention_error * (attention.forwards * attention.forward_time + attention.backward_time),
    reference=_RECOMPUTE,
)
inner_exposed = scope.declare(
    "layer.exposed_share, e_t: exposed share of communication inside layers",
    equals=where(software.overlap & software.tensor_overlap, 1 - tensor_overlap, 1),
    reference=_FSDP,
)
_directions = where(parallelism.recompute.is_("full"), 3, 2)
_exchange = _directions * traffic.expert_exchange_time
# PyTorch's selective recomputation keeps what reduce-scatters return, and gathers again.
_gathered_again = where(
    parallelism.recompute.is_("selective")
    & software.selective_products
    & parallelism.sequence_parallel
    & (parallelism.tensor <= interconnect.node_ranks),
    2 * traffic.tensor_gather,
    _NONE,
)
# Expert dispatch of one micro-batch overlaps the computation of another.
_hidden_exchange = minimum(_exchange, exchange_overlap * layer_compute)
layer_traffic = scope.declare(
    "layer.traffic_time, t_Lc [s as ms]: exposed communication of a layer in one pass",
    equals=_directions * (inner_exposed * traffic.tensor_time + traffic.context_time)
    + inner_exposed * _gathered_again
    + where(software.overlap, _exchange - _hidden_exchange + contention * _hidden_exchange, _exchange),
    reference=_RECOMPUTE,
)
stage_layers = parallelism.fullest_stage
# The first and last stage may have one layer less, to balance embedding and head.
_left_out = ceil((parallelism.pipeline * stage_layers - shapes.layers) / 2)
head_extra = scope.declare(
    "head.extra_time, t_hx [s as ms]: time that the head adds to the last stage, less the time of its missing layers",
    equals=where(
        parallelism.pipeline > 1,
        maximum(_NONE, head.head_time - _left_out * (layer_compute + layer_traffic)),
        head.head_time,
    ),
    reference=_STAGES,
)
micro_batch_count = maximum(parallelism.micro_batches, 1)
accumulation = passes.declare(
    scope,
    "accumulation.",
    where(
        software.fused_accumulation | parallelism.zero_stage.is_at_least("gradients"),
        0 * optimizer.weight_bytes,
        parallelism.shard_parameters
        * parallelism.trained_share
        * (optimizer.weight_bytes + 2 * optimizer.gradient_bytes),
    ),
    2,
    what="adding the gradients of a pass to their sums",
)
warm_up = scope.declare(
    "stage.idle_passes, n_b: pipeline bubble in micro-batches",
    equals=parallelism.bubble_overhead * parallelism.micro_batches,
    reference=_STAGES,
)
pass_time = scope.declare(
    "kernels_time, t_k [s as ms]: kernel time of all passes of a step",
    equals=micro_batch_count * (stage_layers * layer_compute + head_extra + accumulation.time),
    reference=_STAGES,
)
bubble_time = scope.declare(
    "bubble_time, t_bub [s as ms]: pipeline bubble time of a step",
    equals=warm_up * (stage_layers * (layer_compute + layer_traffic) + traffic.hop_time),
    reference=_STAGES,
)
_updated_weights = where(
    parallelism.zero_stage.is_at_least("optimizer"), parallelism.owned_parameters, parallelism.shard_parameters
)
update = passes.declare(
    scope,
    "update.",
    parallelism.trained_share
    * (_updated_weights * optimizer.update_bytes + parallelism.shard_parameters * optimizer.clearing_bytes),
    12,
    what="the optimizer's update",
)
straggling = scope.declare(
    "straggling, s_n: expected time of the slowest GPU over the median one",
    equals=1 + gpu_spread * expected_largest(gpus / number("1 GPU")),
    reference=_LARGEST,
)

inner_traffic = scope.declare(
    "inner_traffic_time, t_it [s as ms]: exposed communication inside layers of a step",
    equals=micro_batch_count * stage_layers * layer_traffic,
    reference=_STAGES,
)
outer_exposed = scope.declare(
    "data.exposed_share, e_d: exposed share of communication between stages or replicas",
    equals=where(software.overlap, 1 - data_overlap, 1),
    reference=_FSDP,
)
hop_traffic = scope.declare(
    "hop_traffic_time, t_ht [s as ms]: exposed pipeline communication of a step",
    equals=micro_batch_count * traffic.hop_time * outer_exposed,
    reference=_STAGES,
)
busy = scope.declare(
    "busy_time, t_busy [s as ms]: time of a step before data-parallel communication",
    equals=pass_time + bubble_time + inner_traffic + hop_traffic,
    reference=_STAGES,
)
_volume = micro_batch_count * traffic.each_time
_hidden = minimum(_volume, data_overlap * busy)
sharded_traffic = scope.declare(
    "data.sharded_time, t_ds [s as ms]: time added to a step by exchanges of every pass: exposed time and "
    "slowdown of compute",
    equals=_volume - _hidden + contention * _hidden + micro_batch_count * traffic.each_latency,
    reference=_FSDP,
)
owner_traffic = approximate(
    scope,
    "data.owner_time, t_do [s as ms]: time added to a step by broadcasts of weight owners",
    combine.overlap(busy, micro_batch_count * traffic.broadcast_time, number("4")) - busy,
    valid=parallelism.shards > 1,
    reference=_FITTED,
)
data_traffic = scope.declare(
    "data_traffic_time, t_dt [s as ms]: time added to a step by data-parallel communication",
    equals=where(
        parallelism.shards > 1,
        where(
            parallelism.zero_stage.is_at_least("gradients"),
            where(software.owner_broadcast, owner_traffic, sharded_traffic),
            traffic.once_time * outer_exposed,
        ),
        _NONE,
    ),
    reference=_FSDP,
)

flops_per_step = scope.declare(
    "flops_per_step, F [FLOP]: model FLOPs of one optimizer step",
    equals=tokens_per_step
    * (
        operations.training_flops
        # Frozen weights take no FLOPs for their gradient.
        - where(parallelism.is_frozen, operations.projection_flops + operations.logit_flops, number("0 FLOP/token"))
    ),
    reference=_FLOPS,
)
peak_flops = scope.declare(
    "peak_flops, P_run [FLOP/s as TFLOP/s]: power-limited peak rate of all GPUs in the job",
    equals=gpus * gpu_power.power_limited_peak_flops,
    reference=by_definition("sum over the job's GPUs"),
)
benchmark_compute_time = scope.declare(
    "benchmark_compute_time, t_comp0 [s]: compute and bubble time of a step at the clock of the kernels' benchmarks",
    equals=straggling * (pass_time + bubble_time + update.time + step_start),
    reference=_STAGES,
)
clock_bound_time = scope.declare(
    "clock_bound_time, t_f [s as ms]: time of a step that grows as the power limit lowers the clock",
    equals=straggling
    * (
        (micro_batch_count + warm_up) * stage_layers * clock.layer_clock_bound
        + micro_batch_count * clock.head_clock_bound
    ),
    reference=_STAGES,
)
_MUON = cited(
    "Jordan et al. 2024, Muon: An optimizer for hidden layers in neural networks",
    "runtime analysis: FLOP overhead T m / B",
)
orthogonalization_share = scope.declare(
    "update.orthogonalization_share, s_NS [1 as %]: operations of making updates orthogonal, over those of the model",
    equals=optimizer.orthogonalization_steps * shapes.hidden / (tokens_per_step / number("1 token")),
    reference=_MUON,
    target=True,
)
compute_time = scope.declare("compute_time, t_comp [s]: compute and bubble time of a step", reference=_STAGES)
scope.equation(
    compute_time,
    model_error * (benchmark_compute_time + clock_bound_time * (1 / device.clock_ratio - 1)),
    reference=_STAGES,
)
scope.approximation(
    compute_time,
    model_error
    * (benchmark_compute_time + clock_bound_time * (1 / device.clock_ratio - 1))
    * (1 + orthogonalization_share),
    name="with_orthogonalization",
    valid=orthogonalization_share >= 0,
    meaning="updates are made orthogonal at the rate of the model's own operations",
    reference=_MUON,
)
scope.approximation(
    compute_time,
    flops_per_step / peak_flops,
    name="at_peak",
    valid=peak_flops > number("0 FLOP/s"),
    meaning="lower bound: all FLOPs at the power-limited peak rate",
    reference=_FLOPS,
)
exposed_communication_time = scope.declare(
    "exposed_communication_time, t_comm [s]: exposed communication of a step",
    equals=model_error * straggling * (inner_traffic + hop_traffic + exchange_error * data_traffic + traffic.tied_time),
    reference=by_definition("communication time less overlap"),
)
step_time = scope.declare(
    "step_time, t_step [s]: time of one optimizer step",
    equals=compute_time + exposed_communication_time,
    reference=by_definition("busy plus exposed time"),
    target=True,
)
achieved_share = scope.declare(
    "achieved_share, s_ach [1 as %]: share of the peak rate that whole steps reach, communication included",
    bounds=("positive", 1),
    reference=_RECIPES,
    boundary="primitive",
)
scope.approximation(
    step_time,
    flops_per_step / (achieved_share * gpus * gpu_rates.peak_flops),
    name="by_achieved_share",
    valid=achieved_share > 0,
    meaning="as published runs on the same accelerator, for want of a model of its kernels",
    reference=_RECIPES,
)
