"""A training run: the time of a step from its kernels and its traffic, and of all steps."""

from assay.stack.training.job import batch, compute_bits, gpus, operand_bytes, scope, tokens_per_step
from assay.stack.training.run import (
    achieved_flops,
    gpu_hours,
    hfu,
    mfu,
    model_flops_utilisation,
    run_yield,
    steps,
    time_to_train,
    tokens_per_second,
    total_tokens,
)
from assay.stack.training.step import compute_time, exposed_communication_time, flops_per_step, peak_flops, step_time
from assay.stack.training.work import memory_utilisation, tensor_utilisation

__all__ = [
    "achieved_flops",
    "batch",
    "compute_bits",
    "compute_time",
    "exposed_communication_time",
    "flops_per_step",
    "gpu_hours",
    "gpus",
    "hfu",
    "memory_utilisation",
    "mfu",
    "model_flops_utilisation",
    "operand_bytes",
    "peak_flops",
    "run_yield",
    "scope",
    "step_time",
    "steps",
    "tensor_utilisation",
    "time_to_train",
    "tokens_per_second",
    "tokens_per_step",
    "total_tokens",
]
