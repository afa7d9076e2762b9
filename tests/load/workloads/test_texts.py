"""Generated texts: their length, by words and by a tokenizer, and that they differ."""

import re

import pytest

from assay.errors import InputError
from assay.load.workloads.texts import MAX_TOKENS, Writer, approximate_tokens, cut


def by_letters(text: str) -> int:
    """A tokenizer of another kind: a token before every text, then one for three letters."""
    return 1 + sum(-(-len(word) // 3) for word in text.split())


@pytest.mark.parametrize("tokens", [1, 2, 7, 64, 1000])
def test_a_text_is_as_long_as_asked(tokens: int) -> None:
    for seed in range(20):
        text = Writer(f"{seed}").text(tokens)
        # A word may be followed by a mark: then one token is missing at most.
        assert tokens - 1 <= approximate_tokens(text) <= max(1, tokens)


@pytest.mark.parametrize("tokens", [10, 64, 1000])
def test_a_tokenizer_counts_instead_and_its_first_token_counts_once(tokens: int) -> None:
    for seed in range(20):
        assert tokens - 5 <= by_letters(Writer(f"{seed}", by_letters).text(tokens)) <= tokens


def test_texts_are_the_same_for_a_seed_and_differ_between_seeds() -> None:
    assert Writer("a").text(200) == Writer("a").text(200)
    assert len({Writer(f"{number}").text(12) for number in range(500)}) == 500


def test_sentences_are_plain_english() -> None:
    text = Writer("plain").text(5000)
    sentences = text.split(". ")
    assert all(re.fullmatch(r"[A-Z][a-z ,]+", one.removesuffix(".")) for one in sentences)
    assert len(set(sentences)) == len(sentences)


def test_a_cut_keeps_one_word_at_least() -> None:
    assert cut("one two three", 2, approximate_tokens) == "one two"
    assert cut("one two three", 0, approximate_tokens) == "one"
    assert cut("one two three", 99, approximate_tokens) == "one two three"


@pytest.mark.parametrize("tokens", [0, -1, MAX_TOKENS + 1])
def test_impossible_lengths_are_refused(tokens: int) -> None:
    with pytest.raises(InputError, match="length: expected from 1"):
        Writer("x").text(tokens)
