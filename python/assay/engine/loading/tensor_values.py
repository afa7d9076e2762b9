"""The values of a tensor in any format that is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from assay.engine.loading import dequantize
from assay.engine.loading.model_files import Tensor
from assay.lazy_import import LazyModule, np

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay import ops
else:
    ops = LazyModule("assay.ops", globals(), "ops")

DENSE: Final = ("f32", "f16", "bf16")
"""Formats without quantization."""


def tensor_values(tensor: Tensor) -> npt.NDArray[np.float32]:
    """The values of a tensor, outputs by inputs where it is a matrix."""
    if tensor.compute is not None:
        return tensor.compute()
    if tensor.format in DENSE:
        values = tensor.to_float32()
        return np.ascontiguousarray(values.T) if tensor.transposed else values
    if tensor.format in dequantize.FORMATS:
        return dequantize.dequantize(tensor.bytes, tensor.format, tensor.shape)
    rows = math.prod(tensor.shape[:-1])
    packed = ops.pack(tensor.bytes, tensor.format, (rows, tensor.shape[-1]), "cpu")
    values = packed.dequantize().to_numpy().copy().reshape(tensor.shape)
    packed.free()
    return values
