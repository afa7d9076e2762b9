"""The KV cache of 8 bits on a GPU: attention over what it stores, against NumPy."""

import numpy as np
import pytest

from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model
from assay.errors import DTypeError
from assay.runtime import Device, cuda
from kv_cache_reference import errors

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


@pytest.mark.parametrize("kv_format", ["fp8", "int8"])
@pytest.mark.parametrize("head_dim", [64, 128, 192, 256])
@pytest.mark.parametrize(
    ("lengths", "prompt"),
    [((70, 1, 200), False), ((5000, 3), False), ((70, 1, 33), True), ((300,), True)],
)
def test_attention_reads_the_rounded_keys_and_values(
    device: Device, kv_format: str, head_dim: int, lengths: tuple[int, ...], prompt: bool
) -> None:
    # Outputs are rounded to bfloat16, probabilities to 16 bits, and in prompts keys and values too.
    found = errors(device, kv_format, head_dim, lengths=lengths, prompt=prompt)
    assert found < (2e-2 if prompt and kv_format == "int8" else 1e-2)


@pytest.mark.parametrize("head_dim", [64, 128, 192, 256])
@pytest.mark.parametrize(
    ("lengths", "block_tokens"), [((70, 1, 200), 16), ((5000, 3), 32), ((16,) * 70, 16)]
)
def test_decode_attention_writes_the_new_token(
    device: Device, head_dim: int, lengths: tuple[int, ...], block_tokens: int
) -> None:
    found = errors(device, "fp8", head_dim, lengths=lengths, block_tokens=block_tokens, fused=True)
    assert found < 1e-2


def test_a_fused_write_of_int8_is_refused(device: Device) -> None:
    with pytest.raises(DTypeError, match="keys"):
        errors(device, "int8", 64, fused=True)


@pytest.mark.parametrize("heads", [(8, 8), (12, 1), (32, 8)])
def test_groups_of_heads(device: Device, heads: tuple[int, int]) -> None:
    for kv_format in ("fp8", "int8"):
        found = errors(device, kv_format, 128, heads=heads[0], kv_heads=heads[1], block_tokens=32)
        assert found < 1e-2


@pytest.mark.parametrize(("kv_format", "largest"), [("fp8", 1.5e-1), ("int8", 3e-2)])
def test_the_engine_computes_with_it(device: Device, kv_format: str, largest: float) -> None:
    files, prompt = synthetic_model(seed=3), "the quick brown fox jumps over the lazy dog " * 6
    params = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
    with (
        Engine.load(files, device, kv_format=kv_format, kv_tokens=4096) as quantized,
        Engine.load(files, device, kv_tokens=4096) as plain,
    ):
        expected, got = plain.logits(prompt), quantized.logits(prompt)
        assert np.linalg.norm(got - expected) / np.linalg.norm(expected) < largest
        assert len(quantized.generate([prompt], params)[0].token_ids) == 8
        halved = quantized.describe()["kv_bytes"] / plain.describe()["kv_bytes"]
        assert 0.5 <= halved < 0.54
