"""A training run: the time of a step, and of all of them."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited
from assay.stack import gpu

scope = Scope("training", "What a training run takes")

_MEGATRON = "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters"
_PALM = cited("Chowdhery et al. 2022, PaLM", "sec. 4.1 and appendix B")

gpus = scope.variable(
    "gpus", "n", "GPU", "GPUs in the job", bounds=POSITIVE,
    reference=by_definition(), boundary="scenario",
)  # fmt: skip
flops_per_step = scope.variable(
    "flops_per_step", "F", "FLOP", "floating-point operations in one optimiser step",
    reference=cited(_MEGATRON, "sec. 5.1"), boundary="decompose",
)  # fmt: skip
tokens_per_step = scope.variable(
    "tokens_per_step", "B", "token", "tokens in one optimiser step", bounds=POSITIVE,
    reference=by_definition(), boundary="scenario",
)  # fmt: skip
total_tokens = scope.variable(
    "total_tokens", "D", "token", "tokens in the whole run", bounds=POSITIVE,
    reference=by_definition(), boundary="scenario",
)  # fmt: skip
exposed_communication_time = scope.variable(
    "exposed_communication_time", "t_comm", "s", "communication in a step that no computation hides",
    reference=by_definition("communication time less overlap"), boundary="decompose",
)  # fmt: skip
peak_flops = scope.variable(
    "peak_flops", "P_run", "FLOP/s", "power-limited peak rate of all GPUs in the job", display="TFLOP/s",
    equals=gpus * gpu.power_limited_peak_flops, reference=by_definition("sum over the job's GPUs"),
)  # fmt: skip
compute_time = scope.variable(
    "compute_time", "t_comp", "s", "time the operations of a step take at peak rate",
    equals=flops_per_step / peak_flops, reference=cited(_MEGATRON, "sec. 5.1"),
)  # fmt: skip
step_time = scope.variable(
    "step_time", "t_step", "s", "time of one optimiser step",
    equals=compute_time + exposed_communication_time, reference=by_definition("busy plus exposed time"),
)  # fmt: skip
tokens_per_second = scope.variable(
    "tokens_per_second", "R", "token/s", "training throughput",
    equals=tokens_per_step / step_time, reference=_PALM, target=True,
)  # fmt: skip
steps = scope.variable(
    "steps", "n_step", "1", "optimiser steps in the run",
    equals=total_tokens / tokens_per_step, reference=by_definition("total tokens over tokens per step"),
)  # fmt: skip
time_to_train = scope.variable(
    "time_to_train", "T", "s", "wall-clock time of the run without interruptions",
    equals=steps * step_time, reference=cited(_MEGATRON, "sec. 5.1"), target=True,
)  # fmt: skip
achieved_flops = scope.variable(
    "achieved_flops", "P_ach", "FLOP/s", "rate at which the model's operations are done", display="TFLOP/s",
    equals=flops_per_step / step_time, reference=_PALM, target=True,
)  # fmt: skip
model_flops_utilisation = scope.variable(
    "model_flops_utilisation", "MFU", "1", "achieved over peak rate", display="%",
    equals=achieved_flops / peak_flops, reference=_PALM, target=True,
)  # fmt: skip
