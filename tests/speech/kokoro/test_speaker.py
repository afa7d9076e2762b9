"""What is said of a text, and what is left out."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assay.errors import InputError
from assay.speech.kokoro import speaker
from assay.speech.kokoro.speaker import Speaker
from assay.speech.wav import check_wav_path


class _Model:
    """Says each phoneme as a sample."""

    vocabulary = dict.fromkeys("hIæks,", 1)

    def speak(self, phonemes: str, voice: str, **_: Any) -> Any:
        return SimpleNamespace(waveform=np.ones(len(phonemes), np.float32))


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Speaker:
    monkeypatch.setattr(speaker, "open_kokoro", lambda *_: _Model())
    for country in ("us", "gb"):
        (tmp_path / f"{country}_gold.json").write_text(json.dumps({"hi": "hI"}))
        (tmp_path / f"{country}_silver.json").write_text("{}")
    return Speaker(tmp_path)


def test_sentence_of_another_script_is_reported_with_no_sound(opened: Speaker) -> None:
    said = list(opened.stream("Hi. Привет, 你好! Hi.", "af_heart"))
    assert [sentence.phonemes.left_out for sentence in said] == [(), ("Привет", "你好"), ()]
    assert [sentence.seconds > 0 for sentence in said] == [True, False, True]


def test_pause_between_sentences_is_kept(opened: Speaker) -> None:
    assert [sentence.text for sentence in opened.stream("Hi. ... Hi.", "af_heart")][1] == "..."


def test_long_sentence_is_not_cut_within_given_phonemes(opened: Speaker) -> None:
    given = f"[x](/{'hæks,' * 80}/)"
    said = list(opened.stream(f"{'hi ' * 80}{given} {'hi ' * 80}", "af_heart"))
    assert len(said) > 1
    assert sum(given in sentence.text for sentence in said) == 1
    assert sum(sentence.phonemes.text.count("hæks") for sentence in said) == 80
    assert not any(sentence.phonemes.left_out for sentence in said)
    # More than the model takes is one part, which the model refuses.
    (alone,) = opened.stream(f"[x](/{'hæks,' * 200}/)", "af_heart")
    assert len(alone.phonemes.text) == 1000


@pytest.mark.parametrize("text", ["Привет!", "你好。", "...", "😀"])
def test_text_without_a_word_is_refused(opened: Speaker, text: str) -> None:
    with pytest.raises(InputError, match="input: expected words of English") as caught:
        opened.check_words(text, "bm_george", name="input")
    assert text in str(caught.value)
    opened.check_words(f"{text} Hi", "bm_george")


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.mp3", "got .mp3"), ("b.FLAC", "got .FLAC"), ("no/a.wav", "a folder that exists")],
)
def test_path_of_no_wav_file_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        check_wav_path(tmp_path / name)


def test_path_of_a_wav_file_needs_no_suffix(tmp_path: Path) -> None:
    for name in ("a.wav", "a", "a.part"):
        check_wav_path(tmp_path / name)
    with pytest.raises(InputError, match="got a folder"):
        check_wav_path(tmp_path)
