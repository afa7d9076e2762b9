"""`assay run --workload transcribe|speak`: the engine and the workload of speech."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from assay.engine.loading.speech_files import speech_folder
from assay.errors import InputError
from assay.improve.engines.speech import SpeakingEngine, SpeechEngine, TranscribingEngine
from assay.load.workloads.spec import parse_objective, parse_slo
from assay.load.workloads.texts import Writer
from assay.load.workloads.workload import Objective, PlannedRequest, ServiceLevel, Workload
from assay.runs.calibrated import hardware_of
from assay.runs.subject_options import SubjectOptions
from assay.runtime import Device
from assay.speech.log_mel import RATE
from assay.speech.moonshine.model import pieces
from assay.speech.sound_files import read_sound

TRANSCRIBE, SPEAK = "transcribe", "speak"
WORKLOADS: Final = (TRANSCRIBE, SPEAK)
SAMPLES: Final = "speech-samples"
DEFAULT_MODEL: Final = "whisper-tiny.en"
SENTENCES: Final = 8
_LONGEST: Final = 10 * RATE
"""Samples of a request: short ones give many answers to compare in little time."""
_OBJECTIVE: Final = Objective("request_throughput")
_MOST_TOKENS: Final = 448
"""Of a text of 30 seconds, by Whisper's context."""


def open_speech(
    asked: SubjectOptions, planned: Workload | None, say: Callable[[str], None]
) -> tuple[SpeechEngine, Workload]:
    """The engine of a workload of speech, and the workload."""
    _check(asked)
    engine: SpeechEngine
    if asked.workload == TRANSCRIBE:
        recordings = _recordings()
        engine = TranscribingEngine(asked.model or DEFAULT_MODEL, recordings)
        workload = planned or _transcribing(asked, recordings)
    else:
        if asked.model not in (None, "kokoro"):
            raise InputError(f"--model: expected kokoro for speak, got {asked.model}")
        workload = planned or _speaking(asked)
        engine = SpeakingEngine([request.prompt for request in workload.requests])
    if given := asked.settings():
        engine.configure(given)
    hardware = hardware_of(Device("cpu"), say, ("q8_0", "bf16", "f32"))
    say("counting the operations of each request")
    engine.count(hardware)
    return engine, workload


def _check(asked: SubjectOptions) -> None:
    given = ("concurrency", "rate", "input_tokens", "output_tokens", "maximize", "start")
    for name in given:
        if getattr(asked, name) is not None:
            raise InputError(
                f"--{name.replace('_', '-')}: expected none for {asked.workload}, got "
                f"{getattr(asked, name)}",
                "recordings and sentences come one after the other",
            )
    if asked.device not in (None, "cpu"):
        raise InputError(f"--device: expected cpu for {asked.workload}, got {asked.device}")


def _recordings() -> dict[str, Any]:
    """Recordings of known text, cut where they are quiet."""
    parts: dict[str, Any] = {}
    for path in sorted(speech_folder(SAMPLES).glob("*.wav")):
        samples = read_sound(path, RATE).samples
        for start, end in pieces(samples, _LONGEST):
            name = f"{path.name}, {start / RATE:.2f} to {end / RATE:.2f} s"
            parts[name] = samples[start:end]
    return parts


def _transcribing(asked: SubjectOptions, recordings: dict[str, Any]) -> Workload:
    seconds = sum(len(samples) for samples in recordings.values()) / RATE
    return Workload(
        TRANSCRIBE,
        "recordings to text, one after the other",
        tuple(PlannedRequest(at, name, _MOST_TOKENS) for at, name in enumerate(recordings)),
        objective=_objective(asked),
        slo=_slo(asked),
        notes=(
            f"{len(recordings)} recordings of {seconds:.1f} s in all (assay pull {SAMPLES}); a change "
            "is kept only if every word of them stays, punctuation aside",
        ),
    )


def _speaking(asked: SubjectOptions) -> Workload:
    writer = Writer(f"speak {asked.seed}")
    texts = [writer.sentence() for _ in range(SENTENCES)]
    return Workload(
        SPEAK,
        "sentences to speech, one after the other",
        tuple(PlannedRequest(at, text, len(text.split())) for at, text in enumerate(texts)),
        objective=_objective(asked),
        slo=_slo(asked),
        notes=(
            "generated English sentences; a change is kept only if whisper-tiny.en hears the same "
            "words in the speech before and after it",
        ),
    )


def _objective(asked: SubjectOptions) -> Objective:
    return _OBJECTIVE if asked.metric is None else parse_objective("--metric", asked.metric)


def _slo(asked: SubjectOptions) -> ServiceLevel:
    if isinstance(asked.slo, str):
        return parse_slo("--slo", asked.slo)
    return asked.slo or ServiceLevel()
