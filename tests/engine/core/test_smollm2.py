"""SmolLM2 against llama.cpp's greedy output, and against its own float32 computation."""

import json
from pathlib import Path

import numpy as np
import pytest

from assay.engine import Engine, SamplingParams
from chosen_device import NAME, ON_GPU

CASES = json.loads(
    (Path(__file__).parents[2] / "data" / "llama_cpp_smollm2.json").read_text(encoding="utf-8")
)["cases"]


@pytest.fixture(scope="module")
def engine(smollm2):
    with Engine.load(smollm2, NAME, kv_tokens=1024) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def exact(smollm2):
    """The same weights in float32, with activations that are not quantized."""
    settings = {"weight_format": "f32", "kv_format": "f32"}
    with Engine.load(smollm2, "cpu", kv_tokens=1024, **settings) as loaded:
        yield loaded


def greedy(count):
    return SamplingParams(max_tokens=count, temperature=0.0, ignore_eos=True)


def test_gravity(engine, exact):
    prompt = ["Gravity is the force that"]
    [answer] = engine.generate(prompt, greedy(24))
    if ON_GPU:
        # bfloat16 agrees with float32, where "particles" leads by 0.1.
        [unrounded] = exact.generate(prompt, greedy(24))
        assert answer.text == unrounded.text
        return
    assert answer.text == (
        " holds the universe together. It's a fundamental concept that underlies everything, "
        "from the smallest subatomic particles to the fabric of"
    )


def test_logits_are_close_to_float32(engine, exact):
    """Activations are quantized to int8 on CPUs and rounded to bfloat16 on GPUs."""
    case = max(CASES, key=lambda one: len(one["prompt_ids"]))
    tokens = [*case["prompt_ids"], *case["token_ids"]]
    expected, got = exact.logits(tokens), engine.logits(tokens)
    assert np.sqrt(np.mean((got - expected) ** 2)) < 0.5
    assert (got.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.8


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["prompt"][:20])
def test_greedy_tokens_match_llama_cpp_within_rounding(engine, exact, case):
    prompt, theirs = case["prompt_ids"], case["token_ids"]
    assert engine.files.tokenizer.encode(case["prompt"]) == prompt
    [answer] = engine.generate([prompt], greedy(len(theirs)))
    ours = list(answer.token_ids)
    if ours == theirs:
        return
    first = next(index for index, token in enumerate(ours) if token != theirs[index])
    # Both quantize activations to int8, each in its own way. The fixture holds llama.cpp's logits
    # of the tokens it chose, which shows how far that moves them.
    logits = exact.logits([*prompt, *theirs])[len(prompt) - 1 : -1].astype(np.float64)
    chosen = logits[np.arange(len(theirs)), theirs]
    rounding = np.sqrt(np.mean((chosen - np.array(case["logit"])) ** 2))
    assert rounding < 0.5
    gap = abs(logits[first, theirs[first]] - logits[first, ours[first]])
    assert gap < 3 * rounding, f"token {first}: {gap:.3f} apart, rounding {rounding:.3f}"
    assert case["gap"][first] < 3 * rounding
