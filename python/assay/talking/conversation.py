"""Joins the stages: listens without a break, prepares an answer in each pause, says it at a turn's end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from assay.engine import SamplingParams
from assay.engine.core.worker import Failure
from assay.lazy_import import np
from assay.talking.players import Player, Timeline
from assay.talking.sources import Source
from assay.talking.stages import Models, Stages
from assay.talking.turn import SaidPiece, Turn
from assay.talking.turns import Event, Kind, TurnDetector, TurnOptions

if TYPE_CHECKING:
    from assay.engine.requests.outputs import StepOutput

_REMEMBERED: Final = 8
"""Messages of the conversation that the language model sees, besides the system message."""
SYSTEM: Final = "You are a helpful voice assistant. Answer in one or two short sentences."


@dataclass(frozen=True, slots=True)
class TalkOptions:
    """How a conversation is held."""

    models: Models = field(default_factory=Models)
    turns: TurnOptions = field(default_factory=TurnOptions)
    system: str = SYSTEM
    sampling: SamplingParams = field(
        default_factory=lambda: SamplingParams(max_tokens=96, temperature=0.0)
    )
    can_interrupt: bool = True
    """Whether speech ends an answer; without headphones a microphone hears the answer itself."""


Report = Callable[[Turn], None]
"""Called when a turn's transcript is known, and when its answer has ended."""


class Conversation:
    """Turns of one speaker and a language model."""

    def __init__(
        self, options: TalkOptions, source: Source, player: Player, report: Report, device: str
    ) -> None:
        """Load the models; `run` begins to listen."""
        self._options: Final = options
        self._source: Final = source
        self._player: Final = player
        self._report: Final = report
        self._system = [{"role": "system", "content": options.system}] if options.system else []
        self._messages: list[dict[str, str]] = []
        self._changed = threading.Condition()
        """Guards turns, which the threads of all stages change."""
        self._requests: dict[str, Turn] = {}
        self._turn: Turn | None = None
        self._error: BaseException | None = None
        self.turns: list[Turn] = []
        """Those that were answered."""
        self.listening_seconds: list[float] = []
        """How long each chunk took to be judged."""
        self.stages: Final = Stages(options.models, device, self._written)
        self.stages.warm_up(self._system, options.models.voice)

    def run(self) -> None:
        """Listen until the source has nothing more to say and everything is answered."""
        detector, voice = TurnDetector(self._options.turns), self.stages.detector
        voice.reset()
        kept = np.zeros(0, np.float32)
        first = 0
        for chunk in self._source.chunks():
            began = time.perf_counter()
            [probability] = voice.push(chunk)
            self.listening_seconds.append(time.perf_counter() - began)
            kept = np.concatenate([kept, chunk])
            for event in detector.push(float(probability)):
                self._happened(event, kept[event.start - first : event.end - first])
            dropped = detector.needed_from - first
            kept, first = kept[max(dropped, 0) :], first + max(dropped, 0)
            with self._changed:
                if self._error is not None:
                    raise self._error
                if self._source.is_over and detector.is_idle and self._turn_is_over():
                    return

    def _happened(self, event: Event, samples: Any) -> None:
        with self._changed:
            if event.kind is Kind.BEGAN and self._options.can_interrupt:
                self._interrupt()
            elif event.kind is Kind.PAUSED and self._turn_is_over():
                self._prepare(Turn(samples, self._source.when(event.end)))
            elif event.kind is Kind.RESUMED and self._turn is not None:
                if not self._turn.is_committed:
                    self._cancel(self._turn)
            elif event.kind is Kind.ENDED and self._turn is not None:
                self._commit(self._turn)
                if not self._source.is_live:
                    self._changed.wait_for(lambda: self._turn_is_over() or self._error is not None)

    def _turn_is_over(self) -> bool:
        return self._turn is None or self._turn.is_over

    def _prepare(self, turn: Turn) -> None:
        self._turn = turn
        self._watch(self.stages.hearing.submit(partial(self._hear, turn)))

    def _hear(self, turn: Turn) -> None:
        if turn.is_cancelled:
            return
        text = self.stages.transcriber.transcribe(turn.samples).text
        with self._changed:
            turn.mark("transcript", time.perf_counter())
            if turn.is_cancelled:
                return
            turn.heard = text
            if not text:
                self._cancel(turn)
                return
            self._report(turn)
            messages = [*self._system, *self._messages[-_REMEMBERED:], _message("user", text)]
            prompt = self.stages.prompt(messages)
            # The lock is held: what is written is delivered when the request has its turn.
            [turn.request] = self.stages.thinking.submit([prompt], [self._options.sampling])
            self._requests[turn.request] = turn

    def _written(self, outputs: Sequence[StepOutput | Failure]) -> None:
        """More text of the language model; called by its thread."""
        now = time.perf_counter()
        with self._changed:
            for output in outputs:
                turn = self._requests.get(output.request_id)
                if turn is None:
                    continue
                if isinstance(output, Failure):
                    self._fail(output.error)
                    continue
                turn.mark("first_token", now)
                pieces = list(turn.clauses.push(output.text))
                if output.finished:
                    pieces += turn.clauses.finish()
                for piece in pieces:
                    turn.mark("first_clause", now)
                    self._watch(self.stages.speaking.submit(partial(self._say, turn, piece)))
                if output.finished:
                    del self._requests[output.request_id]
                    self._watch(self.stages.speaking.submit(partial(self._complete, turn)))

    def _say(self, turn: Turn, piece: str) -> None:
        if turn.is_cancelled:
            return
        models = self._options.models
        for sentence in self.stages.speaker.stream(piece, models.voice, speed=models.speed):
            if not len(sentence.waveform):
                continue
            with self._changed:
                if turn.is_cancelled:
                    return
                turn.pieces.append(SaidPiece(sentence.text, sentence.waveform))
                if turn.is_committed:
                    self._play(turn, sentence.waveform)

    def _commit(self, turn: Turn) -> None:
        if turn.is_cancelled or turn.is_committed:
            return
        turn.is_committed = True
        turn.mark("end_of_turn", time.perf_counter())
        self.turns.append(turn)
        for piece in turn.pieces:
            self._play(turn, piece.samples)
        if turn.is_complete:
            self._remember(turn)
        self._changed.notify_all()

    def _play(self, turn: Turn, samples: Any) -> None:
        if "first_audio" in turn.times and isinstance(self._player, Timeline):
            self._player.gap()
        self._player.play(samples)
        turn.mark("first_audio", time.perf_counter())

    def _complete(self, turn: Turn) -> None:
        with self._changed:
            turn.is_complete = True
            if turn.is_committed and not turn.is_cancelled:
                self._remember(turn)
            self._changed.notify_all()

    def _interrupt(self) -> None:
        """Somebody speaks: an answer that is being said ends."""
        turn = self._turn
        if turn is None or not turn.is_committed:
            return
        if turn.is_over and self._player.left <= 0:
            return
        was_complete = turn.is_complete
        turn.lost = self._player.stop()
        self._cancel(turn)
        if was_complete:
            self._messages = self._messages[:-2]
        self._remember(turn)

    def _cancel(self, turn: Turn) -> None:
        turn.is_cancelled = True
        if turn.request is not None and self._requests.pop(turn.request, None) is not None:
            self.stages.thinking.cancel([turn.request])
        self._changed.notify_all()

    def _remember(self, turn: Turn) -> None:
        """The turn is part of what the next answers know."""
        if turn.heard and turn.said:
            self._messages += [_message("user", turn.heard), _message("assistant", turn.said)]
        self._report(turn)

    def _watch(self, future: Future[Any]) -> None:
        def failed(done: Future[Any]) -> None:
            if (error := done.exception()) is not None:
                with self._changed:
                    self._fail(error)

        future.add_done_callback(failed)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._changed.notify_all()

    def close(self) -> None:
        """Free the models."""
        with self._changed:
            if self._turn is not None and not self._turn.is_over:
                self._cancel(self._turn)
        self.stages.close()


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
