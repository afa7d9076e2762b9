"""Packed weights of linear layers."""

from __future__ import annotations

import math
from typing import Final

from assay._native import BLOCK_FORMATS, FORMATS, Buffer, dequantize_weights
from assay.errors import UnsupportedError
from assay.ops import counting
from assay.ops.formats import DTYPES
from assay.ops.operands import Operand, call
from assay.runtime import allocation, dtypes
from assay.runtime.array import Array
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device


class Weights:
    """A weight matrix in device memory, one row per output, in the layout of its GEMM kernels.

    `pack` creates one.
    """

    __slots__ = ("buffer", "device", "format", "shape")

    def __init__(self, device: Device, buffer: Buffer, format: str, shape: tuple[int, int]) -> None:
        """Describe packed memory."""
        self.device: Final = device
        self.buffer: Final = buffer
        self.format: Final = format
        self.shape: Final = shape
        """Outputs and inputs."""

    @property
    def nbytes(self) -> int:
        """Bytes that a GEMM reads."""
        return self.buffer.nbytes

    @property
    def element_bytes(self) -> float:
        """Bytes per weight, with its share of scales and padding."""
        return self.nbytes / max(math.prod(self.shape), 1)

    @property
    def bits(self) -> int:
        """Bits of one weight, without scales."""
        return BLOCK_FORMATS[self.format].bits

    @property
    def dtype(self) -> DType | None:
        """The element type of dense weights."""
        return DTYPES.get(self.format)

    def operand(self) -> Operand:
        """The weights as an operand of an operation."""
        return (self.buffer, 0, self.buffer.nbytes, FORMATS[self.format])

    def dequantize(self) -> Array:
        """The weights as a matrix of float32."""
        out = allocation.empty(self.device, self.shape, dtypes.float32, "dequantize")
        outputs, inputs = self.shape
        code, buffer = FORMATS[self.format], self.buffer
        if self.device.capabilities.packs_weights_on_device and self.dtype is None:
            call(
                "unpack",
                [self.operand(), out],
                self.shape,
                self.device,
                counting.memory_traffic(buffer.nbytes + out.nbytes),
                "dequantize",
            )
            return out
        if not self.device.host_memory:
            raise UnsupportedError(
                f"dequantize: expected quantized weights on {self.device}, got {self.format}",
                "dense weights need no dequantization",
            )

        def run() -> None:
            dequantize_weights(code, buffer, outputs, inputs, out.buffer)

        self.device.launch(
            "dequantize", run, [buffer], [out.buffer], bytes=buffer.nbytes + out.nbytes
        )
        return out

    def free(self) -> None:
        """Free the memory now; later use raises."""
        self.buffer.free()

    def __repr__(self) -> str:
        return f"Weights({self.format}, {self.shape[0]} x {self.shape[1]}, {self.device})"
