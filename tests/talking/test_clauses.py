"""Text that is still being written, cut into what is said at once."""

import itertools
import re

import pytest
from hypothesis import example, given, strategies as st

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
        # A word with its phonemes is said with them; of other links the words are.
        ("Say [Kokoro, now](/kOk. \u0259\u0279O, nW/), please.",
         ["Say [Kokoro, now](/kOk. \u0259\u0279O, nW/),", "please."]),
        ("The *[Kokoro](/kOk\u0259\u0279O/)* of [this](/install/)",
         ["The [Kokoro](/kOk\u0259\u0279O/)", "of this"]),
        ("[abcdefghijklmnopqrstuvwxyz](/\u028c\u028c/)[xy](/\u0259\u0259/) z.",
         ["[abcdefghijklmnopqrstuvwxyz](/\u028c\u028c/)", "[xy](/\u0259\u0259/) z."]),
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


WORDS = st.text("abcdefgh", min_size=2, max_size=8)
GIVEN = st.builds(
    "[{}](/\u028c\u0259{}/)".format,
    st.text("Kok ,.'", max_size=40),
    st.text("kO \u0259,.;:()", max_size=60),
)
PARTS = st.one_of(
    WORDS.map(" {} ".format),
    GIVEN,
    GIVEN.map("{}, ".format),
    st.sampled_from(
        [", ", ". ", "; ", "\n", "\n\n", " and ", "[", " [ab ", " [12] ", " [ab](/cd/) ", "** "]
    ),
)
"""Words have spaces around them: one without end is cut anywhere, and a letter alone is not said."""


def said(text: str) -> str:
    """A text without its marks and pauses, as the pieces of it have together."""
    parts = re.split(r"(\[[^][\n]*\]\(/\u028c[^/\n]*/\))", text.replace("](/cd/)", ""))
    parts[::2] = [re.sub(r"[][*]", "", part) for part in parts[::2]]
    return re.sub(r"[\s,.;]", "", "".join(parts))


@given(st.lists(PARTS, max_size=40).map("".join), st.lists(st.integers(1, 30), min_size=1))
@example("Yes. [Kokoro](/kOk\u0259\u0279O, \u0259/) and [Kokoro](/\u0259kO/). ", [1])
def test_no_clause_ends_in_a_word_with_its_phonemes(text: str, steps: list[int]) -> None:
    clauses, begin, found = Clauses(), 0, []
    for step in itertools.cycle(steps):
        found += clauses.push(text[begin : begin + step])
        begin += step
        if begin >= len(text):
            break
    found += clauses.finish()
    assert said("".join(found)) == said(text)
    for word in re.findall(r"\[[^][\n]*\]\(/\u028c[^/\n]*/\)", text):
        whole = " ".join(word.split())
        assert any(whole in piece for piece in found), (whole, found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What comes before a word with its phonemes does not wait for them.
        ("Yes. [", ["Yes."]),
        ("Well, [Kokoro](/k", ["Well,"]),
        ("The oldest known city of [K", ["The oldest known city"]),
        ("Say [Kokoro](/kOk\u0259\u0279O/", []),
        # Neither does what cannot become one.
        ("Say [the words] as they are written", ["Say the words"]),
        ("Say [the words](as they are written", ["Say the words (as they"]),
        ("Say [the\nwords as they are written", ["Say the words"]),
        ("Say [the [words\nas they are written", ["Say the words"]),
        ("Say [the " + "word " * 13, ["Say the word word word"]),
        ("Say [the](/" + "word " * 26, ["Say the (/word word"]),
    ],
)
def test_what_is_known_is_said_at_once(text: str, expected: list[str]) -> None:
    clauses = Clauses()
    found = [piece for letter in text for piece in clauses.push(letter)]
    assert found[:1] == expected
