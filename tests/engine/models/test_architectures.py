"""Every architecture against transformers, on synthetic weights that are equal on every machine.

`tests/data/make_architecture_fixtures.py` wrote the configurations and the expected outputs.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from small_models import EXACT_CACHE, bf16_errors, expected_outputs

from assay.engine import Engine, SamplingParams
from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.loading.configuration import validated
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.models import builder, registry
from chosen_device import NAME, ON_GPU, cpu_only

FOLDER = Path(__file__).parents[2] / "data" / "architectures"
FIXTURES = sorted(folder.name for folder in FOLDER.iterdir())
RELATIVE_ERROR = 1e-5
"""Of the largest logit, in float32."""


def fixture_engine(name: str, device: str = NAME, **settings: object) -> Engine:
    config = json.loads((FOLDER / name / "config.json").read_text())
    files = synthetic_model(config["model_type"], config=config, complete=True)
    return Engine.load(files, device, **settings)


@pytest.mark.parametrize("name", FIXTURES)
def test_logits_match_transformers(name: str) -> None:
    tokens, logits, _ = expected_outputs(FOLDER / name)
    with fixture_engine(name, kv_format=EXACT_CACHE) as engine:
        got = engine.logits(tokens)
    assert got.shape == logits.shape
    if ON_GPU:
        check_rounding(name, got, logits)
    else:
        assert np.abs(got - logits).max() < RELATIVE_ERROR * np.abs(logits).max()


def check_rounding(name: str, got: np.ndarray, logits: np.ndarray) -> None:
    """A GPU computes in bfloat16: about as far from float32 as transformers is in bfloat16.

    The largest error of a mixture of experts is a token that a rounded router sends elsewhere.
    """
    errors = np.linalg.norm(got - logits, axis=1) / np.linalg.norm(logits, axis=1)
    rounding = bf16_errors(FOLDER / name)
    assert np.median(errors) < 1.5 * np.median(rounding)
    assert errors.max() < 2.5 * rounding.max()


@cpu_only
@pytest.mark.parametrize("name", FIXTURES)
def test_greedy_tokens_match_transformers(name: str) -> None:
    """Decode steps over the cache give what transformers computes without one."""
    tokens, _, greedy = expected_outputs(FOLDER / name)
    params = SamplingParams(max_tokens=len(greedy), temperature=0.0, ignore_eos=True)
    with fixture_engine(name, kv_format=EXACT_CACHE, token_budget=16) as engine:
        [answer] = engine.generate([tokens], params)
    assert list(answer.token_ids) == greedy


@cpu_only
@pytest.mark.parametrize("name", ["qwen3_moe", "mixtral", "gemma3"])
@pytest.mark.parametrize(("weight_format", "largest"), [("f16", 2e-3), ("q8_0", 0.06)])
def test_other_weight_formats_stay_close(name: str, weight_format: str, largest: float) -> None:
    tokens, logits, _ = expected_outputs(FOLDER / name)
    with fixture_engine(name, weight_format=weight_format, kv_format=EXACT_CACHE) as engine:
        got = engine.logits(tokens)
    # A rounded router may send a token to another expert: the median is what counts.
    error = np.linalg.norm(got - logits, axis=1) / np.linalg.norm(logits, axis=1)
    assert 0 < np.median(error) < largest


@cpu_only
@pytest.mark.parametrize("name", ["gemma3", "olmo2", "glm4", "starcoder2"])
def test_padded_heads_give_the_same_logits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU computes heads of sizes that it has no kernel for as larger ones; here the CPU does."""
    monkeypatch.setattr(registry, "build", lambda source, **_: builder.build(source, (96, 128)))
    tokens, logits, _ = expected_outputs(FOLDER / name)
    with fixture_engine(name, kv_format=EXACT_CACHE, weight_format="f32") as engine:
        assert engine.model.shape.head_dim == 96
        got = engine.logits(tokens)
    assert np.abs(got - logits).max() < RELATIVE_ERROR * np.abs(logits).max()


@pytest.mark.parametrize("name", FIXTURES)
def test_every_key_that_transformers_writes_is_known(name: str) -> None:
    given = json.loads((FOLDER / name / "config.json").read_text())
    notes = validated("config.json", given["model_type"], given)[1]
    assert not [note for note in notes if "unknown" in note]


def test_every_architecture_has_a_fixture() -> None:
    covered = {
        json.loads((FOLDER / name / "config.json").read_text())["model_type"] for name in FIXTURES
    }
    # The first architectures have stored weights instead (test_models.py).
    assert covered | {"llama", "qwen3", "gpt2"} == set(ARCHITECTURES)
