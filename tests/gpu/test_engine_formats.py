"""Formats of weights in the engine on a GPU, against the file's weights on the processor."""

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


def test_a_format_that_a_gpu_computes_on_as_another_is_not_passed_off_as_itself(
    device: Device,
) -> None:
    rows = compare_formats(synthetic_model(seed=3), device, range(40), ["f32", "bf16", "fp8"])
    assert ["f32 computed on as bf16" in row.notes for row in rows] == [True, False, False]
    assert rows[1].divergence == 0.0
    assert rows[2].divergence > 0.0


@pytest.mark.parametrize(
    ("weight_format", "largest"),
    # What the formats round away; single products are held to much less elsewhere.
    [
        ("q8_0", 3e-2),
        ("q4_0", 3e-1),
        ("q4_1", 3e-1),
        ("q6_k", 5e-2),
        ("fp8", 1.5e-1),
        ("int4", 3e-1),
    ],
)
def test_logits_are_those_of_the_processor(
    device: Device, weight_format: str, largest: float
) -> None:
    files = synthetic_model(seed=3)
    params = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
    with (
        Engine.load(files, device, weight_format=weight_format, kv_tokens=4096) as there,
        Engine.load(files, "cpu", kv_tokens=4096) as here,
    ):
        for prompt in PROMPTS:
            expected, got = here.logits(prompt), there.logits(prompt)
            error = np.linalg.norm(got - expected) / np.linalg.norm(expected)
            assert error < largest
        assert len(there.generate(PROMPTS, params)[0].token_ids) == 8
        notes = " ".join(there.describe()["notes"])
        assert ("q6_k computed on as bf16" in notes) == (weight_format == "q6_k")
