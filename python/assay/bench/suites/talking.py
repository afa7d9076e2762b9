"""A conversation: how soon an answer is heard, and what speaking takes while the language model floods the device."""

from __future__ import annotations

import functools
import time
from typing import Final

import numpy as np

from assay.bench.harness.case import Case, Check, PreparedCase, Subject
from assay.bench.harness.clocks import SelfTimedClock
from assay.talking.conversation import TalkOptions
from assay.talking.stages import Models, Stages

MODELS: Final = ("silero-vad", "moonshine-tiny", "kokoro", "smollm2")
"""What has to be downloaded."""
QUESTION: Final = "What is the capital of France?"
ASKING_VOICE: Final = "am_adam"
SENTENCE: Final = "Good morning."
FLOODING: Final = 4
"""Requests under way at once."""
_FLOOD_TOKENS: Final = 400
_ROUNDS: Final = 3
_SELF_TIMED: Final = SelfTimedClock()


def cases(quick: bool) -> list[Case]:
    """The latency of a turn, and the guaranteed stage beside a flood and alone."""
    return [
        Case("talk, first audio after a question", "ms", _first_audio, rounds=_ROUNDS),
        Case(
            "talk, p99 of speaking beside a flood",
            "ms",
            functools.partial(_flooded, 5 if quick else 30),
            rounds=_ROUNDS,
        ),
    ]


def _first_audio() -> PreparedCase:
    from assay.engine.core.speaking import speak
    from assay.speech.wav import pcm16, wav_header
    from assay.talking.talk import talk

    asked = speak(QUESTION, voice=ASKING_VOICE)
    samples = pcm16(asked.waveform)
    recording = wav_header(asked.rate, len(samples)) + samples
    heard: list[str | None] = []

    def answer(_: int) -> float:
        answer = talk(recording)
        heard[:] = [turn.heard for turn in answer.turns]
        return answer.first_audio or float("nan")

    def error(number: int) -> float:
        answer(number)
        return float(heard != [QUESTION])

    return PreparedCase(
        Subject("assay", answer, _SELF_TIMED),
        Check("one turn, heard as it was said", error, 0.0),
        note="from the last sample of speech; with the silence that ends the turn",
    )


class _Flood:
    """The stages of a conversation, of which one speaks and another may write without end."""

    def __init__(self) -> None:
        self._options = TalkOptions()
        self._stages = Stages(Models(), "cpu", lambda outputs: None)
        self._messages = [{"role": "system", "content": self._options.system}]
        self._stages.warm_up(self._messages, self._options.models.voice)
        self.ended_early = False

    def p99(self, count: int, *, flooded: bool) -> float:
        """Of the seconds that a sentence takes."""
        stages, voice = self._stages, self._options.models.voice
        names = self._begin() if flooded else ()
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            stages.speaking.submit(lambda: list(stages.speaker.stream(SENTENCE, voice))).result()
            seconds.append(time.perf_counter() - start)
        self.ended_early |= flooded and not stages.thinking.under_way
        stages.thinking.cancel(names)
        # Behind the cancellation, between steps.
        stages.thinking.call(lambda: None).result()
        return float(np.quantile(seconds, 0.99))

    def _begin(self) -> tuple[str, ...]:
        from assay.engine import SamplingParams

        prompt = self._stages.prompt([*self._messages, {"role": "user", "content": QUESTION}])
        endless = SamplingParams(max_tokens=_FLOOD_TOKENS, temperature=0.0, ignore_eos=True)
        return tuple(self._stages.thinking.submit([prompt] * FLOODING, [endless] * FLOODING))


def _flooded(count: int) -> PreparedCase:
    flood = _Flood()
    return PreparedCase(
        Subject("beside a flood", lambda _: flood.p99(count, flooded=True), _SELF_TIMED),
        Check("the flood lasted", lambda _: float(flood.ended_early), 0.0),
        ceiling=Subject("alone", lambda _: flood.p99(count, flooded=False), _SELF_TIMED),
        note=f"80 % of the device guaranteed; {FLOODING} answers are written beside it",
    )
