"""`assay speak`: text to speech."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, sampling, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, show_note, stdout_errors, table, working
from assay.errors import InputError
from assay.speech.kokoro.voice_names import DEFAULT_VOICE, LANGUAGES, VOICES

if TYPE_CHECKING:
    from assay.speech.kokoro.speaker import Sentence

MAX_TEXT_BYTES = 1 << 20


def speak_command(
    text: Annotated[
        str | None, argument("[TEXT]", "The text to say; - reads it from stdin.")
    ] = None,
    output: Annotated[
        Path | None, option("--output -o FILE", "Write a WAV file instead of playing the speech.")
    ] = None,
    voice: Annotated[
        str, option("--voice NAME", "A voice, or a mixture such as af_heart:2+am_adam.")
    ] = DEFAULT_VOICE,
    speed: Annotated[float, option("--speed FACTOR", "How fast: 0.25 to 4.")] = 1.0,
    phonemes: Annotated[
        bool, option("--phonemes", "TEXT is phonemes, in the letters of Kokoro's vocabulary.")
    ] = False,
    seed: Annotated[
        int, option("--seed NUMBER", "Seed of the noise that the voice is made of.")
    ] = 0,
    voices: Annotated[bool, option("--voices", "List the voices.")] = False,
    compute_type: Annotated[
        str, option("--compute-type TYPE", "default, or bfloat16, faster and less exact.")
    ] = "default",
    device: Annotated[str, option("--device DEVICE", "Device: cpu or cuda:0.")] = "cpu",
    threads: sampling.Threads = None,
    as_json: options.Json = False,
) -> Report | int:
    """Say a text with Kokoro-82M.

    A WAV file goes to --output, or to stdout where that is a pipe or a file, sentence by sentence;
    at a terminal the speech is played, which needs the package sounddevice. Numbers, dates, money
    and abbreviations are said as words; words of no list are spelled out by a small network, and
    named. Fetch the model with: assay pull kokoro.
    """
    if voices:
        return _voices(as_json)
    from assay.engine.core.transcription import limit_threads
    from assay.engine.loading.speech_files import speech_folder
    from assay.speech.kokoro.speaker import Speaker, check_request
    from assay.speech.wav import check_wav_path

    spoken = _text(text)
    check_request(spoken, voice, speed, as_phonemes=phonemes)
    if output is not None:
        check_wav_path(output)
    if as_json and output is None:
        raise InputError("--json: expected --output FILE for the speech, got none")
    play = output is None and sys.stdout.isatty()
    player = _player() if play else None
    folder = speech_folder("kokoro")
    if threads is not None:
        limit_threads(threads)
    said: list[Sentence] = []
    began = time.perf_counter()
    first: float | None = None
    with working("speaking") as progress:
        speaker = Speaker(folder, device, compute_type)
        if not phonemes:
            speaker.check_words(spoken, voice)
        loaded = time.perf_counter()
        with _Sink(output, player) as sink:
            for sentence in speaker.stream(
                spoken, voice, speed=speed, seed=seed, as_phonemes=phonemes
            ):
                sink.write(sentence)
                if first is None and sentence.seconds:
                    first = time.perf_counter() - loaded
                said.append(sentence)
                progress(f"{sum(part.seconds for part in said):.1f} s of speech")
    data = _data(spoken, voice, speed, said, output)
    data["seconds"]["loading"] = loaded - began
    data["seconds"]["first_audio"] = first
    if output is None:
        for note in _notes(said):
            show_note(note)
        return 0
    seconds = data["seconds"]["speech"]
    line = f"{output}: {seconds:.2f} s of speech, {voice}"
    return Report(data, lambda canvas: [line], as_json, notes=_notes(said))


def _text(text: str | None) -> str:
    if text is not None and text != "-":
        return text
    if text is None and sys.stdin.isatty():
        raise InputError(
            "TEXT: expected a text to say, got none", 'for example: assay speak "Hello."'
        )
    content = sys.stdin.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise InputError(f"stdin: expected at most {MAX_TEXT_BYTES:,} characters, got more")
    return content


def _player() -> Any:
    """What plays samples at once."""
    try:
        import sounddevice
    except (ImportError, OSError):
        raise InputError(
            "stdout: expected a pipe or a file for the speech, or the package sounddevice to play it, "
            "got a terminal without it",
            "write a file with: --output speech.wav",
        ) from None
    return sounddevice


class _Sink:
    """Where sentences go as they are computed: a WAV file, stdout, or a loudspeaker."""

    def __init__(self, output: Path | None, player: Any) -> None:
        from assay.speech.kokoro.harmonics import SAMPLE_RATE
        from assay.speech.wav import wav_header

        self._rate, self._player, self._path = SAMPLE_RATE, player, output
        self._written = 0
        self._file: Any = None
        if player is not None:
            self._file = player.RawOutputStream(samplerate=SAMPLE_RATE, channels=1, dtype="int16")
            self._file.start()
        elif output is not None:
            self._file = output.open("wb")
            self._file.write(wav_header(SAMPLE_RATE, 0))
        else:
            self._file = sys.stdout.buffer
            self._to_stdout(wav_header(SAMPLE_RATE, None))

    def __enter__(self) -> "_Sink":
        return self

    def write(self, sentence: "Sentence") -> None:
        """Add a sentence."""
        from assay.speech.wav import pcm16

        samples = pcm16(sentence.waveform)
        self._written += len(samples)
        if self._path is None and self._player is None:
            self._to_stdout(samples)
        else:
            self._file.write(samples)

    def _to_stdout(self, content: bytes) -> None:
        with stdout_errors():
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()

    def __exit__(self, *_: object) -> None:
        from assay.speech.wav import wav_header

        if self._player is not None:
            self._file.stop()
            self._file.close()
        elif self._path is not None:
            self._file.seek(0)
            self._file.write(wav_header(self._rate, self._written))
            self._file.close()


def _data(
    text: str, voice: str, speed: float, said: "list[Sentence]", output: Path | None
) -> dict[str, Any]:
    from assay.speech.kokoro.harmonics import SAMPLE_RATE

    return {
        "model": "kokoro",
        "text": text,
        "voice": voice,
        "speed": speed,
        "path": None if output is None else str(output),
        "sample_rate": SAMPLE_RATE,
        "seconds": {
            "speech": sum(sentence.seconds for sentence in said),
            "synthesis": sum(sentence.synthesis_seconds for sentence in said),
        },
        "sentences": [
            {
                "text": sentence.text,
                "phonemes": sentence.phonemes.text,
                "seconds": sentence.seconds,
                "synthesis_seconds": sentence.synthesis_seconds,
                "spelled": list(sentence.phonemes.spelled),
                "left_out": list(sentence.phonemes.left_out),
            }
            for sentence in said
        ],
    }


def _notes(said: "list[Sentence]") -> list[str]:
    spelled = dict.fromkeys(word for sentence in said for word in sentence.phonemes.spelled)
    left_out = dict.fromkeys(word for sentence in said for word in sentence.phonemes.left_out)
    notes = []
    if spelled:
        notes.append(f"in no word list, spelled out by a network: {', '.join(spelled)}")
    if left_out:
        notes.append(f"not English, left out: {', '.join(left_out)}")
    return notes


def _voices(as_json: bool) -> Report:
    rows = [
        {
            "voice": voice,
            "language": LANGUAGES[voice[0]],
            "sex": "female" if voice[1] == "f" else "male",
        }
        for voice in VOICES
    ]

    def lines(canvas: Canvas) -> Iterator[Line]:
        cells: list[tuple[Part, ...]] = [
            ((row["voice"], styles.NAME), row["language"], row["sex"]) for row in rows
        ]
        yield from table(("voice", "language", "sex"), cells, canvas)

    return Report(rows, lines, as_json)
