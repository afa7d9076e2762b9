"""Tokenizers rebuilt from GGUF metadata, against llama.cpp's tokens of the same texts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import example, given, strategies as st
from make_token_fixtures import write_pieces, write_vocabulary

from assay._native import GgufFile
from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.engine.loading.gguf_pre_tokenizers import PRE_TOKENIZERS
from assay.engine.loading.gguf_tokenizer import tokenizer_from_gguf
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.loading.tokenizer import Tokenizer, byte_alphabet
from assay.errors import AssayError, InputError


@pytest.fixture(scope="module")
def llama_cpp(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "tests/data/llama_cpp_tokens.json").read_text())
    return found


def read(path: Path) -> Tokenizer:
    return tokenizer_from_gguf(GgufMetadata(path.name, GgufFile(path)))


@pytest.fixture(scope="module")
def vocabulary(smollm2: Path) -> tuple[list[str], list[int], list[str]]:
    file = GgufFile(smollm2)
    tokens, types, merges = (
        file.value(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type", "merges")
    )
    return tokens, types, merges  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["smollm", "gpt-2", "llama-bpe", "qwen2", "tekken", "default"])
def test_every_pre_tokenizer_matches_llama_cpp(
    name: str,
    llama_cpp: dict[str, Any],
    vocabulary: tuple[list[str], list[int], list[str]],
    tmp_path: Path,
) -> None:
    tokens, types, merges = vocabulary
    path = tmp_path / "vocabulary.gguf"
    settings = {"model": "gpt2", "pre": name, "bos_token_id": 1, "eos_token_id": 2}
    write_vocabulary(path, settings, tokens, types, merges=merges)
    tokenizer = read(path)
    cases = llama_cpp["splittings"][name]
    assert {one["text"]: tokenizer.encode(one["text"]) for one in cases} == {
        one["text"]: one["tokens"] for one in cases
    }
    # Batches give the tokens of single texts.
    texts = [one["text"] for one in cases]
    assert tokenizer.encode_batch(texts) == [one["tokens"] for one in cases]


@pytest.fixture(scope="module")
def full(smollm2: Path) -> tuple[GgufMetadata, Tokenizer]:
    metadata = GgufMetadata(smollm2.name, GgufFile(smollm2))
    tokenizer = tokenizer_from_gguf(metadata)
    tokenizer.build()
    return metadata, tokenizer


def test_partial_vocabulary_encodes_as_the_full_one(
    llama_cpp: dict[str, Any], smollm2: Path, full: tuple[GgufMetadata, Tokenizer]
) -> None:
    """Every text is the first one of a new tokenizer, which uses a partial vocabulary."""
    for one in llama_cpp["splittings"]["smollm"]:
        assert read(smollm2).encode(one["text"]) == one["tokens"], one["text"]
    metadata, tokenizer = full
    chat = "<|im_start|>user\nWho's there?<|im_end|>\n<|im_start|>assistant\n"
    for texts in (["Gravity is the force that"], [chat], ["one", "two three", ""], ["a " * 2000]):
        assert tokenizer_from_gguf(metadata).encode_batch(texts) == tokenizer.encode_batch(texts)


@given(text=st.text(max_size=60))
@example(text="\x9f\U000a5000")  # a byte that is not a token, between two that merge
def test_partial_vocabulary_encodes_any_text_as_the_full_one(
    full: tuple[GgufMetadata, Tokenizer], text: str
) -> None:
    metadata, tokenizer = full
    assert tokenizer_from_gguf(metadata).encode(text) == tokenizer.encode(text)


def test_stop_tokens_match_llama_cpp(llama_cpp: dict[str, Any], smollm2: Path) -> None:
    assert sorted(read(smollm2).stop_ids) == llama_cpp["stops"]


@pytest.fixture
def pieces(llama_cpp: dict[str, Any], tmp_path: Path) -> Tokenizer:
    path = tmp_path / "pieces.gguf"
    write_pieces(path, llama_cpp["pieces"])
    return read(path)


def test_sentencepiece_matches_llama_cpp(llama_cpp: dict[str, Any], pieces: Tokenizer) -> None:
    for case in llama_cpp["piece_tokens"]:
        assert pieces.encode(case["text"]) == case["tokens"], case["text"]


@pytest.mark.parametrize("text", ["the cat", "", " the", "th\u00e9 \u732b\n", "\U0001f600 sat"])
def test_sentencepiece_text_round_trips(pieces: Tokenizer, text: str) -> None:
    tokens = pieces.encode(text)
    assert tokens[0] == pieces.bos_id
    assert pieces.decode(tokens) == text
    # An output keeps the space before its first word.
    detokenizer = pieces.detokenizer()
    decoded = "".join(detokenizer.push(token) for token in tokens) + detokenizer.finish()
    assert decoded in (f" {text}", text)
    assert "\ufffd" not in decoded


@given(st.binary(max_size=40))
def test_detokenizer_never_splits_a_character(data: bytes) -> None:
    tokenizer = synthetic_model().tokenizer
    detokenizer = tokenizer.detokenizer()
    emitted = [detokenizer.push(byte) for byte in data]
    full = "".join(emitted) + detokenizer.finish()
    assert full == tokenizer.decode(data) == data.decode("utf-8", "replace")
    for number in range(len(data) + 1):
        # Emitted text is never revised.
        assert full.startswith("".join(emitted[:number]))


def test_byte_alphabet_is_gpt2s() -> None:
    from tokenizers import pre_tokenizers

    alphabet = byte_alphabet()
    assert sorted(alphabet) == sorted(pre_tokenizers.ByteLevel.alphabet())
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("\n \u00e9")
    assert "".join(part for part, _ in cut) == "".join(
        alphabet[byte] for byte in "\n \u00e9".encode()
    )


def test_special_tokens_are_not_decoded() -> None:
    tokenizer = synthetic_model().tokenizer
    tokens = tokenizer.encode("a<|end|>b")
    assert tokens == [256, ord("a"), 257, ord("b")]
    assert tokenizer.decode(tokens) == "ab"
    assert tokenizer.decode(tokens, skip_special=False) == "<|begin|>a<|end|>b"


BYTES = byte_alphabet()
SOUND: dict[str, Any] = {"model": "gpt2", "pre": "gpt-2", "eos_token_id": 0}


@pytest.mark.parametrize(
    ("settings", "tokens", "types", "merges", "named"),
    [
        ({"model": "bert"}, BYTES, [1] * 256, [], 'tokenizer.ggml.model "gpt2" or "llama"'),
        ({"pre": "unheard-of"}, BYTES, [1] * 256, [], "tokenizer.ggml.pre"),
        ({"pre": None}, BYTES, [1] * 256, [], "tokenizer.ggml.pre"),
        ({}, BYTES, [1] * 255, [], "tokenizer.ggml.token_type"),
        ({}, [*BYTES, "a"], [1] * 257, [], "tokenizer.ggml.tokens"),
        ({}, BYTES, [1] * 256, ["ab"], "tokenizer.ggml.merges 0"),
        ({}, BYTES, [1] * 256, ["a b"], "tokenizer.ggml.merges"),
        ({"eos_token_id": 999}, BYTES, [1] * 256, [], "999"),
        ({"add_bos_token": True}, BYTES, [1] * 256, [], "bos token"),
        ({"pre": "llama-bpe"}, BYTES, [1] * 256, [], "bos token"),
    ],
)
def test_invalid_vocabularies_are_refused_by_key(
    settings: dict[str, Any],
    tokens: list[str],
    types: list[int],
    merges: list[str],
    named: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / "vocabulary.gguf"
    given = {key: value for key, value in (SOUND | settings).items() if value is not None}
    # The writer drops empty lists.
    write_vocabulary(path, given, tokens, types, merges=merges or ["\u0120 \u0120"])
    if not merges:
        tokens = [*tokens, "\u0120\u0120"]
        types = [*types, 1]
        write_vocabulary(path, given, tokens, types, merges=["\u0120 \u0120"])
    with pytest.raises(AssayError, match=named):
        read(path).build()


def test_background_build_gives_the_same_tokenizer_and_errors(tmp_path: Path) -> None:
    model = synthetic_model()
    model.prepare()
    assert model.tokenizer.encode("a") == synthetic_model().tokenizer.encode("a")
    assert model.tokenizer is model.tokenizer

    def fail() -> Tokenizer:
        raise InputError("no tokenizer")

    broken = replace(model, make_tokenizer=fail)
    broken.prepare()
    with pytest.raises(InputError, match="no tokenizer"):
        _ = broken.tokenizer


def test_unknown_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="from 0 to 257, got 258"):
        synthetic_model().tokenizer.piece(258)


def test_pre_tokenizers_of_the_architectures_are_known() -> None:
    assert {"gpt-2", "llama-bpe", "qwen2", "smollm", "tekken"} <= set(PRE_TOKENIZERS)


def test_detokenizers_of_one_tokenizer_know_tokens_by_where_they_stand() -> None:
    # The second byte of a character is a character of its own at the start of an output: none of them
    # may remember what it was for another.
    tokenizer = synthetic_model().tokenizer
    texts = []
    for data in (b"a\xc3\xa9", b"\xa9b", b"\xc3", b"\xc3\xa9\xc3\xa9", b"\xa9"):
        detokenizer = tokenizer.detokenizer()
        texts.append("".join(map(detokenizer.push, data)) + detokenizer.finish())
    assert texts == ["a\u00e9", "\ufffdb", "\ufffd", "\u00e9\u00e9", "\ufffd"]


@pytest.mark.parametrize(
    ("special", "ends"),
    [
        (("<|end|>", "<|return|>", "<|call|>"), {"<|return|>", "<|call|>"}),
        (("<|end|>", "<|other|>"), {"<|end|>"}),
    ],
    ids=["gpt-oss", "others"],
)
def test_messages_of_gpt_oss_do_not_end_the_output(
    tmp_path: Path, special: tuple[str, ...], ends: set[str]
) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*byte_alphabet(), *special])
    writer.add_token_types([1] * 256 + [3] * len(special))
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(256 + (1 if "<|return|>" in special else 0))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    tokenizer = read(path)
    assert {tokenizer.text_of(token) for token in tokenizer.stop_ids} == ends
