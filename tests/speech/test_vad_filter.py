"""Silence is cut out before a recording is transcribed, and times are those of the whole recording."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay import transcribe
from assay.engine.loading import sources
from assay.errors import InputError
from assay.speech.transcript import Segment, Transcript, Word
from assay.speech.vad_filter import VadFilter
from assay.speech.voice_activity import Segment as Speech

SECOND = 16_000
PARTS = (Speech(46_848, 114_432), Speech(182_016, 276_736))
"""What faster-whisper 1.2.1 keeps of a recording with two pauses, given the weights of silero-vad 6.2.3."""


def heard(start: float, end: float, *words: tuple[float, float]) -> Segment:
    spoken = tuple(Word(" word", *times, 1.0) for times in words)
    return Segment(start, end, " text", (), 0.0, -0.1, 1.0, 0.0, 0.0, spoken)


def restored(*segments: Segment) -> list[Segment]:
    samples = np.arange(20 * SECOND, dtype=np.float32)
    kept = VadFilter(samples, PARTS)
    assert len(kept.samples) == 114_432 - 46_848 + 276_736 - 182_016
    assert kept.samples[0] == 46_848
    assert kept.samples[67_584] == 182_016
    transcript = kept.restored(Transcript(segments, "en", 1.0, 10.144), 20.0)
    assert transcript.seconds == 20.0
    return list(transcript.segments)


def test_times_are_those_that_faster_whisper_restores() -> None:
    # From its SpeechTimestampsMap and restore_speech_timestamps; the parts meet at 4.224 s.
    [whole] = restored(heard(0.0, 10.0))
    assert (whole.start, whole.end) == (2.93, 17.15)
    [first, second] = restored(heard(0.5, 4.224), heard(4.224, 5.0))
    assert (first.start, first.end) == (3.43, 7.15)
    assert (second.start, second.end) == (11.38, 12.15)
    # A word over the cut is in the part that its middle is in.
    [timed] = restored(heard(0.0, 9.0, (0.0, 0.74), (3.9, 4.3), (4.2, 4.5)))
    assert [(word.start, word.end) for word in timed.words] == [
        (2.93, 3.67), (6.83, 7.23), (11.35, 11.65)
    ]  # fmt: skip
    assert (timed.start, timed.end) == (2.93, 11.65)


def test_a_recording_of_silence_has_no_samples_left() -> None:
    kept = VadFilter(np.zeros(SECOND, np.float32), ())
    assert kept.samples.shape == (0,)
    silence = Transcript((), "en", 1.0, 0.0)
    assert kept.restored(silence, 1.0) == replace(silence, seconds=1.0)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    with pytest.raises(InputError, match="silero-vad") as caught:
        transcribe(tmp_path / "any.wav", vad=True)
    assert caught.value.hint == "fetch it with: assay pull silero-vad"


@pytest.mark.slow
def test_a_recording_with_pauses(
    machine_scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(machine_scratch))
    recording = machine_scratch / "recordings" / "beckett.wav"
    models = ("silero-vad", "whisper-tiny.en")
    if not recording.exists() or not all(sources.is_pulled(name) for name in models):
        pytest.skip(f"needs: assay pull {' '.join(models)}, and the recording of another test")
    import wave

    with wave.open(str(recording)) as file:
        speech = file.readframes(file.getnframes())
    pause = bytes(2 * SECOND)
    parts = (pause * 3, speech[:120_000], pause * 5, speech[120_000:], pause * 4)
    path = tmp_path / "pauses.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, SECOND, 0, "NONE", ""))
        file.writeframes(b"".join(parts))
    answer = transcribe(path, beam_size=1, vad=True, word_times=True)
    assert answer.speech == PARTS
    [segment] = answer.segments
    assert (segment.start, segment.end) == (2.93, 16.73)
    # Words of faster-whisper with the same weights.
    assert [(word.text, word.start, word.end) for word in segment.words] == [
        (" Ever", 2.93, 3.67), (" tried,", 3.67, 4.27), (" ever", 5.05, 5.23),
        (" failed.", 5.23, 5.77), (" No", 6.63, 6.83), (" matter,", 11.05, 11.93),
        (" try", 12.81, 13.13), (" again.", 13.13, 13.91), (" Fail", 14.71, 14.97),
        (" again.", 14.97, 15.51), (" Fail", 16.21, 16.49), (" better.", 16.49, 16.73),
    ]  # fmt: skip
