"""The command `assay embed`."""

import json
from pathlib import Path

import numpy as np
import pytest
from encoder_folders import write_encoder

from assay.cli.app import run
from assay.engine import Encoder, Engine


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["embed", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_vectors_of_an_encoder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = str(write_encoder(tmp_path))
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat\n\nsat on\n")
    code, out, _ = answer(capsys, folder, "cats", "--file", str(lines), "--json")
    data = json.loads(out)
    assert code == 0
    rows = data.pop("embeddings")
    assert [row["text"] for row in rows] == ["cats", "the cat", "sat on"]
    got = np.array([row["embedding"] for row in rows])
    with Encoder.load(folder) as encoder:
        expected = encoder.embed_batch([row["text"] for row in rows])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(got, expected, atol=1e-6)
    assert np.allclose([row["cosine_to_first"] for row in rows], expected @ expected[0], atol=1e-6)
    data.pop("notes", None)
    assert data == {
        "model": tmp_path.name,
        "synthetic": False,
        "pooling": "mean",
        "dimensions": 64,
        "normalized": True,
    }
    code, out, _ = answer(capsys, folder, "cats", "the cat")
    assert "cosine to the first" in out
    assert "2 vectors of 64 numbers, mean pooling" in out


def test_a_decoder_gives_its_last_token(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = answer(capsys, "synthetic", "Once", "--no-normalize", "--json")
    data = json.loads(out)
    with Engine.load("synthetic") as engine:
        expected = engine.embed("Once")
    assert data["pooling"] == "last"
    assert data["synthetic"] is True
    assert np.allclose(data["embeddings"][0]["embedding"], expected, atol=1e-6)


def test_no_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = answer(capsys, "synthetic")
    assert code == 2
    assert "TEXT: expected at least one text, got none" in err
