"""Weight formats in the engine on a GPU, against the file's weights on the CPU."""

import numpy as np
import pytest

from assay.engine import Engine, SamplingParams
from assay.engine.core.perplexity import compare_formats
from assay.engine.loading.synthetic import synthetic_model
from assay.runtime import Device, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

PROMPTS = ["A", "the quick brown fox jumps over the lazy dog " * 6]


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def test_substituted_weight_format_is_noted(device: Device) -> None:
    rows = compare_formats(synthetic_model(seed=3), device, range(40), ["f32", "bf16", "fp8"])
    assert ["f32 computed as bf16" in row.notes for row in rows] == [True, False, False]
    assert rows[1].divergence == 0.0
    assert rows[2].divergence > 0.0


@pytest.mark.parametrize(
    ("weight_format", "largest"),
    # Quantization error of the formats; other tests bound single GEMMs much closer.
    [
        ("q8_0", 3e-2),
        ("q4_0", 3e-1),
        ("q4_1", 3e-1),
        ("q4_k", 3e-1),
        ("q6_k", 5e-2),
        ("fp8", 1.5e-1),
        ("int4", 3e-1),
    ],
)
def test_logits_are_close_to_the_cpu(device: Device, weight_format: str, largest: float) -> None:
    files = synthetic_model(seed=3)
    params = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
    with (
        Engine.load(files, device, weight_format=weight_format, kv_tokens=4096) as on_gpu,
        Engine.load(files, "cpu", kv_tokens=4096) as on_cpu,
    ):
        for prompt in PROMPTS:
            expected, got = on_cpu.logits(prompt), on_gpu.logits(prompt)
            error = np.linalg.norm(got - expected) / np.linalg.norm(expected)
            assert error < largest
        assert len(on_gpu.generate(PROMPTS, params)[0].token_ids) == 8
        notes = " ".join(on_gpu.describe()["notes"])
        gathered = f"{weight_format} computed as bf16, as rows are gathered from it"
        assert f"{weight_format} computed as" not in notes.replace(gathered, "")
