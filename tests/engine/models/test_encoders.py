"""Encoders against transformers, on synthetic weights that are equal on every machine.

`tests/data/make_encoder_fixtures.py` wrote the configurations and the expected outputs.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from assay._native import SafeTensorsFile
from assay.engine import Encoder, Engine
from assay.engine.architectures.registry import ENCODERS
from assay.engine.loading.encoder_configuration import validated_encoder
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.models import encoder_model
from assay.engine.models.weights import WeightSource
from assay.errors import InputError, UnsupportedError
from chosen_device import NAME, ON_GPU, cpu_only

FOLDER = Path(__file__).parents[2] / "data" / "encoders"
FIXTURES = sorted(folder.name for folder in FOLDER.iterdir())
RELATIVE_ERROR = 1e-5
"""Of the largest state, in float32."""


def expected(name: str) -> tuple[list[list[int]], list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Tokens of each text, hidden states, their means, and what bfloat16 costs transformers."""
    file = SafeTensorsFile(FOLDER / name / "expected.safetensors")
    stored = {tensor.name: tensor for tensor in file.tensors()}

    def read(name: str, dtype: type) -> np.ndarray:
        return np.frombuffer(memoryview(stored[name]), dtype).reshape(stored[name].shape)

    count = len(read("lengths", np.int32))
    tokens = [read(f"tokens{index}", np.int32).tolist() for index in range(count)]
    states, means = (
        [read(f"{kind}{index}", np.float32) for index in range(count)]
        for kind in ("states", "mean")
    )
    rounding = np.concatenate([read(f"bf16_errors{index}", np.float32) for index in range(count)])
    return tokens, states, means, rounding


def fixture_encoder(name: str, **settings: object) -> Encoder:
    config = json.loads((FOLDER / name / "config.json").read_text())
    files = synthetic_model(config["model_type"], config=config, complete=True)
    return Encoder.load(files, NAME, **settings)


@pytest.mark.parametrize("name", FIXTURES)
def test_states_and_means_match_transformers(name: str) -> None:
    """One by one as together: transformers computed them in one batch with padding."""
    tokens, states, means, rounding = expected(name)
    with fixture_encoder(name) as encoder:
        alone = [encoder.hidden_states(text) for text in tokens]
        together = encoder.embed_batch(tokens)
    if ON_GPU:
        pairs = zip(alone, states, strict=True)
        errors = np.concatenate(
            [
                np.linalg.norm(got - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
                for got, wanted in pairs
            ]
        )
        assert np.median(errors) < 1.5 * np.median(rounding)
        assert errors.max() < 2.5 * rounding.max()
        assert np.abs(together - np.stack(means)).max() < 0.05
        return
    largest = max(np.abs(one).max() for one in states)
    for got, wanted in zip(alone, states, strict=True):
        assert got.shape == wanted.shape
        assert np.abs(got - wanted).max() < RELATIVE_ERROR * largest
    assert np.abs(together - np.stack(means)).max() < RELATIVE_ERROR * largest


@cpu_only
def test_padded_heads_give_the_same_states() -> None:
    """A GPU computes heads of sizes that it has no kernel for as larger ones; here the CPU does."""
    tokens, states, _, _ = expected("bert")
    with fixture_encoder("bert") as encoder:
        source = WeightSource(encoder.files, encoder.device, None)
        model = encoder_model.build_encoder(source, (64,))
        assert model.notes == ("heads of 32 computed as heads of 64",)
        got = model.hidden_states([tokens[1]]).to_numpy()
    assert np.abs(got - states[1]).max() < RELATIVE_ERROR * np.abs(states[1]).max()


@cpu_only
@pytest.mark.parametrize(("weight_format", "largest"), [("f16", 2e-3), ("q8_0", 0.03)])
def test_other_weight_formats_stay_close(weight_format: str, largest: float) -> None:
    tokens, _, means, _ = expected("bert")
    with fixture_encoder("bert", weight_format=weight_format) as encoder:
        assert encoder.describe()["weight_format"] == weight_format
        got = encoder.embed_batch(tokens)
    wanted = np.stack(means)
    assert 0 < np.linalg.norm(got - wanted) / np.linalg.norm(wanted) < largest


@pytest.mark.parametrize("name", FIXTURES)
def test_every_key_that_transformers_writes_is_known(name: str) -> None:
    given = json.loads((FOLDER / name / "config.json").read_text())
    notes = validated_encoder("config.json", given["model_type"], given)[1]
    assert not [note for note in notes if "unknown" in note]


def test_every_encoder_has_a_fixture() -> None:
    configs = [json.loads((FOLDER / name / "config.json").read_text()) for name in FIXTURES]
    assert {config["model_type"] for config in configs} == set(ENCODERS)


def test_each_kind_of_model_has_its_class() -> None:
    with pytest.raises(UnsupportedError, match="expected a model that generates text") as caught:
        Engine.load(synthetic_model("bert"), NAME)
    assert "Encoder.load" in str(caught.value.hint)
    with pytest.raises(UnsupportedError, match="expected an encoder, got llama"):
        Encoder.load(synthetic_model(), NAME)
    with pytest.raises(InputError, match='knobs weight_format and threads, got "max_batch"'):
        Encoder.load(synthetic_model("bert"), NAME, max_batch=4)


def test_what_cannot_be_embedded_is_refused() -> None:
    with fixture_encoder("bert") as encoder:
        assert encoder.context_limit == 64
        for text, message in (
            ([5] * 65, "at most 64 tokens, got 65"),
            ([96], "tokens from 0 to 95, got 96"),
            ([], "at least one token"),
            (b"bytes", "got bytes"),
        ):
            with pytest.raises(InputError, match=message):
                encoder.embed(text)
        assert encoder.embed_batch([]).shape == (0, 64)
        for refused in (encoder.add_request, encoder.score):
            with pytest.raises(UnsupportedError, match="got an encoder"):
                refused([1, 2])
    with pytest.raises(InputError, match="closed"):
        encoder.embed([5])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 0}, "hidden_size as an integer"),
        ({"num_attention_heads": 3}, "multiple of num_attention_heads 3"),
        ({"layer_norm_eps": -1.0}, "layer_norm_eps as a positive number"),
        ({"hidden_act": "mish"}, "hidden_act"),
        ({"hidden_act": 3}, "hidden_act as a text"),
        ({"is_decoder": True}, "is_decoder false"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"type_vocab_size": None}, "type_vocab_size"),
    ],
)
def test_hostile_configurations_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises((InputError, UnsupportedError), match=message):
        synthetic_model("bert", config=changes)


def test_padding_token_beyond_the_positions_is_refused() -> None:
    with pytest.raises(InputError, match="pad_token_id below 513"):
        synthetic_model("roberta", config={"pad_token_id": 600})
