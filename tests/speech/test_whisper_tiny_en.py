"""The published tiny.en on a recording, against faster-whisper: tokens, times and words."""

import json
from pathlib import Path

import pytest

from assay import transcribe
from assay.engine.loading import sources
from assay.engine.loading.packages import PulledFile, Source, Wheel
from assay.engine.loading.pulling import pull
from assay.engine.loading.unpacking import unpack
from assay.engine.loading.wheels import download_wheels

SAMPLES = Source(
    wheels=(
        Wheel(
            "moonshine-voice",
            "0.1.5",
            "1ed9e0ccf94be4845d69e7fa862dcf4c8b5801a758796966494c694f48184496",
        ),
    ),
    files=(
        PulledFile(
            "beckett.wav",
            "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
            318_978,
            ("moonshine_voice/assets/beckett.wav",),
        ),
    ),
    description="Recordings",
    license="MIT",
)


@pytest.fixture(scope="module")
def recording(machine_scratch: Path, scratch: Path) -> Path:
    """A recording and the model, fetched once for the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_SCRATCH", str(machine_scratch))
        pulled = pull("whisper-tiny.en").path
    here = sources.pulled_path("whisper-tiny.en")
    if not here.exists():
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(pulled)
    path = machine_scratch / "recordings" / "beckett.wav"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        downloads = scratch / "recordings"
        downloads.mkdir()
        wheels = download_wheels(SAMPLES, downloads, lambda text: None)
        unpack(SAMPLES.files[0], wheels, path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 5])
def test_text_times_and_words_are_those_of_faster_whisper(
    recording: Path, root: Path, beam_size: int
) -> None:
    oracle = json.loads((root / "tests/data/whisper_tiny_en.json").read_text())
    wanted = oracle["beckett"][str(beam_size)]
    answer = transcribe(recording, beam_size=beam_size, word_times=True)
    assert [list(segment.tokens) for segment in answer.segments] == wanted["tokens"]
    assert [[segment.start, segment.end] for segment in answer.segments] == wanted["times"]
    words = [
        [word.text, word.start, word.end] for segment in answer.segments for word in segment.words
    ]
    assert words == wanted["words"]
