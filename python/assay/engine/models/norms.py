"""Norms before and behind the layers of a block."""

from __future__ import annotations

from typing import NamedTuple

from assay import ops
from assay.runtime import Array


class Norm(NamedTuple):
    """RMSNorm, or LayerNorm: mean subtracted and a bias added."""

    weight: Array
    epsilon: float
    bias: Array | None = None
    is_layer_norm: bool = False
    """Whether it is a LayerNorm, an operation of its own; RMSNorm is fused into the next GEMM."""

    def forward(self, x: Array, out: Array, label: str, *, residual: Array | None = None) -> None:
        """Write the norm of `x`, or of `residual` after `x` is added to it."""
        if not self.is_layer_norm:
            ops.rms_norm(x, self.weight, self.epsilon, residual=residual, out=out, label=label)
            return
        ops.layer_norm(
            x, self.weight, self.bias, self.epsilon, residual=residual, out=out, label=label
        )
