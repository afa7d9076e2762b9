"""The engine on a GPU: the same model gives what it gives on the processor, to bfloat16's precision."""

from typing import Any

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


Answer = tuple[tuple[int, ...], str, str]


def _answers(device: Device, architecture: str, **settings: Any) -> list[Answer]:
    """Requests that end at lengths, texts and tokens, answered in deterministic mode."""
    params = [
        SamplingParams(
            max_tokens=12 + 9 * index,
            temperature=0.8 if index % 2 else 0.0,
            seed=index,
            ignore_eos=index == 0,
            stop=("e",) if index == 3 else (),
        )
        for index in range(len(PROMPTS))
    ]
    files = synthetic_model(architecture, seed=7)
    told = {"kv_tokens": 4096, **settings}
    with Engine.load(files, device, deterministic=True, **told) as engine:
        done = engine.generate([prompt[:60] for prompt in PROMPTS], params)
        assert engine.statistics()["used"] == 0
        assert engine.describe()["degradations"] == []
    return [(tuple(one.token_ids), one.text, one.finish_reason) for one in done]


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gpt2"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"overlap": "off"},
        {"graph_buckets": 0},
        {"graph_buckets": 0, "overlap": "off"},
        {"token_budget": 16, "max_batch": 3},
        {"kv_tokens": 256, "max_batch": 2},
    ],
    ids=["again", "no overlap", "no graphs", "neither", "small steps", "little memory"],
)
def test_answers_do_not_depend_on_how_steps_are_made_up_and_launched(
    device: Device, architecture: str, settings: dict[str, Any]
) -> None:
    assert _answers(device, architecture, **settings) == _answers(device, architecture)


def test_a_step_is_queued_while_the_last_one_runs(device: Device) -> None:
    with Engine.load(synthetic_model(seed=2), device, kv_tokens=4096) as engine:
        engine.add_request("gravity", SamplingParams(max_tokens=30, ignore_eos=True))
        for _ in range(4):
            engine.step()
        before = device.pool_statistics()["allocations"]
        device.take_records()
        for _ in range(8):
            engine.step()
            assert engine._parts.flight is not None
        kinds = [(one.kind, one.name) for one in device.take_records().records]
        # One upload, one graph and one read-back for each step, and no memory taken.
        for kind in ("copy to device", "graph", "copy to host"):
            assert 7 <= sum(each == kind for each, _ in kinds) <= 9, kinds
        assert device.pool_statistics()["allocations"] == before


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("weight_format", ["file", "fp8"])
def test_decoded_tokens_are_the_best_of_another_pass(
    device: Device, count: int, weight_format: str
) -> None:
    """A step meets keys and values of the token before, though its kernels begin early."""
    files = synthetic_model(seed=11)
    params = SamplingParams(max_tokens=120, temperature=0.0, ignore_eos=True)
    with Engine.load(files, device, kv_tokens=4096, weight_format=weight_format) as engine:
        prompts = [files.tokenizer.encode(prompt[:50]) for prompt in PROMPTS[:count]]
        for prompt, answer in zip(prompts, engine.generate(prompts, params), strict=True):
            tokens = list(answer.token_ids)
            logits = engine.logits([*prompt, *tokens])[len(prompt) - 1 : -1]
            chosen = logits[np.arange(len(tokens)), tokens]
            assert float(np.max(logits.max(axis=1) - chosen)) < 0.1
