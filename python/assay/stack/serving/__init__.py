"""Serving: prefill and decode on GPUs, from kernels to time per token and goodput."""

from assay.stack.serving import latency, limits, objectives, power, step
from assay.stack.serving.deployment import scope

__all__ = ["latency", "limits", "objectives", "power", "scope", "step"]
