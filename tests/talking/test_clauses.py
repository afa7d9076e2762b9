"""Text that is still being written, cut into what is said at once."""

import itertools

import pytest

from assay.talking.clauses import Clauses


def pieces(text: str, step: int) -> list[str]:
    clauses = Clauses()
    parts = [text[start : start + step] for start in range(0, len(text), step)]
    return [piece for part in parts for piece in clauses.push(part)] + list(clauses.finish())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sure, I can help you with that!", ["Sure,", "I can help you with that!"]),
        ("Yes.", ["Yes."]),
        ("Yes. It is 3.5 m, Dr. Smith said.", ["Yes.", "It is 3.5 m, Dr. Smith said."]),
        # Without a pause, before a word that begins a phrase.
        ("The oldest known city of the world is in Syria.",
         ["The oldest known city", "of the world is in Syria."]),
        # Marks of Markdown are not said.
        ("**Two** things:\n\n1. One\n- `Other`", ["Two things:", "One Other"]),
        ("", []),
        ("...", []),
    ],
)  # fmt: skip
def test_pieces_are_the_same_however_text_arrives(text: str, expected: list[str]) -> None:
    for step in (1, 3, 7, 100):
        assert pieces(text, step) == expected


def test_each_piece_may_be_twice_as_long_as_the_one_before() -> None:
    text = "word " * 200
    lengths = [len(piece) for piece in pieces(text, 5)]
    assert "".join(pieces(text, 5)).replace(" ", "") == text.replace(" ", "")
    assert lengths[0] <= 24
    for shorter, longer in itertools.pairwise(lengths[:-1]):
        assert shorter <= longer <= 2 * shorter + 16
    assert max(lengths) <= 256


def test_a_word_without_end_is_cut() -> None:
    assert [len(piece) for piece in pieces("x" * 100, 9)] == [24, 48, 28]
