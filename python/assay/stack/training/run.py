"""A whole training run: throughput, utilization, steps, time and GPU-hours."""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, cited, fitted
from assay.stack import architecture, gpu, parallelism
from assay.stack.kernels import device
from assay.stack.training import attention
from assay.stack.training.job import compute_bits, gpus, scope, tokens_per_step
from assay.stack.training.step import flops_per_step, peak_flops, step_time
from assay.stack.training.weights import forward_passes_of

_PALM = cited("Chowdhery et al. 2022, PaLM: Scaling Language Modeling with Pathways", "appendix B")
_RUN = cited(
    "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters "
    "Using Megatron-LM",
    "sec. 5.1",
)
_RECOMPUTE = cited(
    "Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models",
    "sec. 6.3 and appendix A",
)

_FITTED = fitted("docs/design/training-model.md", "published steps")

total_tokens = scope.variable(
    "total_tokens", "D", "token", "tokens in the whole run", bounds=POSITIVE,
    reference=by_definition(), boundary="scenario", family="training",
)  # fmt: skip
tokens_per_second = scope.variable(
    "tokens_per_second", "R", "token/s", "training throughput",
    equals=tokens_per_step / step_time, reference=_PALM, target=True,
)  # fmt: skip
steps = scope.variable(
    "steps", "n_step", "1", "optimizer steps in the run", equals=total_tokens / tokens_per_step,
    reference=by_definition("total tokens over tokens per step"),
)  # fmt: skip
time_to_train = scope.variable(
    "time_to_train", "T", "s", "wall-clock time of the run without interruptions", display="day",
    equals=steps * step_time, reference=_RUN, target=True,
)  # fmt: skip
run_yield = scope.variable(
    "run_yield", "y", "1", "share of a run's GPU-hours that its steps account for",
    bounds=("positive", 1),
    reference=by_definition("the rest: restarts, evaluation, idle and lost work"),
)  # fmt: skip
gpu_hours = scope.variable(
    "gpu_hours", "H", "GPU*s", "GPU-hours charged to a run", display="GPU*h",
    equals=gpus * time_to_train / run_yield, reference=_RUN, target=True,
)  # fmt: skip

achieved_flops = scope.variable(
    "achieved_flops", "P_ach", "FLOP/s", "achieved model FLOP/s",
    display="TFLOP/s", equals=flops_per_step / step_time, reference=_PALM, target=True,
)  # fmt: skip
model_flops_utilisation = scope.variable(
    "model_flops_utilisation", "u_P", "1", "achieved over power-limited peak rate", display="%",
    equals=achieved_flops / peak_flops, reference=_PALM, target=True,
)  # fmt: skip
tensor_peak = scope.variable(
    "tensor_peak", "P_t", "FLOP/s", "data-sheet peak of all GPUs for the format of layer GEMMs",
    display="TFLOP/s", equals=gpus * gpu.peak_flops * device.rate_multiple(compute_bits),
    reference=_PALM,
)  # fmt: skip
scope.inequality(
    "format_exists", device.format_exists(compute_bits),
    "the GPU has tensor cores for the format of layer GEMMs", reference=_PALM,
)  # fmt: skip
mfu = scope.variable(
    "mfu", "MFU", "1", "model FLOPs utilization: model FLOPs over peak", display="%",
    equals=achieved_flops / tensor_peak, reference=_PALM, target=True,
)  # fmt: skip
executed_flops = scope.variable(
    "executed_flops", "F_hw", "FLOP", "FLOPs of a step, including recomputation",
    equals=flops_per_step
    + tokens_per_step
    * (
        (forward_passes_of(parallelism.recompute) - 1) * architecture.projection_flops
        + (attention.forwards - 1) * architecture.attention_flops
    ),
    reference=_RECOMPUTE,
)  # fmt: skip
hfu = scope.variable(
    "hfu", "HFU", "1", "hardware FLOPs utilization: executed FLOPs over peak", display="%",
    equals=executed_flops / (step_time * tensor_peak), reference=_PALM, target=True,
)  # fmt: skip
