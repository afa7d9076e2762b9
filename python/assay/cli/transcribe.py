"""`assay transcribe`: the text of a recording."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, sampling
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, report_of, working
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.engine.core.transcription import TranscribeAnswer

FORMATS = ("text", "srt", "vtt")


def transcribe_command(
    file: Annotated[
        str, argument("FILE", "A recording: WAV, FLAC, or what ffmpeg reads; - is a pipe.")
    ],
    model: Annotated[
        str, option("--model MODEL", "A name of assay models, a ggml file or a CTranslate2 folder.")
    ] = "whisper-tiny.en",
    language: Annotated[
        str | None,
        option("--language NAME", "Its language, such as en or english; heard if not given."),
    ] = None,
    task: Annotated[
        str, option("--task TASK", "transcribe, or translate into English.")
    ] = "transcribe",
    format: Annotated[str, option("--format FORMAT", "text, srt or vtt.")] = "text",
    word_times: Annotated[
        bool, option("--word-times", "Find out when each word is said; in JSON and VTT.")
    ] = False,
    timestamps: Annotated[
        bool, option("--timestamps/--no-timestamps", "Segments have times; on if not given.")
    ] = True,
    beam_size: Annotated[
        int | None,
        option("--beam-size COUNT", "Beams of the search, 5 if not given; 1 is greedy and faster."),
    ] = None,
    prompt: Annotated[
        str | None, option("--prompt TEXT", "Text before the recording: names, spelling, style.")
    ] = None,
    temperature: Annotated[
        float | None,
        option("--temperature NUMBER", "This one only, instead of higher ones where need be."),
    ] = None,
    compute_type: Annotated[
        str, option("--compute-type TYPE", "default, weights as they are stored, or int8, faster.")
    ] = "default",
    vad: Annotated[
        bool,
        option(
            "--vad/--no-vad", "Cut out silence first, which needs silero-vad; off if not given."
        ),
    ] = False,
    device: Annotated[
        str, option("--device NAME", "cpu, or cuda:0 for Whisper in half precision.")
    ] = "cpu",
    threads: sampling.Threads = None,
    as_json: options.Json = False,
) -> Report:
    """Write down what a recording says.

    Recordings of any rate, length and number of channels are taken as one channel of 16 kHz. The
    text of 30 seconds is context of the next; what is repetitive or unlikely is heard again at
    higher temperatures.
    """
    if format not in FORMATS:
        raise InputError(
            f"--format: expected {', '.join(FORMATS)}, got {format}",
            "--json prints JSON" if format.endswith("json") else None,
        )
    from assay.engine.core.transcription import transcribe

    source: str | bytes = sys.stdin.buffer.read() if file == "-" else file
    with working(f"transcribing {file}") as progress:
        answer = transcribe(
            source,
            model,
            language=language,
            task=task,
            beam_size=beam_size,
            word_times=word_times,
            timestamps=timestamps,
            prompt=prompt,
            temperature=temperature,
            compute_type=compute_type,
            vad=vad,
            threads=threads,
            device=device,
            progress=progress,
        )
    return report_of(
        answer,
        lambda canvas: _lines(answer, canvas),
        as_json,
        raw=None if format == "text" else _subtitles(answer, format),
    )


def _lines(answer: "TranscribeAnswer", canvas: Canvas) -> Iterator[Line]:
    """The text, a line a segment."""
    for segment in answer.segments:
        yield segment.text.strip()


def _subtitles(answer: "TranscribeAnswer", format: str) -> str:
    from assay.speech import subtitles

    return getattr(subtitles, format)(answer.segments)  # type: ignore[no-any-return]
