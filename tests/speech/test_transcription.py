"""Transcripts: vocabulary, splitting at timestamps, subtitles and the command."""

import subprocess
import sys
import wave
from pathlib import Path

import pytest
from whisper_folders import VOCABULARY, vocabulary_lines

from assay import transcribe
from assay.engine.loading import sources
from assay.errors import AssayError, InputError, UnknownNameError
from assay.speech import subtitles
from assay.speech.transcript import Segment, Word
from assay.speech.whisper.languages import LANGUAGES, language_code
from assay.speech.whisper.segments import split
from assay.speech.whisper.vocabulary import Vocabulary, byte_level_tokens


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(byte_level_tokens(vocabulary_lines()), VOCABULARY)


def test_special_tokens_are_where_openai_has_them(vocabulary: Vocabulary) -> None:
    # From the tokenizer.json of tiny.en; those of the multilingual models from openai/whisper.
    assert (vocabulary.transcript_end, vocabulary.transcript_start) == (50_256, 50_257)
    assert (vocabulary.translate, vocabulary.transcribe) == (50_357, 50_358)
    assert (vocabulary.no_speech, vocabulary.no_timestamps) == (50_361, 50_362)
    assert vocabulary.first_timestamp == 50_363
    many = Vocabulary([b"x"] * 50_257, 51_865)
    assert many.start("de", "translate") == [50_258, 50_261, 50_358]
    assert (many.no_timestamps, many.first_timestamp) == (50_363, 50_364)
    assert Vocabulary([b"x"] * 50_257, 51_866).language("yue") == 50_358
    with pytest.raises(InputError, match="expected one of the model's 99, got yue"):
        many.language("yue")


def test_text_is_encoded_by_bytes_and_decoded_again(vocabulary: Vocabulary) -> None:
    for text in ("plain", " It's  12 o'clock!", "na\u00efve, \u6771\u4eac \U0001f642", "a\n\n b"):
        assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.encode("qbc") == [256 + 12]
    assert vocabulary.encode("x12") == [87, 16, 17]


def test_languages_have_codes_and_names() -> None:
    assert len(LANGUAGES) == 100
    assert [language_code(given) for given in ("de", "German", " FRENCH ")] == ["de", "de", "fr"]
    with pytest.raises(UnknownNameError, match='unknown language "klingon"'):
        language_code("klingon")


def test_text_is_split_at_pairs_of_timestamps(vocabulary: Vocabulary) -> None:
    first = vocabulary.first_timestamp
    open_end = [first, 300, first + 50, first + 50, 301]
    pieces, seek, ends = split(open_end, vocabulary, 1_000, 3_000)
    assert [(piece.start, piece.end) for piece in pieces] == [(10.0, 11.0)]
    assert (seek, ends) == (1_100, False)
    closed = [*open_end, first + 75]
    pieces, seek, ends = split(closed, vocabulary, 1_000, 3_000)
    assert [(piece.start, piece.end) for piece in pieces] == [(10.0, 11.0), (11.0, 11.5)]
    assert (seek, ends) == (4_000, True)
    pieces, seek, ends = split([300, 301], vocabulary, 1_000, 500)
    assert [(piece.start, piece.end) for piece in pieces] == [(10.0, 15.0)]
    assert (seek, ends) == (1_500, False)


def segment(start: float, end: float, text: str, words: tuple[Word, ...] = ()) -> Segment:
    return Segment(start, end, text, (), 0.0, -0.1, 1.0, 0.0, 0.0, words)


def test_subtitles_have_the_times_of_their_formats() -> None:
    segments = [segment(0.0, 1.5, " Hello <b> & you"), segment(3_661.25, 3_662.0, " 2 --> 3")]
    assert subtitles.srt(segments) == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello <b> & you\n\n"
        "2\n01:01:01,250 --> 01:01:02,000\n2 -> 3\n"
    )
    assert subtitles.vtt(segments[:1]) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello &lt;b&gt; &amp; you\n"
    )
    words = (Word(" Hello", 0.0, 0.5, 1.0), Word(" you", 0.5, 1.0, 1.0))
    timed = subtitles.vtt([segment(0.0, 1.0, " Hello you", words)])
    assert timed.endswith("Hello<00:00:00.500><c> you</c>\n")


def test_wrong_questions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "silence.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(3_200))
    with pytest.raises(UnknownNameError, match='unknown speech model "whisper"'):
        transcribe(path, "whisper")
    if not sources.is_pulled("whisper-tiny.en"):
        with pytest.raises(InputError, match="got no such file") as caught:
            transcribe(path)
        assert caught.value.hint == "fetch it with: assay pull whisper-tiny.en"
    for given in ({"beam_size": 0}, {"temperature": 2.0}, {"threads": 0}):
        with pytest.raises(InputError, match=next(iter(given))):
            transcribe(path, **given)
    with pytest.raises(AssayError, match="tpu"):
        transcribe(path, device="tpu")


def test_the_command_names_what_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assay", "transcribe", str(tmp_path / "missing.wav")]
    failed = subprocess.run(command, capture_output=True, text=True)
    assert failed.returncode == 2
    error, hint = failed.stderr.strip().splitlines()
    assert error.endswith("missing.wav: expected a recording, got no such file")
    assert hint == "hint: WAV and FLAC are read, other formats with ffmpeg; - reads from a pipe"
