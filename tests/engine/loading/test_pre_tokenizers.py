"""Pre-tokenizers of GGUF files: their patterns compile, lose nothing, and split as the originals do."""

import json
from pathlib import Path

import pytest
from make_token_fixtures import TEXTS
from tokenizers import Regex, pre_tokenizers

from assay.engine.loading.gguf_pre_tokenizers import PRE_TOKENIZERS


def pieces(name: str, text: str) -> list[str]:
    steps = [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        for pattern in PRE_TOKENIZERS[name].patterns
    ]
    return [piece for piece, _ in pre_tokenizers.Sequence(steps).pre_tokenize_str(text)]


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_every_pre_tokenizer_splits_without_loss(name: str) -> None:
    for text in TEXTS:
        assert "".join(pieces(name, text)) == text


def test_gpt_4o_splits_as_tiktoken_does(root: Path) -> None:
    recorded = json.loads((root / "tests/data/o200k_splits.json").read_text())["splits"]
    assert len(recorded) > 15
    for one in recorded:
        assert pieces("gpt-4o", one["text"]) == one["pieces"]


ORIGINALS = ("llama-bpe", "llama4", "qwen2", "tekken", "deepseek-v3")


@pytest.mark.parametrize("name", ORIGINALS)
def test_splits_are_those_of_the_publishers_tokenizer(name: str, root: Path) -> None:
    """`tests/data/make_split_fixtures.py` recorded them from packages that carry the tokenizers."""
    recorded = json.loads((root / "tests/data/pre_tokenizer_splits.json").read_text())
    splits = recorded["splits"][name]["pieces"]
    assert recorded["splits"].keys() == set(ORIGINALS)
    assert len(splits) == len(recorded["texts"]) >= 20
    for text, expected in zip(recorded["texts"], splits, strict=True):
        assert pieces(name, text) == expected


@pytest.mark.parametrize("text", TEXTS)
def test_gpt_2_splits_as_the_library_does(text: str) -> None:
    """Its byte-level step has the pattern of GPT-2 built in."""
    offsets = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    assert pieces("gpt-2", text) == [text[first:last] for _, (first, last) in offsets]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        # One digit at a time, or up to three.
        ("command-r", "a 1234", ["a", " ", "1", "2", "3", "4"]),
        ("deepseek-v3", "a 1234", ["a", " ", "123", "4"]),
        ("glm4", "a 1234", ["a", " ", "123", "4"]),
        ("deepseek-coder", "x=12", ["x", "=", "1", "2"]),
        ("deepseek-v3", "\u4f60\u597dabc", ["\u4f60\u597d", "abc"]),
        # A sign stays with the word that follows it.
        ("deepseek-v3", "(abc", ["(abc"]),
        ("falcon", "a`b1234", ["a", "`", "b", "123", "4"]),
    ],
)
def test_what_differs_between_them(name: str, text: str, expected: list[str]) -> None:
    assert pieces(name, text) == expected
