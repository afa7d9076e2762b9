"""The engine on a GPU: the same model gives what it gives on the processor, to bfloat16's precision."""

import numpy as np
import pytest

from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.models import ARCHITECTURES
from assay.runtime import Device, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

PROMPTS = ["A", "the quick brown fox jumps over the lazy dog " * 6, "gravity is", "x" * 100]


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
@pytest.mark.parametrize("weight_format", ["file", "int8"])
def test_logits_are_those_of_the_processor(
    device: Device, architecture: str, weight_format: str
) -> None:
    files = synthetic_model(architecture, seed=3)
    there = Engine.load(files, device, weight_format=weight_format)
    here = Engine.load(files, "cpu", weight_format=weight_format)
    for prompt in PROMPTS:
        expected, got = here.logits(prompt), there.logits(prompt)
        error = np.linalg.norm(got - expected) / np.linalg.norm(expected)
        assert error < 3e-2
    there.close()
    here.close()


def test_requests_together_are_answered_as_alone(device: Device) -> None:
    engine = Engine.load(synthetic_model(seed=5), device, deterministic=True, kv_tokens=8192)
    params = SamplingParams(max_tokens=40, temperature=0.0, ignore_eos=True)
    alone = [engine.generate([prompt], params)[0].token_ids for prompt in PROMPTS]
    together = [each.token_ids for each in engine.generate(PROMPTS, params)]
    assert together == alone
    engine.close()
