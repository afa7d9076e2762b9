"""Whisper on random weights, against CTranslate2: states, texts of both searches, alignment."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from whisper_folders import features, write_ctranslate2, write_ggml

from assay.errors import InputError
from assay.speech.whisper.decoder import Encoded
from assay.speech.whisper.loading import WhisperModel, open_files
from assay.speech.whisper.search import Search, SearchOptions
from assay.speech.whisper.segments import Piece
from assay.speech.whisper.token_rules import TokenRules
from assay.speech.whisper.word_times import _attention, median_filter, warped_path, with_words


@pytest.fixture(scope="module")
def oracle(root: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((root / "tests/data/whisper_oracle.json").read_text())
    return data


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    return WhisperModel(open_files(write_ctranslate2(tmp_path_factory.mktemp("whisper"))))


@pytest.fixture(scope="module")
def encoded(model: WhisperModel) -> Encoded:
    return model.decoder.encoded(model.encoder.forward(features()))


def test_states_are_those_of_ctranslate2(model: WhisperModel, oracle: dict[str, Any]) -> None:
    states = model.encoder.forward(features()).to_numpy()
    wanted = oracle["states"]
    assert list(states.shape) == wanted["shape"]
    np.testing.assert_allclose(states[0, :8], wanted["first"], atol=2e-5)
    np.testing.assert_allclose(states[-1, -8:], wanted["last"], atol=2e-5)
    assert (states.astype(np.float64) ** 2).mean() == pytest.approx(
        wanted["mean_of_squares"], rel=1e-6
    )


@pytest.mark.parametrize("beam_size", [1, 5])
@pytest.mark.parametrize("name", ["plain", "context", "no_timestamps"])
def test_texts_are_those_of_ctranslate2(
    model: WhisperModel, encoded: Encoded, oracle: dict[str, Any], name: str, beam_size: int
) -> None:
    wanted = oracle["texts"][f"{name}/{beam_size}"]
    rules = TokenRules(
        model.vocabulary, timestamps=name != "no_timestamps", suppress=[1, 2], latest_start=1.0
    )
    search = Search(model.decoder, model.vocabulary, SearchOptions(beam_size=beam_size))
    result = search.run(encoded, wanted["prompt"], rules, 0.0)
    assert list(result.best.tokens) == wanted["tokens"]
    assert result.best.score(1.0) == pytest.approx(wanted["score"], abs=1e-5)
    assert result.no_speech == pytest.approx(wanted["no_speech"], rel=1e-3)


def test_the_path_through_the_attention_is_that_of_ctranslate2(
    model: WhisperModel, encoded: Encoded, oracle: dict[str, Any]
) -> None:
    wanted = oracle["alignment"]
    vocabulary, tokens = model.vocabulary, wanted["tokens"]
    start, end = vocabulary.transcript_start, vocabulary.transcript_end
    attention, probabilities = _attention(
        model, encoded, [start, vocabulary.no_timestamps, *tokens, end], 100
    )
    rows, columns = warped_path(-attention[1 : len(tokens) + 2])
    path = np.stack([rows, columns], axis=1).tolist()
    assert path == wanted["path"]
    np.testing.assert_allclose(
        probabilities[1 : len(tokens) + 1], wanted["probabilities"], rtol=1e-3
    )


def test_a_ggml_file_has_the_same_weights(model: WhisperModel, tmp_path: Path) -> None:
    files = open_files(write_ggml(tmp_path / "ggml.bin"))
    assert files.dimensions == model.files.dimensions
    # The file has no bias of keys: only the values of those of this model differ.
    for name, read in files.stored.items():
        if not name.endswith(("qkv.bias", "key.bias")):
            np.testing.assert_array_equal(read(), model.files.tensor(name), err_msg=name)


def test_a_folder_of_int8_has_nearly_the_same_weights(model: WhisperModel, tmp_path: Path) -> None:
    rounded = open_files(write_ctranslate2(tmp_path, int8=True))
    assert set(rounded.stored) == set(model.files.stored)
    for name in rounded.stored:
        expected = model.files.tensor(name).astype(np.float32)
        # Half a step of the row's scale.
        most = np.abs(expected).max() / 254 if name.endswith("weight") else 0.0
        assert np.abs(rounded.tensor(name) - expected).max() <= most * 1.01, name


def test_int8_is_close_and_its_texts_are_those_of_the_weights_as_stored(
    model: WhisperModel, oracle: dict[str, Any]
) -> None:
    rounded = WhisperModel(model.files, compute_type="int8")
    states = [each.encoder.forward(features()) for each in (model, rounded)]
    exact, got = (each.to_numpy() for each in states)
    # Codes of 8 bits have a relative error of about 1/254 each; layers add theirs.
    assert 1e-5 < np.abs(got - exact).max() < 0.05 * np.abs(exact).max()
    wanted = oracle["texts"]["plain/5"]
    rules = TokenRules(model.vocabulary, timestamps=True, suppress=[1, 2], latest_start=1.0)
    texts = [
        Search(each.decoder, model.vocabulary, SearchOptions(beam_size=5))
        .run(each.decoder.encoded(heard), wanted["prompt"], rules, 0.0)
        .best
        for each, heard in zip((model, rounded), states, strict=True)
    ]
    assert texts[0].tokens[:1] == texts[1].tokens[:1]
    assert texts[1].average == pytest.approx(texts[0].average, abs=0.1)
    with pytest.raises(InputError, match="compute_type: expected default or int8, got int4"):
        WhisperModel(model.files, compute_type="int4")


def test_sampling_is_repeatable_and_obeys_the_rules(model: WhisperModel, encoded: Encoded) -> None:
    rules = TokenRules(model.vocabulary, timestamps=True, suppress=[24_673], latest_start=1.0)
    texts = [
        Search(model.decoder, model.vocabulary, SearchOptions(best_of=2, seed=3))
        .run(encoded, [model.vocabulary.transcript_start], rules, 0.8)
        .best.tokens
        for _ in range(2)
    ]
    assert texts[0] == texts[1]
    assert 24_673 not in texts[0]
    first = model.vocabulary.first_timestamp
    assert first <= texts[0][0] <= first + 50
    times = [token for token in texts[0] if token >= first]
    assert times == sorted(times)


def test_a_window_of_one_frame_has_no_words(model: WhisperModel, encoded: Encoded) -> None:
    pieces = [Piece(0.0, 0.01, (300, 4_000))]
    assert with_words(model, encoded, pieces, "en", 0, 1, 0.0) == pieces


def test_a_path_through_a_band_follows_it() -> None:
    cost = np.ones((4, 12), np.float32)
    for row in range(4):
        cost[row, 3 * row : 3 * row + 3] = 0.0
    rows, columns = warped_path(cost)
    assert [columns[rows == row].tolist() for row in range(4)] == [
        [0, 1, 2],
        [3, 4, 5],
        [6, 7, 8],
        [9, 10, 11],
    ]


def test_medians_reflect_at_the_ends() -> None:
    values = np.array([[5.0, 1.0, 4.0, 2.0, 3.0]], np.float32)
    assert median_filter(values, 3).tolist() == [[1.0, 4.0, 2.0, 3.0, 2.0]]


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a folder without model\.bin"):
        open_files(tmp_path)
    (tmp_path / "x.bin").write_bytes(b"GGUF0000")
    with pytest.raises(InputError, match="expected 0x67676d6c"):
        open_files(tmp_path / "x.bin")
    with pytest.raises(InputError, match="no such file"):
        open_files(tmp_path / "missing")
