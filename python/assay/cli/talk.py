"""`assay talk`: a spoken conversation."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, sampling
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, report_of, show_note, working
from assay.errors import InputError
from assay.speech.kokoro.voice_names import DEFAULT_VOICE

if TYPE_CHECKING:
    from assay.talking.talk import TalkAnswer
    from assay.talking.turn import Turn


def talk_command(
    file: Annotated[
        str | None,
        argument("[FILE]", "A recording of questions, WAV or FLAC; a microphone if not given."),
    ] = None,
    output: Annotated[
        Path | None, option("--output -o FILE", "Write the answers as a WAV file.")
    ] = None,
    model: Annotated[
        str, option("--model MODEL", "The language model, as in assay chat.")
    ] = "smollm2",
    hearing: Annotated[
        str, option("--transcription-model MODEL", "What hears, as in assay transcribe.")
    ] = "moonshine-tiny",
    voice: Annotated[
        str, option("--voice NAME", "A voice of assay speak --voices.")
    ] = DEFAULT_VOICE,
    speed: Annotated[float, option("--speed FACTOR", "How fast it speaks: 0.25 to 4.")] = 1.0,
    system: Annotated[
        str | None, option("--system TEXT", "The system message of the language model.")
    ] = None,
    max_tokens: Annotated[int, option("--max-tokens COUNT", "Tokens of an answer at most.")] = 96,
    silence: Annotated[float, option("--silence SECONDS", "Silence that ends a turn.")] = 0.5,
    interrupt: Annotated[
        bool,
        option(
            "--interrupt/--no-interrupt",
            "Speech ends an answer; needs headphones at a microphone. On if not given.",
        ),
    ] = True,
    realtime: Annotated[
        bool,
        option(
            "--realtime/--no-realtime",
            "Hear FILE as fast as it was recorded, so that latencies are true; on if not given.",
        ),
    ] = True,
    device: Annotated[str, option("--device NAME", "cpu; speech has no other yet.")] = "cpu",
    threads: sampling.Threads = None,
    as_json: options.Json = False,
) -> Report:
    """Talk with a language model.

    Silero VAD finds out when somebody speaks and has said all, Moonshine writes it down, the language
    model answers and Kokoro says it, clause by clause. The three are tasks on one device, and
    speaking has a guaranteed share of it. New speech ends an answer. The latency is that from the
    last sample of speech to the first of the answer. A microphone needs the package sounddevice.
    """
    from assay._native import limit_kernel_threads
    from assay.engine import SamplingParams
    from assay.talking.conversation import SYSTEM, TalkOptions
    from assay.talking.stages import Models
    from assay.talking.talk import talk
    from assay.talking.turns import TurnOptions

    if file is None and output is not None:
        raise InputError("--output: expected FILE for the questions, got none")
    if max_tokens < 1:
        raise InputError(f"--max-tokens: expected 1 or more, got {max_tokens}")
    if threads is not None:
        if threads < 1:
            raise InputError(f"--threads: expected 1 or more, got {threads}")
        limit_kernel_threads(threads)
    chosen = TalkOptions(
        models=Models(hearing, model, voice, speed),
        turns=TurnOptions(silence=silence),
        system=SYSTEM if system is None else system,
        sampling=SamplingParams(max_tokens=max_tokens, temperature=0.0),
        can_interrupt=interrupt,
    )
    is_told = file is None and not as_json
    with working("loading models" if file is None else f"listening to {file}") as progress:

        def tell(turn: "Turn") -> None:
            if is_told:
                for line in _turn_lines(turn):
                    show_note(line)
            else:
                progress(f"heard: {turn.heard}")

        answer = talk(file, output, chosen, realtime=realtime, device=device, report=tell)
    return report_of(answer, lambda canvas: _lines(answer, canvas), as_json)


def _turn_lines(turn: "Turn") -> Iterator[str]:
    if turn.is_over:
        yield f"answer: {turn.said}"
    else:
        yield f"heard: {turn.heard}"


def _lines(answer: "TalkAnswer", canvas: Canvas) -> Iterator[Line]:
    for turn in answer.turns:
        yield f"question: {turn.heard}"
        yield f"answer: {turn.said}{' [interrupted]' if turn.is_cancelled else ''}"
        if answer.is_live and "first_audio" in turn.times:
            yield f"first audio {turn.times['first_audio']:.2f} s after the last speech: {_parts(turn)}"


def _parts(turn: "Turn") -> str:
    names = {
        "transcript": "transcript",
        "first_token": "first token",
        "first_clause": "first clause",
        "end_of_turn": "end of turn",
    }
    known = sorted((turn.times[name], text) for name, text in names.items() if name in turn.times)
    return ", ".join(f"{text} {seconds:.2f}" for seconds, text in known)
