"""Models of speech behind the protocol of the loop: recordings to text, and text to speech.

A request is a recording or a sentence, an answer its words. The gates compare words: where one
differs there is no near tie to excuse it, so that only changes that keep every word are kept.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assay._native import build_info, kernel_threads, limit_kernel_threads
from assay.engine.core.transcription import SpeechModel, beams_of
from assay.engine.loading.speech_files import speech_folder
from assay.errors import InputError
from assay.improve.engines.disturbance import DisturbanceMeter
from assay.improve.engines.one_by_one import measured
from assay.improve.engines.protocol import (
    FLOOR,
    Engine as EngineProtocol,
    EngineDescription,
    EngineKnob,
    ProbeAnswer,
    Undo,
)
from assay.load.workloads.measurement import STOPPED, Measurement, RequestRecord, Setting
from assay.load.workloads.workload import PlannedRequest, Window, Workload
from assay.planner.counted import Work, floor_seconds
from assay.planner.specs import HardwareSpec
from assay.runtime import device as device_named
from assay.runtime.fingerprint import machine
from assay.speech.kokoro.harmonics import SAMPLE_RATE
from assay.speech.kokoro.model import COMPUTE_TYPES as KOKORO_TYPES
from assay.speech.kokoro.speaker import Speaker
from assay.speech.kokoro.voice_names import DEFAULT_VOICE
from assay.speech.log_mel import RATE
from assay.speech.resampling import resample
from assay.speech.whisper.layers import COMPUTE_TYPES
from assay.speech.whisper.search import SearchOptions
from assay.speech.whisper.transcribing import TranscribeOptions
from assay.speech.word_errors import words_of

ENGINE: Final = "assay-speech"
LISTENER: Final = "whisper-tiny.en"
"""What hears whether speech says its words."""
_MOST_BEAMS: Final = 16

Pieces = Iterator[str]
"""What a request gives, piece by piece: the text of a segment, or of a sentence that was said."""


class SpeechEngine(EngineProtocol):
    """A model of speech in this process, one request after the other; every knob is live."""

    def __init__(self, model: str, requests: Sequence[str]) -> None:
        """Tune a model, known by name or path, by requests that workloads name by their number."""
        self._model = model
        self._requests = tuple(requests)
        self._floor_s: float | None = None
        self._meter = DisturbanceMeter()
        self._asked: dict[str, Setting] = {
            name: knob.default for name, knob in self.knobs().items()
        }

    @abstractmethod
    def _answer(self, request: str) -> Pieces:
        """Answer a request."""

    @abstractmethod
    def _words(self, request: str) -> str:
        """What the answer to a request says."""

    @abstractmethod
    def _load(self) -> None:
        """Load the model as the settings say."""

    def describe(self) -> EngineDescription:
        """The model and the machine."""
        device = device_named("cpu")
        capabilities = {"cpu", "cpu-threads", "hot-knobs"}
        if (os.cpu_count() or 1) > 1:
            capabilities.add("multi-core")
        return EngineDescription(
            engine=ENGINE,
            release=build_info()["version"],
            model=self._model,
            device=device.name,
            hardware=machine(device).to_data(),
            capabilities=frozenset(capabilities),
            details={} if self._floor_s is None else {FLOOR: self._floor_s},
        )

    def count(self, hardware: HardwareSpec) -> None:
        """Answer each request once, and add up the floor of its operations on a machine."""
        device = device_named("cpu")
        device.take_records()
        for request in self._requests:
            for _ in self._answer(request):
                pass
        records = device.take_records().records
        work = [Work(record.flops, record.bytes) for record in records if record.flops]
        self._floor_s = floor_seconds(work, hardware) / len(self._requests)

    def knobs(self) -> Mapping[str, EngineKnob]:
        """Threads of kernels; models have more."""
        _, available = kernel_threads()
        meaning = "threads of kernels; 0 for all cores"
        return {"threads": EngineKnob("threads", meaning, 0, True, 0, available)}

    def settings(self) -> Mapping[str, Setting]:
        """What was asked for; threads are those that kernels really use."""
        used, available = kernel_threads()
        asked = self._asked["threads"] or available
        return {**self._asked, "threads": self._asked["threads"] if used == asked else used}

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Change knobs; another format of weights loads the model again."""
        knobs = self.knobs()
        for name, value in changes.items():
            _check(knobs, name, value)
        before = dict(self._asked)
        self._asked |= changes
        try:
            self._apply(before)
        except Exception:
            self._asked = before
            raise
        return lambda: None if before == self._asked else self._back(before)

    def _back(self, before: dict[str, Setting]) -> None:
        self.configure(before)

    def _apply(self, before: Mapping[str, Setting]) -> None:
        _, available = kernel_threads()
        limit_kernel_threads(int(self._asked["threads"] or available))
        if any(before[name] != value for name, value in self._asked.items() if name != "threads"):
            self._load()

    def measure(self, workload: Workload, window: Window) -> Measurement:
        """Answer requests, one after the other."""
        return measured(workload, window, self._window, self._meter, self.settings())

    def _window(self, workload: Workload, window: Window) -> Iterator[RequestRecord]:
        start = time.perf_counter()
        number = 0
        while window.requests is None or number < window.requests:
            sent = time.perf_counter() - start
            if window.seconds is not None and sent >= window.seconds and number:
                return
            request = workload.requests[(window.offset + number) % len(workload.requests)]
            yield self._record(request, start)
            number += 1

    def _record(self, request: PlannedRequest, start: float) -> RequestRecord:
        sent, first, said = time.perf_counter(), None, []
        # A mark behind the prompt, against caches of text, is part of no recording's name.
        asked = self._requests[request.number]
        for piece in self._answer(asked):
            first = first or time.perf_counter()
            said.append(piece)
        end = time.perf_counter()
        # Words are what is compared: commas come and go with rounding.
        text = " ".join(words_of("".join(said)))
        return RequestRecord(
            number=request.number,
            sent_s=sent - start,
            first_token_s=(first or end) - start,
            end_s=end - start,
            prompt_tokens=len(words_of(asked)),
            output_tokens=max(len(text.split()), 1),
            digest=hashlib.sha256(text.encode()).hexdigest(),
            output=text,
            finish_reason=STOPPED,
        )

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """The words of answers to requests; each prompt stands for one of them."""
        heard: dict[str, ProbeAnswer] = {}
        answers = []
        for prompt in prompts:
            request = self._requests[_place(prompt) % len(self._requests)]
            if request not in heard:
                words = tuple(f"{word} " for word in words_of(self._words(request)))
                heard[request] = ProbeAnswer((), words, (), ())
            answers.append(heard[request])
        return answers

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        """No trace: steps of a language model are what a trace is cut into."""
        return None

    def close(self) -> None:
        """Use all cores again."""
        limit_kernel_threads(kernel_threads()[1])

    def _command(self, words: list[str], settings: Mapping[str, Setting]) -> str:
        for name, knob in self.knobs().items():
            value = settings.get(name, knob.default)
            if value != knob.default:
                words += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join(words)


class TranscribingEngine(SpeechEngine):
    """`assay transcribe`: a request names a recording of `recordings`."""

    def __init__(self, model: str, recordings: Mapping[str, Any]) -> None:
        """Load a model; recordings are samples of 16 kHz by name."""
        self._is_whisper = beams_of(model) > 1
        super().__init__(model, list(recordings))
        self._recordings = recordings
        self._load()

    def knobs(self) -> Mapping[str, EngineKnob]:
        """Beams and the compute type besides, of Whisper."""
        own = dict(super().knobs())
        if self._is_whisper:
            beams = beams_of(self._model)
            meaning = "beams of the search; 1 is greedy"
            own["beam_size"] = EngineKnob("beam_size", meaning, beams, True, 1, _MOST_BEAMS)
            meaning = "weights as they are stored, or quantized to 8 bits"
            own["compute_type"] = EngineKnob(
                "compute_type", meaning, COMPUTE_TYPES[0], True, choices=COMPUTE_TYPES
            )
        return own

    def _load(self) -> None:
        beams = self._asked.get("beam_size", 1)
        options = TranscribeOptions(search=SearchOptions(beam_size=int(beams or 1)))
        model = SpeechModel(self._model, str(self._asked.get("compute_type", COMPUTE_TYPES[0])))
        self._transcriber = model.transcriber(options)

    def _answer(self, request: str) -> Pieces:
        for segment in self._transcriber.stream(self._recordings[request]):
            yield segment.text

    def _words(self, request: str) -> str:
        return "".join(self._answer(request))

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        """`assay transcribe` with every knob that differs from its default."""
        return self._command(["assay", "transcribe", "FILE", "--model", self._model], settings)


class SpeakingEngine(SpeechEngine):
    """`assay speak`: a request is a text."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Load Kokoro, and what hears it."""
        super().__init__("kokoro", texts)
        self._load()
        options = TranscribeOptions(search=SearchOptions(beam_size=1), temperatures=(0.0,))
        self._listener = SpeechModel(LISTENER).transcriber(options)

    def knobs(self) -> Mapping[str, EngineKnob]:
        """The compute type besides."""
        meaning = "single precision, or sound in bfloat16"
        compute_type = EngineKnob(
            "compute_type", meaning, KOKORO_TYPES[0], True, choices=KOKORO_TYPES
        )
        return {**super().knobs(), "compute_type": compute_type}

    def _load(self) -> None:
        compute_type = str(self._asked["compute_type"])
        self._speaker = Speaker(speech_folder("kokoro"), compute_type=compute_type)

    def _answer(self, request: str) -> Pieces:
        for sentence in self._speaker.stream(request, DEFAULT_VOICE):
            yield sentence.text

    def _words(self, request: str) -> str:
        return " ".join(
            self._listener.transcribe(resample(sentence.waveform, SAMPLE_RATE, RATE)).text
            for sentence in self._speaker.stream(request, DEFAULT_VOICE)
        )

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        """`assay speak` with every knob that differs from its default."""
        return self._command(["assay", "speak", "TEXT"], settings)


def _place(prompt: str) -> int:
    """A number that is the same whenever a prompt is asked."""
    return int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big")


def _check(knobs: Mapping[str, EngineKnob], name: str, value: Setting) -> None:
    knob = knobs.get(name)
    if knob is None:
        raise InputError(f"{name}: expected a knob of {', '.join(knobs)}, got {name}")
    if knob.choices is not None and value not in knob.choices:
        choices = ", ".join(str(choice) for choice in knob.choices)
        raise InputError(f"{name}: expected one of {choices}, got {value}")
    if knob.choices is None:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not (knob.least or 0) <= float(value or 0) <= (knob.most or 0):
            raise InputError(f"{name}: expected {knob.least} to {knob.most}, got {value}")
