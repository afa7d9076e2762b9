"""Recordings: rates, channels and codings; resampling and features against closed forms and others."""

import base64
import io
import json
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.errors import InputError
from assay.speech import sound_files
from assay.speech.log_mel import log_mel, mel_filters
from assay.speech.resampling import resample
from assay.speech.sound_files import read_sound


@pytest.fixture(scope="module")
def oracle(root: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((root / "tests/data/whisper_oracle.json").read_text())
    return data


def wav_bytes(samples: np.ndarray, rate: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return out.getvalue()


def tones(channels: int) -> np.ndarray:
    places = np.arange(600)
    columns = [np.round(8000 * np.sin(0.05 * places * (one + 1))) for one in range(channels)]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    ("name", "channels", "rate"),
    [("stereo 16", 2, 48_000), ("mono 24", 1, 16_000), ("eight 16", 8, 16_000)],
)
def test_flac_of_libflac_is_read(
    oracle: dict[str, Any], name: str, channels: int, rate: int
) -> None:
    recording = read_sound(base64.b64decode(oracle["flac"][name]), rate)
    assert (recording.channels, recording.stored_rate) == (channels, rate)
    np.testing.assert_allclose(recording.samples, tones(channels).mean(axis=1) / 32768, atol=1e-7)


def test_wav_of_eight_channels_at_192_khz_is_one_channel_at_16_khz() -> None:
    places = np.arange(19_200) / 192_000
    tone = 16_000 * np.sin(2 * np.pi * 500 * places)
    recording = read_sound(wav_bytes(np.repeat(tone[:, None], 8, axis=1), 192_000), 16_000)
    wanted = 16_000 / 32768 * np.sin(2 * np.pi * 500 * np.arange(1_600) / 16_000)
    assert recording.seconds == pytest.approx(0.1)
    np.testing.assert_allclose(recording.samples[100:-100], wanted[100:-100], atol=2e-4)


@pytest.mark.parametrize("rate", [8_000, 22_050, 24_000, 44_100, 48_000])
def test_resampling_keeps_what_both_rates_have_and_cuts_the_rest(rate: int) -> None:
    seconds = np.arange(rate // 5) / rate
    kept = np.sin(2 * np.pi * 1_000 * seconds)
    out = resample(kept.astype(np.float32), rate, 16_000)
    wanted = np.sin(2 * np.pi * 1_000 * np.arange(3_200) / 16_000)
    assert out.size == 3_200
    np.testing.assert_allclose(out[200:-200], wanted[200:-200], atol=2e-4)
    if rate > 20_000:
        cut = resample(np.sin(2 * np.pi * 9_500 * seconds).astype(np.float32), rate, 16_000)
        assert np.abs(cut[200:-200]).max() < 1e-3


def test_features_are_those_of_faster_whisper(oracle: dict[str, Any]) -> None:
    seconds = np.arange(8_000) / 16_000
    chirp = 0.1 * np.sin(2 * np.pi * 3_000 * seconds**2)
    samples = (0.3 * np.sin(2 * np.pi * 440 * seconds) + chirp).astype(np.float32)
    features = log_mel(samples, 80)
    assert list(features.shape) == oracle["features"]["shape"]
    for row, values in oracle["features"]["rows"].items():
        np.testing.assert_allclose(features[int(row), ::10], values, atol=1e-5)


def test_filters_of_a_band_have_equal_areas() -> None:
    # Slaney: a triangle's height is 2 / its width in Hz; bins are 40 Hz apart.
    areas = mel_filters(80).sum(axis=1) * 40.0
    assert areas[50:] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("length", [0, 1, 199, 200, 401])
def test_short_recordings_have_features(length: int) -> None:
    features = log_mel(np.zeros(length, np.float32), 80)
    assert features.shape == (80, (length + 160) // 160)
    assert np.isfinite(features).all()


def test_bad_recordings_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got no such file"):
        read_sound(tmp_path / "missing.wav", 16_000)
    with pytest.raises(InputError, match="got a folder"):
        read_sound(tmp_path, 16_000)
    with pytest.raises(InputError, match="an empty file"):
        read_sound(b"", 16_000)
    with pytest.raises(InputError, match="got an empty recording"):
        read_sound(wav_bytes(np.zeros((0, 1)), 16_000), 16_000)
    with pytest.raises(InputError, match="expected a WAV") as caught:
        read_sound(b"OggS" + bytes(100), 16_000)
    assert "ffmpeg" in str(caught.value.hint)
    with pytest.raises(InputError, match="expected at least 1,000 samples a second, got 1"):
        read_sound(wav_bytes(np.zeros((4, 1)), 1), 16_000)


@pytest.mark.parametrize(
    "size",
    [0, 0x7FFF_EFDC, 0x7FFF_F000, 0x7FFF_FF00, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFDB, 0xFFFF_FFFF],
)
def test_wav_of_a_pipe_whose_length_was_not_known_is_read_to_its_end(
    tmp_path: Path, size: int
) -> None:
    # Two are less by a header.
    content = bytearray(wav_bytes(tones(1), 16_000))
    content[40:44] = struct.pack("<I", size)
    (tmp_path / "pipe.wav").write_bytes(content)
    for source in (bytes(content), tmp_path / "pipe.wav"):
        np.testing.assert_array_equal(
            read_sound(source, 16_000).samples, (tones(1)[:, 0] / 32768).astype(np.float32)
        )


@pytest.mark.parametrize("size", [0x7FFF_0000, 0x8000_0001, 0x9000_0000, 0xFFFF_0000])
def test_large_wav_that_was_cut_off_is_not_taken_for_one_of_a_pipe(size: int) -> None:
    content = bytearray(wav_bytes(tones(1), 16_000))
    content[40:44] = struct.pack("<I", size)
    with pytest.raises(InputError, match=f"expected {size} bytes") as caught:
        read_sound(bytes(content), 16_000)
    assert "cut off" in str(caught.value.hint)


@pytest.fixture
def program_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the only programs that are found."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_other_formats_are_converted_where_ffmpeg_is_installed(
    tmp_path: Path, program_folder: Path
) -> None:
    recording = tmp_path / "talk.mp3"
    recording.write_bytes(b"ID3" + bytes(100))
    with pytest.raises(InputError, match="expected a WAV") as caught:
        read_sound(recording, 16_000)
    assert "ffmpeg" in str(caught.value.hint)
    program, arguments = program_folder / "ffmpeg", tmp_path / "arguments"
    (tmp_path / "talk.wav").write_bytes(wav_bytes(tones(2), 16_000))
    # The last argument is the file to write, with a protocol before it.
    program.write_text(
        f'#!/bin/sh\necho "$@" > {arguments}\nfor to; do :; done\n'
        f'while read -r line; do :; done < /dev/null\nexec /bin/cp {tmp_path}/talk.wav "${{to#file:}}"\n'
    )
    program.chmod(0o755)
    converted = read_sound(recording, 16_000)
    np.testing.assert_array_equal(
        converted.samples, read_sound(tmp_path / "talk.wav", 16_000).samples
    )
    assert f"-protocol_whitelist file -i file:{recording}" in arguments.read_text()
    # Bytes are those of a stranger's request.
    with pytest.raises(InputError, match="expected a WAV"):
        read_sound(recording.read_bytes(), 16_000)
    program.write_text("#!/bin/sh\necho one >&2\necho Invalid data >&2\nexit 1\n")
    with pytest.raises(InputError, match=r"talk\.mp3: expected a recording") as caught:
        read_sound(recording, 16_000)
    assert caught.value.hint == "ffmpeg says: Invalid data"


def test_recording_that_ffmpeg_decodes_in_part_is_refused(
    tmp_path: Path, program_folder: Path
) -> None:
    recording, program = tmp_path / "talk.mp3", program_folder / "ffmpeg"
    recording.write_bytes(b"ID3" + bytes(100))
    (tmp_path / "talk.wav").write_bytes(wav_bytes(tones(2), 16_000))
    # As of a damaged file: a message that has a name of no text, the rest of the sound, and exit code 0.
    program.write_text(
        f'#!/bin/sh\nfor to; do :; done\nprintf "Header missing in \\377.mp3\\n" >&2\n'
        f'exec /bin/cp {tmp_path}/talk.wav "${{to#file:}}"\n'
    )
    program.chmod(0o755)
    with pytest.raises(InputError, match=r"reads in part: Header missing in \ufffd\.mp3") as caught:
        read_sound(recording, 16_000)
    assert "ffmpeg -i RECORDING kept.wav" in str(caught.value.hint)


def test_wav_that_was_cut_off_is_refused_with_a_way_on() -> None:
    with pytest.raises(InputError, match="expected 1200 bytes at byte 44, got 1000") as caught:
        read_sound(wav_bytes(tones(1), 16_000)[:1044], 16_000)
    assert "cut off" in str(caught.value.hint)


def test_channels_that_cancel_each_other_are_silent() -> None:
    tone = tones(1)
    assert read_sound(wav_bytes(np.hstack([tone, -tone]), 16_000), 16_000).is_silent
    assert not read_sound(wav_bytes(np.hstack([tone, 0 * tone]), 16_000), 16_000).is_silent
    assert read_sound(wav_bytes(np.ones((9, 1)), 16_000), 16_000).is_silent


def float_wav(samples: np.ndarray, rate: int) -> bytes:
    content = samples.astype("<f4").tobytes()
    form = struct.pack("<IHHIIHH", 16, 3, 1, rate, 4 * rate, 4, 32)
    size = struct.pack("<I", 36 + len(content))
    data = b"data" + struct.pack("<I", len(content)) + content
    return b"RIFF" + size + b"WAVEfmt " + form + data


def test_samples_and_lengths_without_sense_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="expected finite samples, got NaN"):
        read_sound(float_wav(np.array([0.0, np.nan]), 16_000), 16_000)
    with pytest.raises(InputError, match="expected samples of at most 65,536, got one of 1e"):
        read_sound(float_wav(np.array([0.0, -1e30]), 16_000), 16_000)
    assert read_sound(float_wav(np.array([0.0, 2.0]), 16_000), 16_000).samples.tolist() == [0, 2]
    # Twelve hours are read; a file that claims more is refused before its samples are.
    monkeypatch.setattr(sound_files, "_MOST_HOURS", 1)
    long = np.zeros((3_600 * 1_000 + 1, 1))
    with pytest.raises(InputError, match="expected at most 1 hours, got 1"):
        read_sound(wav_bytes(long, 1_000), 16_000)
