"""Words and phonemes, with small lists."""

import json
from pathlib import Path

import numpy as np
import pytest

from assay.speech.phonemes.english import English
from assay.speech.phonemes.sentences import cut, sentences
from assay.speech.phonemes.spelling import Speller

GOLD = {
    "hello": "həlˈO",
    "world": "wˈɜɹld",
    "read": {"DEFAULT": "ɹˈid", "VBD": "ɹˈɛd", "VBN": "ɹˈɛd"},
    "record": {"DEFAULT": "ɹˈɛkəɹd", "VERB": "ɹəkˈɔɹd"},
    "have": {"DEFAULT": "hæv", "None": "hˈæv"},
    "used": {"DEFAULT": "jˈuzd", "VBD": "jˈust"},
    "apple": "ˈæpᵊl",
    "walk": "wˈɔk",
    "wait": "wˈAt",
    "judge": "ʤˈʌʤ",
    "stop": "stˈɑp",
    "G": "ʤˈi",
    "P": "pˈi",
    "U": "jˈu",
    "A": "ˈA",
    "M": "ˈɛm",
    "S": "ˈɛs",
    "ten": "tˈɛn",
    "thirty": "θˈɜɹTi",
    "and": "ænd",
    "to": "tu",
    "they": "ðA",
    "it": "ɪt",
}


VOCABULARY = frozenset("abcdefhijklmnopqrstuvwxyzAIOQSTWYɐɑæəɛɜɡɪɹʃʊʌʤðŋθˈˌᵊᵻ ,.—")


@pytest.fixture
def english(tmp_path: Path) -> English:
    (tmp_path / "us_gold.json").write_text(json.dumps(GOLD))
    (tmp_path / "us_silver.json").write_text("{}")
    rng = np.random.default_rng(0)
    shapes = {"enc_emb": (29, 4), "dec_emb": (74, 4), "fc_w": (74, 3), "fc_b": (74,)}
    for part in ("enc", "dec"):
        shapes |= {f"{part}_w_ih": (9, 4), f"{part}_w_hh": (9, 3)}
        shapes |= {f"{part}_b_ih": (9,), f"{part}_b_hh": (9,)}
    np.savez(
        tmp_path / "spelling.npz",
        **{name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()},
    )
    return English(tmp_path, VOCABULARY)


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("Hello, world!", "həlˈO, wˈɜɹld!"),
        ("the apple", "ði ˈæpᵊl"),
        ("the world", "ðə wˈɜɹld"),
        ("a world", "ɐ wˈɜɹld"),
        ("to read to it", "tə ɹˈid tʊ ɪt"),
        ("they have read it", "ðA hæv ɹˈɛd ɪt"),
        ("the record", "ðə ɹˈɛkəɹd"),
        ("to record it", "tə ɹəkˈɔɹd ɪt"),
        ("they have.", "ðA hˈæv."),
        ("used to", "jˈust tu"),
        ("apples", "ˈæpᵊlz"),
        ("judges", "ʤˈʌʤᵻz"),
        ("walked", "wˈɔkt"),
        ("waited", "wˈATᵻd"),
        ("waiting", "wˈATɪŋ"),
        ("stopping", "stˈɑpɪŋ"),
        ("GPU", "ʤˌipˌijˈu"),
        ("GPUs", "ʤˌipˌijˈuz"),
        ("hello - world", "həlˈO — wˈɜɹld"),
        ("HELLO", "həlˈO"),
        ("A world", "ɐ wˈɜɹld"),
        ("A P", "ˈA pˈi"),
        ("10:30am", "tˈɛn θˈɜɹTi ˈA ˈɛm"),
        ("it walked a P world.", "ɪt wˈɔkt ɐ pˈi wˈɜɹld."),
        ("walk A to it", "wˈɔk ˈA tʊ ɪt"),
        ("US", "jˌuˈɛs"),
        ("U&P", "jˈu ænd pˈi"),
        ("the [Kokoro](/kˈOkəɹO/), hello", "ðə kˈOkəɹO, həlˈO"),
        ("the [x](/ˈæks/)[y](/wˈI/)", "ði ˈækswˈI"),
        ("the [world](https://a.org/x?y=1).", "ðə wˈɜɹld."),
        # Paths, and what Kokoro has no phonemes of; the last of them is a link's text.
        ("the [world](/install/).", "ðə wˈɜɹld."),
        ("the [world](/get-it/) [world](/v2/)", "ðə wˈɜɹld wˈɜɹld"),
        ("the [world](/größe/)", "ðə wˈɜɹld"),
        ("the [world](/hI/)", "ðə wˈɜɹld"),
        ("the [world](/mˈAd ʌp/)", "ðə mˈAd ʌp"),
        ("hello \ue000 world", "həlˈO wˈɜɹld"),
    ],
)
def test_phonemes_of_words(english: English, text: str, phonemes: str) -> None:
    result = english.phonemes(text)
    assert (result.text, result.spelled, result.left_out) == (phonemes, (), ())


def test_words_of_no_list_are_named(english: English) -> None:
    result = english.phonemes("hello zorblax мир")
    assert (result.spelled, result.left_out) == (("zorblax",), ("мир",))
    assert result.text.startswith("həlˈO")


@pytest.mark.slow
def test_spelling_is_that_of_g2p_en(kokoro_folder: Path) -> None:
    # G2p().predict(word) of g2p-en 2.1.0.
    speller = Speller(kokoro_folder / "spelling.npz")
    assert speller.sounds("kubernetes") == ["K", "AH0", "B", "ER1", "N", "AH0", "T", "S"]


def test_sentences_end_at_full_stops_only() -> None:
    text = 'Dr. J. Smith paid $3.50. "Really?" he asked! Yes.\n\nNew paragraph e.g. this. end'
    assert list(sentences(text)) == [
        "Dr. J. Smith paid $3.50.",
        '"Really?" he asked!',
        "Yes.",
        "New paragraph e.g. this. end",
    ]
    assert list(sentences("  ")) == []


def test_long_texts_are_cut_at_pauses() -> None:
    text = "one two three; four five six, seven eight nine"
    assert list(cut(text, 20)) == ["one two three;", "four five six,", "seven eight nine"]
    assert "".join(cut("x" * 50, 20)) == "x" * 50


def test_given_phonemes_and_links_are_not_cut(english: English) -> None:
    given, link = "[x](/ˈæks, ˈæks, ˈæks/)", "[world](https://a.org/x,y)"
    text = f"hello hello {given} hello {link}, hello"
    for longest in range(1, len(text)):
        parts = list(cut(text, longest, english.unbroken))
        assert sum(given in part for part in parts) == sum(link in part for part in parts) == 1
        assert " ".join(parts).replace(" ", "") == text.replace(" ", "")
    assert list(cut(given, 5, english.unbroken)) == [given]
