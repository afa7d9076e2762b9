"""Perplexity and KL divergence of quantized weights, against direct sums."""

import json
import math

import numpy as np
import pytest

from assay.cli import perplexity as perplexity_command
from assay.cli.app import run
from assay.engine import Engine
from assay.engine.core.perplexity import DECODE_BATCH, compare_formats
from assay.engine.loading import open_model
from assay.errors import InputError

TOKENS = [(7 * position) % 250 for position in range(41)]


def probabilities(logits):
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    return np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)


def test_figures_match_their_definitions():
    files = open_model("synthetic")
    exact, rounded = compare_formats(files, "cpu", TOKENS, ["f32", "q8_0"], window=20)
    # Windows of 20, 20 and 1: the last one has no token to predict.
    windows = [TOKENS[:20], TOKENS[20:40]]
    negative_log_likelihood, divergence, agreements = 0.0, 0.0, 0
    with (
        Engine.load(files, weight_format="f32") as one,
        Engine.load(files, weight_format="q8_0") as other,
    ):
        for window in windows:
            first, second = (
                probabilities(engine.logits([256, *window]))[1:-1] for engine in (one, other)
            )
            for row, token in enumerate(window[1:]):
                negative_log_likelihood -= math.log(second[row, token])
                divergence += float(np.sum(first[row] * np.log(first[row] / second[row])))
                agreements += int(first[row].argmax() == second[row].argmax())
    assert (exact.tokens, rounded.tokens) == (38, 38)
    assert (exact.divergence, exact.agreement) == (0.0, 1.0)
    assert rounded.perplexity == pytest.approx(math.exp(negative_log_likelihood / 38), rel=1e-6)
    assert rounded.divergence == pytest.approx(divergence / 38, rel=1e-4)
    assert rounded.agreement == agreements / 38
    assert 0 < rounded.divergence < 0.01
    assert rounded.weight_bytes < exact.weight_bytes / 3
    assert exact.notes == rounded.notes == ()


def test_progress_counts_tokens():
    seen = []
    compare_formats(
        open_model("synthetic"), "cpu", TOKENS, ["f32"], window=20, progress=seen.append
    )
    assert seen == [f"read {first} of 41 tokens" for first in (0, 20)]


def test_random_weights_have_a_perplexity_near_the_vocabulary_size():
    (exact,) = compare_formats(open_model("synthetic"), "cpu", TOKENS, ["f32"], window=41)
    assert 100 < exact.perplexity < 1000


@pytest.mark.parametrize(
    ("tokens", "formats", "window", "message"),
    [
        ([1], ["f32"], 8, "text: expected at least 2 tokens, got 1"),
        ([1, 2], [], 8, "formats: expected at least one"),
        ([1, 2], ["f32"], 1, "window: expected at least 2"),
        ([1, 2], ["f99"], 8, "weight_format: expected one of"),
    ],
)
def test_invalid_arguments_are_refused(tokens, formats, window, message):
    with pytest.raises(InputError, match=message):
        compare_formats(open_model("synthetic"), "cpu", tokens, formats, window=window)


def test_quantized_weights_keep_perplexity_and_agreement(smollm2, root, capsys):
    text = root / "tests" / "data" / "public_domain.txt"
    options = ("--formats", "f32,file,int8", "--tokens", "120", "--window", "60", "--json")
    assert run(["perplexity", str(smollm2), "--text", str(text), *options]) == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["model", "synthetic", "text", "window", "batch", "formats"]
    exact, file, int8 = data["formats"]
    assert list(exact) == [
        "weight_format", "kv_format", "weight_bytes", "perplexity", "divergence", "agreement", "tokens", "notes",
    ]  # fmt: skip
    assert exact["tokens"] == 118
    # A model of English predicts English.
    assert exact["perplexity"] < 60
    for one in (file, int8):
        assert one["perplexity"] == pytest.approx(exact["perplexity"], rel=0.03)
        assert one["divergence"] < 0.02
        assert one["agreement"] > 0.9


def test_divergence_is_that_of_decoding(smollm2, root):
    """The oracle: the same tokens fed one by one, as a request alone decodes them."""
    files = open_model(str(smollm2))
    text = (root / "tests" / "data" / "public_domain.txt").read_text()
    tokens = files.tokenizer.encode(text, add_special=False)[:65]
    _, file = compare_formats(files, "cpu", tokens, ["f32", "file"], window=65)
    _, decoded = compare_formats(files, "cpu", tokens, ["f32", "file"], window=65, batch=1)
    assert file.divergence == pytest.approx(decoded.divergence, rel=0.25)


def test_a_step_is_what_an_engine_decodes_unless_told():
    assert (
        perplexity_command.DECODE_BATCH
        == DECODE_BATCH
        == Engine.load("synthetic").settings.max_batch
    )


@pytest.mark.slow
def test_a_kv_cache_of_8_bits_keeps_predictions(smollm2, root):
    """Bounds of some three times what was measured (docs/concepts/kv-cache-formats.md)."""
    files = open_model(str(smollm2))
    text = (root / "tests" / "data" / "public_domain.txt").read_text()
    tokens = files.tokenizer.encode(text, add_special=False)[:256]
    exact, int8, fp8 = compare_formats(files, "cpu", tokens, ["f32/f32", "f32/int8", "f32/fp8"])
    assert exact.divergence == 0
    assert 0 < int8.divergence < 2.5e-3 < fp8.divergence < 2e-2


def test_unreadable_text_is_one_error(tmp_path, capsys):
    broken = tmp_path / "text"
    broken.write_bytes(b"\xff\xfe\xff")
    for path, message in ((broken, "expected UTF-8"), (tmp_path / "none", "No such file")):
        assert run(["perplexity", "synthetic", "--text", str(path)]) == 2
        assert message in capsys.readouterr().err
