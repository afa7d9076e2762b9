"""The word error rate, against figures by hand and textbook distances."""

import pytest

from assay.speech.word_errors import edits, word_error_rate


@pytest.mark.parametrize(
    ("expected", "heard", "rate"),
    [
        ("the cat sat", "the cat sat", 0.0),
        ("The cat -- sat!", "the cat, sat", 0.0),
        # One word replaced, one left out, one inserted.
        ("hello world", "hello duck", 1 / 2),
        ("a b c d", "a c d", 1 / 4),
        ("a b c d", "a b x c d", 1 / 4),
        ("i like python what do you mean", "i like monty python what do you mean", 1 / 7),
        ("it's", "it\u2019s", 0.0),
        ("a", "", 1.0),
        ("", "a b", 2.0),
    ],
)
def test_words_that_were_not_heard_are_counted(expected: str, heard: str, rate: float) -> None:
    assert word_error_rate(expected, heard) == pytest.approx(rate)


def test_edits_are_levenshtein_distances() -> None:
    assert edits("kitten", "sitting") == 3
    assert edits("intention", "execution") == 5
    assert edits([], []) == 0
