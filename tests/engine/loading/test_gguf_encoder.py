"""GGUF files of BERT, written as llama.cpp's converter writes them."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from encoder_folders import WORDS, write_encoder

from assay.engine import Encoder
from assay.engine.loading import open_model
from assay.errors import AssayError

TEXT = "The unable CATS sat on the cat"


def write(path: Path, folder: Path, changes: dict[str, Any] | None = None) -> None:
    """The model of a folder as a file: words marked by a phantom space, the pooler left out."""
    source = open_model(folder)
    config = source.config
    writer = gguf.GGUFWriter(path, "bert")
    found = {
        "bert.block_count": config["num_hidden_layers"],
        "bert.context_length": config["max_position_embeddings"],
        "bert.embedding_length": config["hidden_size"],
        "bert.feed_forward_length": config["intermediate_size"],
        "bert.attention.head_count": config["num_attention_heads"],
        "bert.attention.layer_norm_epsilon": config["layer_norm_eps"],
        "bert.attention.causal": False,
        "bert.pooling_type": int(gguf.PoolingType.CLS),
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.pre": "jina-v2-en",
        "tokenizer.ggml.token_type_count": config["type_vocab_size"],
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
    }
    add = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
    }
    for key, value in (found | (changes or {})).items():
        if value is not None:
            add[type(value)](key, value)
    types = [3] * 4 + [1] * (len(WORDS) - 4)
    words = [
        word if type_ == 3 else word[2:] if word.startswith("##") else "\u2581" + word
        for word, type_ in zip(WORDS, types, strict=True)
    ]
    writer.add_token_list(words)
    writer.add_token_types(types)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, 8)
    for name, tensor in source.tensors.items():
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        writer.add_tensor(stored, tensor.to_float32())
    writer.add_tensor("cls.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_embeddings_are_those_of_the_folder(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "folder", pooling="cls")
    path = tmp_path / "model.gguf"
    write(path, folder)
    with Encoder.load(folder) as encoder:
        expected, tokens = encoder.embed(TEXT), encoder.files.tokenizer.encode(TEXT)
    with Encoder.load(path) as encoder:
        assert encoder.files.tokenizer.encode(TEXT) == tokens
        assert encoder.files.tokenizer.decode(tokens) == TEXT.lower()
        assert encoder.describe()["pooling"] == "cls"
        assert [note for note in encoder.files.notes if "1 tensors behind the encoder" in note]
        # The epsilon of 1e-12 is a float32 in the file.
        assert np.allclose(encoder.embed(TEXT), expected, atol=1e-6)


def test_newer_files_begin_a_text_by_its_bos_token(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    changes = {"tokenizer.ggml.cls_token_id": None, "tokenizer.ggml.bos_token_id": 2}
    write(path, write_encoder(tmp_path / "folder"), changes)
    assert open_model(path).tokenizer.encode("cat") == [2, 5, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer.ggml.model": "t5"}, '"bert" .WordPiece., got "t5"'),
        ({"bert.attention.causal": None}, "causal false"),
        ({"bert.pooling_type": 4}, "pooling_type 1 .mean., 2 .cls. or 3 .last., got 4"),
        ({"bert.attention.head_count": 0}, "num_attention_heads"),
        ({"bert.block_count": 2**31 - 1}, "2147483647 layers"),
        ({"bert.embedding_length": 32}, "shape"),
        ({"bert.rope.scaling.alpha": 2.0}, "rope.scaling.alpha"),
        ({"tokenizer.ggml.cls_token_id": 99}, "cls_token_id below 11, got 99"),
        ({"tokenizer.ggml.unknown_token_id": None}, "unknown_token_id below 11, got 100"),
        ({"tokenizer.ggml.token_type_count": 7}, "token_type_embeddings"),
    ],
)
def test_hostile_files_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "folder")
    path = tmp_path / "model.gguf"
    write(path, folder, changes)
    with pytest.raises(AssayError, match=message):
        open_model(path).tokenizer  # noqa: B018 - it is built on first use
