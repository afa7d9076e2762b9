"""Formats without kernels: bit-exact beside the gguf package, and models that have them run."""

import gguf
import numpy as np
import pytest

from assay.engine.loading import exact_q8_0
from assay.engine.loading.dequantize import FORMATS, dequantize
from assay.errors import UnsupportedError


def random_bytes(kind: gguf.GGMLQuantizationType, blocks: int) -> np.ndarray:
    """Random blocks; a block whose values are not finite is replaced by zeros."""
    _, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.random.default_rng(kind.value).integers(0, 256, (blocks, size), np.uint8)
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(data, kind).reshape(blocks, -1)
    data[~np.isfinite(values).all(axis=1)] = 0
    return data


@pytest.mark.parametrize("name", FORMATS)
def test_values_are_those_of_the_gguf_package(name):
    kind = gguf.GGMLQuantizationType[name.upper()]
    data = random_bytes(kind, 2000)
    expected = gguf.quants.dequantize(data, kind).reshape(40, -1)
    found = dequantize(memoryview(data.reshape(-1)), name, expected.shape)
    assert found.dtype == np.float32
    assert found.tobytes() == expected.astype(np.float32).tobytes()


@pytest.mark.parametrize("name", exact_q8_0.FORMATS)
def test_blocks_as_q8_0_have_the_same_values(name):
    kind = gguf.GGMLQuantizationType[name.upper()]
    data = random_bytes(kind, 2000)
    expected = gguf.quants.dequantize(data, kind).reshape(2000, 32)
    blocks = exact_q8_0.as_q8_0(memoryview(data.reshape(-1)), name).reshape(2000, -1)
    found = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0)
    assert np.array_equal(found, expected)


def test_values_do_not_depend_on_the_chunks(monkeypatch):
    data = random_bytes(gguf.GGMLQuantizationType.Q3_K, 10).reshape(-1)
    whole = dequantize(data, "q3_k", (10, 256))
    monkeypatch.setattr("assay.engine.loading.dequantize._CHUNK_BLOCKS", 3)
    assert np.array_equal(dequantize(data, "q3_k", (10, 256)), whole)


def test_another_format_is_refused():
    with pytest.raises(UnsupportedError, match=r"expected one of q5_0.*got iq1_s"):
        dequantize(b"", "iq1_s", (0,))
