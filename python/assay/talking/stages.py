"""The models of a conversation, each a task of the scheduler on one device.

Speaking has a guaranteed share: speech does not stutter while the language model computes. It and
the transcription share what is left. Voice activity is no task: it is computed in the thread that
listens, so that no sound is missed.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from assay.closing import Closing
from assay.engine import Engine, SamplingParams
from assay.engine.core.device_sharing import (
    DevicePlace,
    DeviceSharing,
    ModelShare,
    ShareStatistics,
    engine_settings,
)
from assay.engine.core.transcription import SpeechModel, voice_activity
from assay.engine.core.worker import EngineWorker, Sink
from assay.engine.loading.speech_files import speech_folder
from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import device as device_named
from assay.speech.kokoro.speaker import Speaker
from assay.speech.voice_activity import CHUNK
from assay.speech.whisper.search import SearchOptions
from assay.speech.whisper.transcribing import TranscribeOptions

T = TypeVar("T")

HEARING, THINKING, SPEAKING = "hearing", "thinking", "speaking"
SHARES: Final = (
    ModelShare(HEARING, 10),
    ModelShare(THINKING, 10),
    ModelShare(SPEAKING, 80, guaranteed=True),
)
_KV_TOKENS: Final = 2_048
_QUICK: Final = TranscribeOptions(
    search=SearchOptions(beam_size=1), temperatures=(0.0,), timestamps=False, previous_text=False
)
"""A turn is short and waits for its answer: greedy, at one temperature, without times."""


@dataclass(frozen=True, slots=True)
class Models:
    """Names or paths of the models, and the voice."""

    hearing: str = "moonshine-tiny"
    thinking: str = "smollm2"
    voice: str = "af_heart"
    speed: float = 1.0


class Stage:
    """A thread in its place on the device, and what it is asked to do, in order."""

    def __init__(self, place: DevicePlace) -> None:
        """Start the thread."""
        self._place = place
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        name = f"assay-{place.share.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Call a function in the thread."""
        future: Future[T] = Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)

        self._calls.put(call)
        return future

    def close(self) -> None:
        """End the thread, when it has done all."""
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        with self._place:
            while (call := self._calls.get()) is not None:
                call()
                self._place.stepped(has_work=not self._calls.empty())


class Stages(Closing):
    """All models, loaded and warm."""

    def __init__(self, models: Models, device: str, sink: Sink) -> None:
        """Load the models; what the language model writes goes to `sink`."""
        target = device_named(device)
        self._sharing = DeviceSharing(target, SHARES)
        self.detector: Final = voice_activity()
        with self._sharing.loading(HEARING):
            self.transcriber: Final = SpeechModel(models.hearing).transcriber(_QUICK)
        with self._sharing.loading(SPEAKING):
            self.speaker: Final = Speaker(speech_folder("kokoro"), target)
        thinking = next(share for share in SHARES if share.name == THINKING)
        with self._sharing.loading(THINKING):
            self.engine: Final = Engine.load(
                models.thinking, target, kv_tokens=_KV_TOKENS, **engine_settings(thinking, SHARES)
            )
        if self.engine.files.chat_template is None:
            name = self.engine.files.name
            self.engine.close()
            raise InputError(f'the model "{name}" has no chat template: expected one that answers')
        self._sharing.admit()
        places = self._sharing.places
        self.hearing: Final = Stage(places[HEARING])
        self.speaking: Final = Stage(places[SPEAKING])
        self.thinking: Final = EngineWorker(self.engine, sink, place=places[THINKING])

    def warm_up(self, system: Sequence[dict[str, str]], voice: str) -> None:
        """Run each model once, so that the first answer finds its kernels and its prompt ready."""
        quiet = np.zeros(2 * CHUNK, np.float32)
        calls = (
            self.hearing.submit(lambda: self.transcriber.transcribe(quiet)),
            self.speaking.submit(lambda: list(self.speaker.stream("Yes.", voice))),
        )
        for call in calls:
            call.result()
        prompt = self.prompt([*system, {"role": "user", "content": "Hello"}])
        params = SamplingParams(max_tokens=2, temperature=0.0)
        self.thinking.call(lambda: self.engine.generate([prompt], params)).result()

    def prompt(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Messages as tokens of the language model."""
        template = self.engine.files.chat_template
        assert template is not None
        rendered = template.render(list(messages))
        return self.engine.files.tokenizer.encode(rendered, add_special=False)

    def statistics(self) -> list[ShareStatistics]:
        """What each stage was promised and what it got."""
        return self._sharing.statistics()

    def close(self) -> None:
        """End all threads."""
        for stage in (self.hearing, self.speaking):
            stage.close()
        self.thinking.close()
