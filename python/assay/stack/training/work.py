"""FLOPs and bytes of a step on one GPU, utilization of its peaks, and what its power follows."""

from __future__ import annotations

from assay.model import by_definition, cited, minimum, number, where
from assay.stack import parallelism, software, works
from assay.stack.gpu import power as gpu_power
from assay.stack.kernels import device
from assay.stack.training import attention, experts, head, layer
from assay.stack.training.experts import expert_share
from assay.stack.training.job import compute_bits, scope
from assay.stack.training.step import (
    accumulation,
    benchmark_compute_time,
    bubble_time,
    clock_bound_time,
    exposed_communication_time,
    micro_batch_count,
    stage_layers,
    step_start,
    step_time,
    straggling,
    update,
)

_COUNT = cited(works.ROOFLINE, "operational intensity")
_ACTIVE = cited(works.DCGM, "profiling metrics")

_is_unfused = software.attention.is_("unfused")

layer_flops = scope.declare(
    "layer.flops, F_L [FLOP as GFLOP]: FLOPs of a layer's kernels in one pass, both directions",
    equals=layer.projection.flops
    + layer.output.flops
    + (1 - expert_share) * (layer.up.flops + layer.down.flops)
    + expert_share * (experts.up.flops + experts.down.flops)
    + where(parallelism.compact, layer.expansion_flops, number("0 FLOP"))
    + where(
        _is_unfused,
        (2 * attention.forwards + 4) * attention.score_gemm.flops,
        (attention.forwards + 2.5) * attention.flops,
    ),
    reference=_COUNT,
)
layer_size = scope.declare(
    "layer.size, S_L [byte as MB]: minimum bytes of a layer's kernels in one pass, both directions",
    equals=layer.projection.size
    + layer.output.size
    + (1 - expert_share) * (layer.up.size + layer.down.size)
    + expert_share * (experts.up.size + experts.down.size)
    + layer.forward_pass_count * layer.forward_passes.size
    + layer.backward_passes.size
    + where(parallelism.compact, layer.repeated_passes.size, number("0 byte"))
    + where(parallelism.is_frozen, layer.adapter_passes.size, number("0 byte"))
    + where(
        _is_unfused,
        (2 * attention.forwards + 4) * attention.score_gemm.size
        + attention.forwards * attention.forward_scores.size
        + attention.backward_scores.size,
        (attention.forwards + 2) * attention.size,
    ),
    reference=_COUNT,
)
step_flops = scope.declare(
    "kernels_flops, F_k [FLOP as TFLOP]: FLOPs of all kernels of a step on a GPU of the longest stage",
    equals=micro_batch_count * (stage_layers * layer_flops + head.logits.flops),
    reference=_COUNT,
)
step_size = scope.declare(
    "kernels_size, S_k [byte as GB]: minimum bytes of all kernels of a step on a GPU of the longest stage",
    equals=micro_batch_count * (stage_layers * layer_size + head.logits.size + head.loss.size + accumulation.size)
    + update.size,
    reference=_COUNT,
)
tensor_utilisation = scope.declare(
    "tensor_utilisation, u_t [1 as %]: executed FLOPs over peak",
    equals=step_flops / (step_time * device.peak_flops * device.rate_multiple(compute_bits)),
    reference=_ACTIVE,
    target=True,
)
memory_utilisation = scope.declare(
    "memory_utilisation, u_m [1 as %]: bytes moved over the memory's peak bandwidth",
    equals=step_size / (step_time * device.memory_bandwidth),
    reference=_ACTIVE,
    target=True,
)

# What board power follows, at the clock of the kernels' benchmarks: the clock under load is found
# from these (`gpu.clock_power`), so they may not depend on it.
gap_time = scope.declare(
    "gap_time, t_gap [s as ms]: time of a step without kernels: pipeline bubbles and its start",
    equals=straggling * (bubble_time + step_start),
    reference=_ACTIVE,
)
benchmark_busy_time = scope.declare(
    "benchmark_busy_time, t_b0 [s as ms]: time of a step with kernels, at the clock of their benchmarks",
    equals=benchmark_compute_time + exposed_communication_time - gap_time,
    reference=_ACTIVE,
)
scope.equation(
    gpu_power.work_tensor_use,
    minimum(step_flops / (benchmark_busy_time * device.peak_flops * device.rate_multiple(compute_bits)), 1),
    name="work.tensor_use",
    meaning="tensor-core utilization of a training step",
    reference=_ACTIVE,
)
scope.equation(
    gpu_power.work_memory_use,
    minimum(step_size / (benchmark_busy_time * device.memory_bandwidth), 1),
    name="work.memory_use",
    meaning="memory-bandwidth utilization of a training step",
    reference=_ACTIVE,
)
scope.equation(
    gpu_power.work_clock_share,
    minimum(clock_bound_time / benchmark_busy_time, 1),
    name="work.clock_share",
    meaning="clock-bound share of a training step",
    reference=by_definition("clock-bound time over busy time"),
)
scope.equation(
    gpu_power.duty,
    1 - gap_time / step_time,
    name="work.duty",
    meaning="busy share of a training step",
    reference=by_definition("busy time over time"),
)
