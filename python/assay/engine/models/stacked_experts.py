"""The matrices of all experts of a layer, stored as one tensor: gpt-oss, in MXFP4 or unquantized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from assay.engine.architectures.decoder import MXFP4_BLOCK, StackedLinear
from assay.engine.loading import Tensor
from assay.engine.loading.fp4_layers import EXPONENT_BIAS, e2m1_values
from assay.engine.loading.tensor_values import tensor_values
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Scalar = TypeVar("Scalar", np.float32, np.uint8)

PACKED_FORMAT = "mxfp4"


def mxfp4_values(
    blocks: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8]
) -> npt.NDArray[np.float32]:
    """Values of MXFP4 (OCP Microscaling 1.0): blocks of 16 bytes, low half first, and a scale each.

    `blocks` has one more axis than `scales`; the last two axes become one.
    """
    values = e2m1_values(blocks)
    exponents = scales.astype(np.int32) - EXPONENT_BIAS
    scaled = np.ldexp(values, exponents[..., None])
    joined: npt.NDArray[np.float32] = scaled.reshape(*scaled.shape[:-2], -1).astype(np.float32)
    return joined


def stacked_blocks(linear: StackedLinear, tensors: Mapping[str, Tensor]) -> npt.NDArray[np.uint8]:
    """The packed matrices of all experts as rows of GGML's MXFP4 blocks; gates before ups.

    GGUF files have such blocks: a scale and 16 bytes, with values j and j + 16 in a byte. Those of
    Hugging Face have adjacent values in a byte, and scales apart.
    """
    if linear.parts:
        parts = [
            np.frombuffer(tensors[f"{part}.weight"].bytes, np.uint8).reshape(linear.experts, -1)
            for part in linear.parts
        ]
        return np.concatenate(parts, axis=1).reshape(linear.experts * linear.outputs, -1)
    blocks, scales = _stored(linear, tensors)
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*scales.shape, MXFP4_BLOCK)
    half = MXFP4_BLOCK // 2
    packed = np.empty((*scales.shape, half + 1), np.uint8)
    packed[..., 0] = scales
    packed[..., 1:] = codes[..., :half] | codes[..., half:] << 4
    rows = _gates_first(linear, packed)
    return np.ascontiguousarray(rows.reshape(linear.experts * linear.outputs, -1))


def stacked_values(linear: StackedLinear, tensors: Mapping[str, Tensor]) -> npt.NDArray[np.float32]:
    """The matrices of all experts, outputs by inputs, one below the other; gates before ups."""
    if linear.parts:
        parts = [tensor_values(tensors[f"{part}.weight"]) for part in linear.parts]
        values = np.concatenate(parts, axis=1)
    elif linear.packed:
        values = mxfp4_values(*_stored(linear, tensors))
    else:
        # Unquantized matrices are inputs by outputs.
        values = tensors[linear.name].to_float32().swapaxes(1, 2)
    return np.ascontiguousarray(_gates_first(linear, values).reshape(-1, linear.inputs))


def stored_format(linear: StackedLinear, tensors: Mapping[str, Tensor]) -> str:
    """The format of the matrices in the file."""
    if linear.parts:
        formats = {tensors[f"{part}.weight"].format for part in linear.parts}
        return formats.pop() if len(formats) == 1 else ", ".join(sorted(formats))
    return PACKED_FORMAT if linear.packed else tensors[linear.name].format


def stacked_bias(linear: StackedLinear, tensors: Mapping[str, Tensor]) -> npt.NDArray[np.float32]:
    """The biases of all experts, a row for each."""
    if linear.parts:
        parts = [tensors[f"{part}.bias"].to_float32() for part in linear.parts]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))
    return np.ascontiguousarray(_gates_first(linear, tensors[f"{linear.name}_bias"].to_float32()))


def _stored(
    linear: StackedLinear, tensors: Mapping[str, Tensor]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Blocks and scales, as stored."""
    stored = [tensors[f"{linear.name}{suffix}"] for suffix in ("_blocks", "_scales")]
    blocks, scales = (np.frombuffer(one.bytes, np.uint8).reshape(one.shape) for one in stored)
    return blocks, scales


def _gates_first(linear: StackedLinear, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    if not linear.interleaved:
        return values
    return np.concatenate([values[:, ::2], values[:, 1::2]], axis=1)
