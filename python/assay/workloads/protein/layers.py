"""What the layers of the trunk share: norms, products with packed weights, and their device."""

from __future__ import annotations

from typing import Final

import numpy as np

from assay import ops, xp
from assay.ops import Weights
from assay.runtime.array import Array
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device
from assay.workloads.protein.weights import EPSILON, Floats, Norm


class Place:
    """A device, and the type of activations there: float32 on a CPU, bfloat16 on a GPU."""

    def __init__(self, device: Device) -> None:
        """Take the type in which the device's layers are fastest."""
        self.device: Final = device
        halves = xp.bfloat16 in device.capabilities.activation_dtypes
        self.dtype: Final[DType] = xp.bfloat16 if halves else xp.float32

    def array(self, values: Floats) -> Array:
        """Values in the device's memory, as activations are."""
        stored = xp.asarray(np.ascontiguousarray(values), device=self.device, copy=True)
        return stored if self.dtype is xp.float32 else xp.astype(stored, self.dtype)

    def pack(self, *matrices: Floats) -> Weights:
        """Matrices of (outputs, inputs), one below the other, packed for a product."""
        matrix = np.concatenate(matrices)
        shape = (matrix.shape[0], matrix.shape[1])
        return ops.pack(matrix, "f32" if self.dtype is xp.float32 else "bf16", shape, self.device)

    def norm(self, norm: Norm) -> tuple[Array, Array]:
        """Weight and bias of a LayerNorm."""
        return self.array(norm.weight), self.array(norm.bias)


def normalize(x: Array, norm: tuple[Array, Array]) -> Array:
    """LayerNorm over the last axis of rows."""
    return ops.layer_norm(x, norm[0], norm[1], EPSILON)


def product(a: Array, b: Array) -> Array:
    """A batched GEMM whose result has the type of its operands."""
    out = xp.empty((*a.shape[:-1], b.shape[-1]), dtype=a.dtype, device=a.device)
    return ops.batched_matmul(a, b, out)


def rows(x: Array) -> Array:
    """All axes but the last as one."""
    return xp.reshape(x, (-1, x.shape[-1]))
