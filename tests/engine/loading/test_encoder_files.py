"""Folders of encoders: names of tensors, WordPiece, pooling, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_folders import POOLING, write_encoder
from safetensors.numpy import load_file, save_file

from assay.engine import Encoder
from assay.engine.loading import open_model
from assay.errors import AssayError


def test_word_pieces_round_trip_with_begin_and_end(tmp_path: Path) -> None:
    tokenizer = open_model(write_encoder(tmp_path)).tokenizer
    # More tokens than the file truncates to, and no padding.
    tokens = tokenizer.encode("The CATS sat on unable cats")
    assert tokens == [2, 4, 5, 9, 6, 10, 7, 8, 5, 9, 3]
    assert tokenizer.decode(tokens) == "the cats sat on unable cats"
    assert tokenizer.encode("dog", add_special=False) == [1]
    assert tokenizer.encode("") == [2, 3]


def test_names_of_whole_models_and_of_old_files_are_read(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)
    plain = open_model(folder)
    path = folder / "model.safetensors"
    renamed = {}
    for name, values in load_file(path).items():
        if "LayerNorm" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        renamed[f"bert.{name}"] = values
    renamed["bert.embeddings.position_ids"] = np.arange(4, dtype=np.int64)
    renamed["bert.pooler.dense.weight"] = renamed["cls.predictions.bias"] = np.ones(4, np.float32)
    save_file(renamed, path)
    whole = open_model(folder)
    assert whole.tensors.keys() == plain.tensors.keys()
    assert [note for note in whole.notes if "2 tensors behind the encoder, not used" in note]


@pytest.mark.parametrize("pooling", POOLING)
def test_pooling_is_what_the_folder_says(pooling: str, tmp_path: Path) -> None:
    with Encoder.load(write_encoder(tmp_path, pooling=pooling)) as encoder:
        states = encoder.hidden_states("the cat sat")
        got = encoder.embed("the cat sat")
        assert encoder.describe()["pooling"] == pooling
    wanted = {
        "mean": states.mean(axis=0),
        "max": states.max(axis=0),
        "cls": states[0],
        "last": states[-1],
    }
    assert np.allclose(got, wanted[pooling], atol=1e-6)
    assert not any(np.allclose(got, wanted[other]) for other in POOLING if other != pooling)


def test_a_plain_folder_is_pooled_by_the_mean_and_says_so(tmp_path: Path) -> None:
    files = open_model(write_encoder(tmp_path, pooling=None))
    assert files.config["pooling"] == "mean"
    assert [note for note in files.notes if "no modules.json: mean pooling" in note]


def test_the_limit_of_the_folder_is_kept(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)
    (folder / "sentence_bert_config.json").write_text(
        '{"max_seq_length": 5, "do_lower_case": true}'
    )
    with Encoder.load(folder) as encoder:
        assert encoder.context_limit == 5
        with pytest.raises(AssayError, match="at most 5 tokens, got 6"):
            encoder.embed("the cat sat on")


def set_modules(folder: Path, modules: Any) -> None:
    (folder / "modules.json").write_text(json.dumps(modules))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("modules.json", {"a": 1}, "a JSON list"),
        ("modules.json", [{"type": "x.Dense", "path": "2_Dense"}], "got Dense"),
        ("modules.json", [{"type": "x.Transformer", "path": ""}], "a module Pooling, got none"),
        ("modules.json", [3], r"got \?"),
        ("modules.json", [{"type": "x.Pooling", "path": "../1_Pooling"}], "folder beside it"),
        ("modules.json", [{"type": "x.Pooling", "path": 7}], "folder beside it"),
        ("modules.json", [{"type": "x.Pooling", "path": "other"}], "expected a file"),
        ("1_Pooling/config.json", {}, "one pooling of cls, mean, max, lasttoken, got none"),
        ("1_Pooling/config.json", {"pooling_mode": "weighted"}, "got weighted"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "got pooling_mode_cls_token, pooling_mode_mean_tokens",
        ),
        ("sentence_bert_config.json", {"max_seq_length": -1}, "max_seq_length"),
        ("sentence_bert_config.json", [], "a JSON object"),
        ("tokenizer.json", {}, "expected a tokenizer"),
    ],
)
def test_what_is_not_understood_is_refused(
    file: str, content: Any, message: str, tmp_path: Path
) -> None:
    folder = write_encoder(tmp_path)
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(AssayError, match=message):
        open_model(folder).tokenizer  # noqa: B018 - it is built on first use


def test_a_named_pooling_is_read(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "lasttoken"}')
    assert open_model(folder).config["pooling"] == "last"


def test_missing_and_foreign_tensors_are_named(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = "encoder.layer.1.output.dense.bias"
    save_file({one: values for one, values in tensors.items() if one != name}, path)
    with pytest.raises(AssayError, match=f'expected the tensor "{name}", got none'):
        open_model(folder)
    save_file({**tensors, "encoder.relative.weight": np.ones(4, np.float32)}, path)
    with pytest.raises(AssayError, match=r'got "encoder\.relative\.weight"'):
        open_model(folder)
