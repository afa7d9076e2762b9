"""`assay predict-speech`: what a transcription or speech should take on this machine."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table

if TYPE_CHECKING:
    from assay.planner.speech import SpeechPrediction


def predict_speech_command(
    model: Annotated[
        str, argument("MODEL", "A model of Whisper, by name or path, to hear; kokoro to speak.")
    ],
    seconds: Annotated[float, option("--seconds S", "Length of the recording, or of the speech.")],
    tokens: Annotated[
        int | None, option("--tokens N", "Whisper: tokens of text in each 30 seconds.")
    ] = None,
    phonemes: Annotated[int | None, option("--phonemes N", "Kokoro: phonemes of the text.")] = None,
    beam_size: Annotated[int, option("--beam-size N", "Whisper: texts followed at once.")] = 5,
    compute_type: Annotated[
        str, option("--compute-type TYPE", "default, int8 (Whisper) or bfloat16 (Kokoro).")
    ] = "default",
    gpu: Annotated[
        str, option("--gpu CALIBRATION", "A calibration of a CPU: cpu, here, or a file.")
    ] = "cpu",
    as_json: options.Json = False,
) -> Report:
    """Predict the time of a transcription or of speech.

    What the model computes, at the rates that assay calibrate measured, and the floor: every
    product at the best rate of the machine. Nothing runs.
    """
    from assay.planner.speech import predict_speech

    answer = predict_speech(
        model, seconds, tokens=tokens, phonemes=phonemes, beam_size=beam_size,
        compute_type=compute_type, hardware=gpu,
    )  # fmt: skip
    return report_of(answer, lambda canvas: _text(answer, canvas), as_json)


def _text(answer: "SpeechPrediction", canvas: Canvas) -> Iterator[Line]:
    share = 100 * answer.floor_s / answer.seconds
    yield from facts(
        [
            ("model", answer.model),
            ("on", answer.hardware),
            ("sound", f"{answer.audio_s:g} s"),
            ("time", f"{answer.seconds * 1e3:,.1f} ms, RTF {answer.real_time_factor:.4f}"),
            ("floor", f"{answer.floor_s * 1e3:,.1f} ms ({share:.0f} %)"),
        ],
        canvas,
    )
    yield ""
    cells: list[tuple[Part, ...]] = [
        (
            (part.part, styles.NAME),
            f"{part.gflop:,.2f}",
            (f"{part.seconds * 1e3:,.1f}", styles.VALUE),
            f"{part.floor_s * 1e3:,.1f}",
        )
        for part in answer.parts
    ]
    yield from table(("part", "GFLOP", "ms", "floor ms"), cells, canvas, right=(1, 2, 3))
