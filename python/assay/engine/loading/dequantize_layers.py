"""The values of quantized layers: FP8 with scales, AWQ, GPTQ and packed integers.

Layers are outputs by inputs here; AWQ and GPTQ store inputs by outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from assay.engine.loading.model_files import Tensor
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int32]

Parts = Mapping[str, Tensor]
"""The tensors of one layer by suffix."""

_AWQ_ORDER: Final = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where the columns of eight codes are in an integer of AWQ."""


def plain_shape(parts: Parts) -> tuple[int, int]:
    """The shape of codes that stand for one value each."""
    rows, columns = matrix_shape(parts["weight"])
    return rows, columns


def scaled(parts: Parts) -> Values:
    """Codes times a scale for the matrix, for each output, or for each group of inputs."""
    codes = floats(parts["weight"])
    scale = floats(parts["weight_scale"]).astype(np.float32)
    rows, columns = codes.shape
    if scale.size == 1:
        return codes * scale.reshape(1, 1)
    scale = scale.reshape(rows, -1)
    if columns % scale.shape[1]:
        raise ValueError(f"{scale.shape[1]} scales for {columns} inputs")
    return codes * np.repeat(scale, columns // scale.shape[1], axis=1)


def block_scaled(parts: Parts, rows: int, columns: int) -> Values:
    """Codes times a scale for each block of outputs and inputs; the last blocks may be smaller."""
    codes = floats(parts["weight"])
    scale = floats(parts["weight_scale_inv"])
    expected = -(-codes.shape[0] // rows), -(-codes.shape[1] // columns)
    if scale.shape != expected:
        raise ValueError(f"scales of shape {scale.shape}, expected {expected}")
    wide = np.repeat(np.repeat(scale, rows, axis=0), columns, axis=1)
    return codes * wide[: codes.shape[0], : codes.shape[1]]


def awq_shape(parts: Parts) -> tuple[int, int]:
    """Outputs and inputs of an AWQ layer."""
    inputs, packed_outputs = matrix_shape(parts["qweight"])
    return packed_outputs * 8, inputs


def awq(parts: Parts) -> Values:
    """(code - zero) times scale, each group of inputs with its own zeros and scales."""
    outputs, inputs = awq_shape(parts)
    codes = _unpacked(_integers(parts["qweight"]), 4, _AWQ_ORDER).reshape(inputs, outputs)
    scales = floats(parts["scales"])
    groups = len(scales)
    zeros = _unpacked(_integers(parts["qzeros"]), 4, _AWQ_ORDER).reshape(groups, outputs)
    if inputs % groups:
        raise ValueError(f"{groups} groups for {inputs} inputs")
    group = np.repeat(np.arange(groups, dtype=np.int32), inputs // groups)
    return _grouped(codes, zeros, scales, group)


def gptq_shape(parts: Parts, bits: int) -> tuple[int, int]:
    """Outputs and inputs of a GPTQ layer."""
    packed_inputs, outputs = matrix_shape(parts["qweight"])
    return outputs, packed_inputs * 32 // bits


def gptq(parts: Parts, bits: int, *, zero_offset: int) -> Values:
    """(code - zero) times scale; `g_idx` says which group an input belongs to."""
    outputs, inputs = gptq_shape(parts, bits)
    packed = _integers(parts["qweight"])
    codes = _unpacked(packed.T, bits).reshape(outputs, inputs).T
    scales = floats(parts["scales"])
    groups = len(scales)
    zeros = _unpacked(_integers(parts["qzeros"]), bits).reshape(groups, outputs) + zero_offset
    if "g_idx" in parts:
        group = _integers(parts["g_idx"]).reshape(inputs)
        if group.min() < 0 or group.max() >= groups:
            raise ValueError(f"g_idx up to {group.max()} for {groups} groups")
    else:
        if inputs % groups:
            raise ValueError(f"{groups} groups for {inputs} inputs")
        group = np.repeat(np.arange(groups, dtype=np.int32), inputs // groups)
    return _grouped(codes, zeros, scales, group)


def packed_shape(parts: Parts, bits: int) -> tuple[int, int]:
    """Outputs and inputs of a layer of packed integers, which are stored as such."""
    stored = _integers(parts["weight_shape"]).reshape(-1)
    outputs, words = matrix_shape(parts["weight_packed"])
    if (
        len(stored) != 2
        or int(stored[0]) != outputs
        or not 0 < int(stored[1]) <= words * 32 // bits
    ):
        raise KeyError("weight_shape")
    return outputs, int(stored[1])


def packed(parts: Parts, bits: int) -> Values:
    """Signed codes, stored with an offset, times a scale for each group of inputs."""
    outputs, inputs = packed_shape(parts, bits)
    codes = _unpacked(_integers(parts["weight_packed"]), bits).reshape(outputs, -1)[:, :inputs]
    signed = (codes - (1 << (bits - 1))).astype(np.float32)
    scale = floats(parts["weight_scale"]).reshape(outputs, -1)
    if "weight_g_idx" in parts:
        group = _integers(parts["weight_g_idx"]).reshape(inputs)
        if group.min() < 0 or group.max() >= scale.shape[1]:
            raise ValueError(f"weight_g_idx up to {group.max()} for {scale.shape[1]} groups")
        return signed * scale[:, group]
    if inputs % scale.shape[1]:
        raise ValueError(f"{scale.shape[1]} scales for {inputs} inputs")
    return signed * np.repeat(scale, inputs // scale.shape[1], axis=1)


def _grouped(codes: Integers, zeros: Integers, scales: Values, group: Integers) -> Values:
    """Outputs by inputs from codes that are inputs by outputs."""
    if zeros.shape != scales.shape:
        raise ValueError(f"zeros of shape {zeros.shape}, scales of shape {scales.shape}")
    values = (codes - zeros[group]).astype(np.float32) * scales[group]
    return np.ascontiguousarray(values.T)


def _unpacked(words: Integers, bits: int, order: tuple[int, ...] | None = None) -> Integers:
    """The codes of 32-bit words, the lowest bits first, or in another order."""
    count = 32 // bits
    places = np.arange(count) if order is None else np.array(order)
    shifts = (bits * places).astype(np.uint32)
    unsigned = np.ascontiguousarray(words).view(np.uint32)
    codes = (unsigned[..., None] >> shifts) & np.uint32((1 << bits) - 1)
    return codes.astype(np.int32)


def matrix_shape(tensor: Tensor) -> tuple[int, int]:
    """Rows and columns as stored."""
    if len(tensor.shape) != 2:
        raise KeyError(f"{tensor.name.rpartition('.')[2]} (a matrix)")
    return tensor.shape[0], tensor.shape[1]


def _integers(tensor: Tensor) -> Integers:
    kinds = {"i32": "<i4", "i64": "<i8"}
    if tensor.format not in kinds:
        raise ValueError(f"{tensor.name} in {tensor.format}, expected i32")
    integers = np.frombuffer(tensor.bytes, kinds[tensor.format]).reshape(tensor.shape)
    return integers.astype(np.int32)


def floats(tensor: Tensor) -> Values:
    """Values of dense tensors, of 8-bit floats and of signed bytes."""
    if tensor.format == "f8_e4m3":
        codes = np.frombuffer(tensor.bytes, np.uint8).reshape(tensor.shape)
        return _e4m3_table()[codes]
    if tensor.format == "i8":
        stored = np.frombuffer(tensor.bytes, np.int8).reshape(tensor.shape)
        return stored.astype(np.float32)
    return tensor.to_float32()


def _e4m3_table() -> Values:
    """The values of all 8-bit floats with 4 exponent bits: no infinities, one NaN of each sign."""
    codes = np.arange(256)
    exponent, fraction = (codes >> 3) & 15, codes & 7
    normal = np.ldexp(1 + fraction / 8, exponent - 7)
    values = np.where(exponent == 0, np.ldexp(fraction / 8, -6), normal)
    values = np.where((codes & 127) == 127, np.nan, values)
    return np.where(codes >> 7, -values, values).astype(np.float32)
