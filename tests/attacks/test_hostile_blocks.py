"""Blocks of quantized weights with any bytes: they are numbers, or a typed error; nothing crashes."""

import numpy as np
import pytest

from assay import ops, xp
from assay.engine.loading import dequantize
from assay.errors import AssayError
from assay.ops.formats import BLOCKS
from assay.runtime import device

SUPPORTED = [name for name in BLOCKS if name in device("cpu").capabilities.weight_formats]


@pytest.mark.parametrize("format", SUPPORTED)
def test_any_bytes_are_weights(format: str) -> None:
    values, size = BLOCKS[format]
    inputs = max(values, 64)
    rows = np.random.default_rng(5).integers(0, 256, (18, inputs // values * size), np.uint8)
    rows[0], rows[1] = 0xFF, 0  # scales that are NaN, and zero
    weights = ops.pack(rows, format, (18, inputs))
    x = xp.asarray(np.ones((3, inputs), np.float32), copy=True)
    out = ops.linear(x, weights).to_numpy()
    assert out.shape == (3, 18)
    assert np.isnan(out[:, 0]).all()
    assert (out[:, 1] == 0).all()


@pytest.mark.parametrize("format", list(BLOCKS))
def test_wrong_sizes_are_typed_errors(format: str) -> None:
    values, size = BLOCKS[format]
    block = np.zeros(size, np.uint8)
    for data, shape in (
        (block[:-1], (1, values)),
        (np.concatenate([block, block]), (1, values)),
        (block, (1, values - 1)),
        (block, (1, 0)),
        (block, (2**40, values)),
        (block, (-1, values)),
    ):
        with pytest.raises(AssayError):
            ops.pack(data, format, shape)


@pytest.mark.parametrize("format", list(dequantize.FORMATS))
def test_formats_without_kernels_dequantize_any_bytes(format: str) -> None:
    values, size = BLOCKS[format]
    blocks = np.random.default_rng(6).integers(0, 256, (9, size), np.uint8)
    blocks[0] = 0xFF
    assert dequantize.dequantize(blocks, format, (9, values)).shape == (9, values)
