"""A whole training run: throughput, utilization, steps, time and GPU-hours."""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, cited, fitted, number, where
from assay.stack import parallelism, works
from assay.stack.architecture import operations, shapes
from assay.stack.gpu import rates as gpu_rates
from assay.stack.kernels import device
from assay.stack.training import attention, layer
from assay.stack.training.job import compute_bits, gpus, scope, tokens_per_step
from assay.stack.training.step import flops_per_step, peak_flops, step_time
from assay.stack.training.weights import forward_passes_of

_PALM = cited("Chowdhery et al. 2022, PaLM: Scaling Language Modeling with Pathways", "appendix B")
_RUN = cited(works.MEGATRON_CLUSTERS, "sec. 5.1")
_RECOMPUTE = cited(works.ACTIVATION_RECOMPUTATION, "sec. 6.3 and appendix A")

_FITTED = fitted("docs/design/training-model.md", "published steps")

total_tokens = scope.declare(
    "total_tokens, D [token]: tokens in the whole run",
    bounds=POSITIVE,
    reference=by_definition(),
    boundary="scenario",
    family="training",
)
tokens_per_second = scope.declare(
    "tokens_per_second, R [token/s]: training throughput",
    equals=tokens_per_step / step_time,
    reference=_PALM,
    target=True,
)
steps = scope.declare(
    "steps, n_step: optimizer steps in the run",
    equals=total_tokens / tokens_per_step,
    reference=by_definition("total tokens over tokens per step"),
)
time_to_train = scope.declare(
    "time_to_train, T [s as day]: wall-clock time of the run without interruptions",
    equals=steps * step_time,
    reference=_RUN,
    target=True,
)
run_yield = scope.declare(
    "run_yield, y: share of a run's GPU-hours that its steps account for",
    bounds=("positive", 1),
    reference=by_definition("the rest: restarts, evaluation, idle and lost work"),
)
gpu_hours = scope.declare(
    "gpu_hours, H [GPU*s as GPU*h]: GPU-hours charged to a run",
    equals=gpus * time_to_train / run_yield,
    reference=_RUN,
    target=True,
)

achieved_flops = scope.declare(
    "achieved_flops, P_ach [FLOP/s as TFLOP/s]: achieved model FLOP/s",
    equals=flops_per_step / step_time,
    reference=_PALM,
    target=True,
)
model_flops_utilisation = scope.declare(
    "model_flops_utilisation, u_P [1 as %]: achieved over power-limited peak rate",
    equals=achieved_flops / peak_flops,
    reference=_PALM,
    target=True,
)
tensor_peak = scope.declare(
    "tensor_peak, P_t [FLOP/s as TFLOP/s]: data-sheet peak of all GPUs for the format of layer GEMMs",
    equals=gpus * gpu_rates.peak_flops * device.rate_multiple(compute_bits),
    reference=_PALM,
)
scope.inequality(
    "format_exists",
    device.format_exists(compute_bits),
    "the GPU has tensor cores for the format of layer GEMMs",
    reference=_PALM,
)
mfu = scope.declare(
    "mfu, MFU [1 as %]: model FLOPs utilization: model FLOPs over peak",
    equals=achieved_flops / tensor_peak,
    reference=_PALM,
    target=True,
)
executed_flops = scope.declare(
    "executed_flops, F_hw [FLOP]: FLOPs of a step, including recomputation",
    equals=flops_per_step
    + tokens_per_step
    * (
        (forward_passes_of(parallelism.recompute) - 1) * operations.projection_flops
        + (attention.forwards - 1) * operations.attention_flops
        + where(
            parallelism.compact,
            number("2 FLOP/token") * layer.expansion_share * layer.projection_columns * shapes.hidden * shapes.layers,
            number("0 FLOP/token"),
        )
    ),
    reference=_RECOMPUTE,
)
hfu = scope.declare(
    "hfu, HFU [1 as %]: hardware FLOPs utilization: executed FLOPs over peak",
    equals=executed_flops / (step_time * tensor_peak),
    reference=_PALM,
    target=True,
)
