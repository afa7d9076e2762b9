"""What formats of weights do to predictions, held against plain sums and closed forms."""

import json
import math

import numpy as np
import pytest

from assay.cli.app import run
from assay.engine import Engine
from assay.engine.core.perplexity import compare_formats
from assay.engine.loading import open_model
from assay.errors import InputError

TOKENS = [(7 * place) % 250 for place in range(41)]


def chances(logits):
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return np.exp(wide) / np.exp(wide).sum(axis=1, keepdims=True)


def test_figures_are_those_of_their_definitions():
    files = open_model("synthetic")
    exact, rounded = compare_formats(files, "cpu", TOKENS, ["f32", "q8_0"], window=20)
    # Windows of 20, 20 and 1: the last token has nothing to be predicted from.
    windows = [TOKENS[:20], TOKENS[20:40]]
    surprise, divergence, same = 0.0, 0.0, 0
    with (
        Engine.load(files, weight_format="f32") as one,
        Engine.load(files, weight_format="q8_0") as other,
    ):
        for window in windows:
            first, second = (
                chances(engine.logits([256, *window]))[1:-1] for engine in (one, other)
            )
            for place, following in enumerate(window[1:]):
                surprise -= math.log(second[place, following])
                divergence += float(np.sum(first[place] * np.log(first[place] / second[place])))
                same += int(first[place].argmax() == second[place].argmax())
    assert (exact.tokens, rounded.tokens) == (38, 38)
    assert (exact.divergence, exact.agreement) == (0.0, 1.0)
    assert rounded.perplexity == pytest.approx(math.exp(surprise / 38), rel=1e-6)
    assert rounded.divergence == pytest.approx(divergence / 38, rel=1e-4)
    assert rounded.agreement == same / 38
    assert 0 < rounded.divergence < 0.01
    assert rounded.weight_bytes < exact.weight_bytes / 3
    assert exact.notes == rounded.notes == ()


def test_a_model_that_knows_nothing_wavers_between_all_tokens():
    """Random weights of a byte vocabulary: the perplexity is near its size, not near one."""
    (exact,) = compare_formats(open_model("synthetic"), "cpu", TOKENS, ["f32"], window=41)
    assert 100 < exact.perplexity < 1000


@pytest.mark.parametrize(
    ("tokens", "formats", "window", "said"),
    [
        ([1], ["f32"], 8, "text: expected at least 2 tokens, got 1"),
        ([1, 2], [], 8, "formats: expected at least one"),
        ([1, 2], ["f32"], 1, "window: expected at least 2"),
        ([1, 2], ["f99"], 8, "weight_format: expected one of"),
    ],
)
def test_what_cannot_be_measured_is_refused(tokens, formats, window, said):
    with pytest.raises(InputError, match=said):
        compare_formats(open_model("synthetic"), "cpu", tokens, formats, window=window)


def test_quantized_weights_predict_a_text_as_the_file_does(smollm2, root, capsys):
    text = root / "tests" / "data" / "public_domain.txt"
    words = ("--formats", "f32,file,int8", "--tokens", "300", "--window", "100", "--json")
    assert run(["perplexity", str(smollm2), "--text", str(text), *words]) == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["model", "synthetic", "text", "window", "formats"]
    exact, file, int8 = data["formats"]
    assert list(exact) == [
        "weight_format", "weight_bytes", "perplexity", "divergence", "agreement", "tokens", "notes",
    ]  # fmt: skip
    assert exact["tokens"] == 297
    # A model of English predicts English.
    assert exact["perplexity"] < 60
    for one in (file, int8):
        assert one["perplexity"] == pytest.approx(exact["perplexity"], rel=0.03)
        assert one["divergence"] < 0.02
        assert one["agreement"] > 0.9


def test_a_text_that_cannot_be_read_is_one_error(tmp_path, capsys):
    broken = tmp_path / "text"
    broken.write_bytes(b"\xff\xfe\xff")
    for path, said in ((broken, "expected UTF-8"), (tmp_path / "none", "No such file")):
        assert run(["perplexity", "synthetic", "--text", str(path)]) == 2
        assert said in capsys.readouterr().err
