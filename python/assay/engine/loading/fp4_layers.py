"""The values of layers in 4-bit floats: NVFP4 and MXFP4, two e2m1 floats a byte with scales.

NVFP4 has a scale in e4m3 for each 16 inputs, and one in float32 for the matrix; MXFP4 has a power
of two for each 32 inputs (OCP Microscaling 1.0). compressed-tensors stores the float32 scale of
NVFP4 as a divisor, NVIDIA's ModelOpt as a factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from assay.engine.loading.dequantize_layers import Parts, floats, matrix_shape
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay.engine.loading.dequantize_layers import Values

E2M1: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The values of e2m1 floats without their sign, which is the highest bit."""

NVFP4_GROUP: Final = 16
MXFP4_GROUP: Final = 32
"""Inputs that share a scale."""

EXPONENT_BIAS: Final = 127
"""Of the scales of MXFP4."""


def e2m1_values(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """The values of bytes of two floats, the lower half first: the last axis doubles."""
    table = np.array([*E2M1, *(-value for value in E2M1)], np.float32)
    pairs = np.stack([table[codes & 15], table[codes >> 4]], axis=-1)
    return pairs.reshape(*codes.shape[:-1], 2 * codes.shape[-1])


def fp4_shape(parts: Parts, codes: str, group: int) -> tuple[int, int]:
    """Outputs and inputs of a layer, whose scales must be as many as its groups."""
    outputs, packed = matrix_shape(parts[codes])
    inputs = 2 * packed
    scales = tuple(parts["weight_scale"].shape)
    if inputs % group or scales != (outputs, inputs // group):
        raise ValueError(
            f"scales of shape {scales} for {outputs} outputs of {inputs} inputs in groups of {group}"
        )
    return outputs, inputs


def nvfp4_divided(parts: Parts) -> Values:
    """NVFP4 of compressed-tensors: e2m1 times (e4m3 scale over the matrix's divisor)."""
    divisor = _scalar(parts, "weight_global_scale")
    return _scaled(parts, "weight_packed", floats(parts["weight_scale"]) / divisor)


def nvfp4_multiplied(parts: Parts) -> Values:
    """NVFP4 of ModelOpt: e2m1 times (e4m3 scale times the matrix's factor)."""
    factor = _scalar(parts, "weight_scale_2")
    return _scaled(parts, "weight", floats(parts["weight_scale"]) * factor)


def mxfp4(parts: Parts) -> Values:
    """MXFP4: e2m1 times a power of two, whose biased exponent is stored."""
    scale = parts["weight_scale"]
    if scale.format not in ("u8", "f8_e8m0"):
        raise ValueError(f"{scale.name} in {scale.format}, expected u8")
    exponents = np.frombuffer(scale.bytes, np.uint8).reshape(scale.shape).astype(np.int32)
    factors = np.ldexp(np.float32(1), exponents - EXPONENT_BIAS).astype(np.float32)
    # The highest exponent stands for no number.
    factors[exponents == 255] = np.nan
    return _scaled(parts, "weight_packed", factors)


def _scaled(parts: Parts, name: str, scales: Values) -> Values:
    stored = parts[name]
    if stored.format != "u8":
        raise ValueError(f"{stored.name} in {stored.format}, expected u8")
    codes = np.frombuffer(stored.bytes, np.uint8).reshape(stored.shape)
    values = e2m1_values(codes)
    groups = values.reshape(*scales.shape, -1)
    return (groups * scales[..., None]).reshape(values.shape)


def _scalar(parts: Parts, name: str) -> np.float32:
    values = floats(parts[name]).reshape(-1)
    if values.size != 1:
        raise ValueError(f"{values.size} numbers in {name}, expected 1")
    return np.float32(values[0])
