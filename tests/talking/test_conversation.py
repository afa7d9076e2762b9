"""A conversation of stages that answer at once: preparing, going on, answering, interrupting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assay.engine.requests.outputs import Chunk, StepOutput
from assay.errors import InputError
from assay.speech.voice_activity import CHUNK
from assay.talking import conversation as conversations
from assay.talking.conversation import Conversation, TalkOptions
from assay.talking.sources import Microphone
from assay.talking.turn import Turn


class AtOnce:
    """A stage that does what it is asked in the thread that asks."""

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
        return future


class FakeStages:
    """Hears the number of chunks of a turn, and answers with words, one a step."""

    def __init__(self, models: object, device: str, sink: Callable[[Sequence[Any]], None]) -> None:
        self.hearing = self.speaking = AtOnce()
        self.detector = SimpleNamespace(reset=lambda: None, push=lambda chunk: [chunk[0]])
        self.transcriber = SimpleNamespace(transcribe=self._heard)
        self.speaker = SimpleNamespace(stream=self._said)
        self.thinking = self
        self.prompts: list[Any] = []
        self.cancelled: list[str] = []
        self._sink = sink
        self.running: dict[str, list[str]] = {}

    def warm_up(self, system: object, voice: str) -> None:
        """Nothing is cold."""

    def prompt(self, messages: Any) -> Any:
        return [message["content"] for message in messages]

    def submit(self, prompts: Sequence[Any], params: object) -> list[str]:
        self.prompts += prompts
        name = f"request {len(self.prompts)}"
        self.running[name] = ["First, ", "a second. ", "Then ", "the end."]
        return [name]

    def cancel(self, names: Sequence[str]) -> None:
        self.cancelled += names
        for name in names:
            self.running.pop(name, None)

    def step(self) -> None:
        """One more word of each answer."""
        for name, words in list(self.running.items()):
            word = words.pop(0)
            end = None if words else "stop"
            if not words:
                del self.running[name]
            self._sink([StepOutput(name, (Chunk(word, 1, finish_reason=end),))])

    def close(self) -> None:
        """Nothing is open."""

    def _heard(self, samples: Any) -> Any:
        if samples[0] > 0.95:
            raise InputError("hearing: failed")
        return SimpleNamespace(text=f"{len(samples) // CHUNK} chunks")

    def _said(self, piece: str, voice: str, *, speed: float) -> Iterator[Any]:
        yield SimpleNamespace(text=piece, waveform=np.full(2_400, 0.5, np.float32))


class FakeSource:
    """Runs of a probability; the language model makes a step with each chunk."""

    is_live = True

    def __init__(self, *runs: tuple[float, int]) -> None:
        self._left = [probability for probability, count in runs for _ in range(count)]
        self.is_over = False
        self.stages: FakeStages | None = None

    def chunks(self) -> Iterator[Any]:
        for _ in range(1_000):
            assert self.stages is not None
            self.stages.step()
            self.is_over = not self._left
            yield np.full(CHUNK, self._left.pop(0) if self._left else 0.0, np.float32)
        pytest.fail("expected the conversation to end")

    def when(self, sample: int) -> float:
        return 0.0


class FakePlayer:
    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.left = 0.0
        self.stops = 0

    def play(self, samples: Any) -> None:
        self.parts.append(samples)
        self.left += 0.1

    def stop(self) -> float:
        """The last piece and half of the one before were not heard."""
        self.stops += 1
        self.left = 0.0
        return 0.15


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(conversations, "Stages", FakeStages)

    def run(*runs: tuple[float, int], **options: Any) -> Any:
        source, player = FakeSource(*runs), FakePlayer()
        reports: list[tuple[str | None, str]] = []

        def report(turn: Turn) -> None:
            reports.append((turn.heard, turn.said))

        talking = Conversation(TalkOptions(**options), source, player, report, "cpu")
        stages: Any = talking.stages
        source.stages = stages
        talking.run()
        talking.close()
        return SimpleNamespace(turns=talking.turns, stages=stages, player=player, reports=reports)

    return run


WHOLE = "First, a second. Then the end."


def test_an_answer_is_prepared_in_a_pause_and_said_at_the_end(talk: Callable[..., Any]) -> None:
    done = talk((0.0, 20), (0.9, 20), (0.0, 30))
    [turn] = done.turns
    # With 0.3 s of padding.
    assert (turn.heard, turn.said) == ("29 chunks", WHOLE)
    assert done.reports == [("29 chunks", ""), ("29 chunks", WHOLE)]
    assert len(done.player.parts) == 3
    # The transcript was ready before the turn had ended, and no sound came before it had.
    names = [name for name, _ in sorted(turn.times.items(), key=lambda item: item[1])]
    assert names == ["transcript", "first_token", "first_clause", "end_of_turn", "first_audio"]
    assert list(turn.to_json(is_live=True)["seconds"]) == names
    # Heard at once, the last sample has no time of its own.
    assert turn.to_json(is_live=False)["seconds"] is None


def test_what_was_prepared_is_dropped_where_speech_goes_on(talk: Callable[..., Any]) -> None:
    done = talk((0.9, 20), (0.0, 8), (0.9, 20), (0.0, 30))
    [turn] = done.turns
    assert turn.heard == "48 chunks"
    assert done.stages.prompts[0][-1] == "20 chunks"
    assert done.stages.prompts[1][-1] == "48 chunks"
    # The first answer was written already or cancelled, and none of it is remembered.
    assert len(done.stages.prompts[1]) == 2
    assert len(done.player.parts) == 3


def test_new_speech_ends_an_answer(talk: Callable[..., Any]) -> None:
    done = talk((0.9, 20), (0.0, 20), (0.9, 20), (0.0, 30))
    first, second = done.turns
    assert first.is_cancelled
    assert done.player.stops == 1
    # Of 0.3 s of speech 0.15 were not heard: the third piece was not, the second in part.
    assert first.said == "First, a second."
    assert second.said == WHOLE
    remembered = done.stages.prompts[1]
    assert remembered[1:] == ["20 chunks", "First, a second.", "29 chunks"]


def test_an_answer_goes_on_where_nobody_may_interrupt(talk: Callable[..., Any]) -> None:
    done = talk((0.9, 20), (0.0, 20), (0.9, 20), (0.0, 30), can_interrupt=False)
    assert done.player.stops == 0
    assert [turn.said for turn in done.turns] == [WHOLE, WHOLE]


def test_silence_and_failures(talk: Callable[..., Any]) -> None:
    assert talk((0.0, 30)).turns == []
    with pytest.raises(InputError, match="hearing: failed"):
        talk((0.99, 20), (0.0, 30))


def test_a_microphone_gives_chunks_and_their_times() -> None:
    blocks = [np.full((CHUNK, 1), value, np.float32) for value in (0.1, 0.2)]

    class InputStream:
        def __init__(self, **settings: Any) -> None:
            assert (settings["samplerate"], settings["blocksize"]) == (16_000, CHUNK)
            self._callback = settings["callback"]

        def __enter__(self) -> None:
            for block in blocks:
                self._callback(block, CHUNK, None, None)

        def __exit__(self, *_: object) -> None:
            pass

    microphone = Microphone(SimpleNamespace(InputStream=InputStream))
    stream = microphone.chunks()
    assert [float(next(stream)[0]) for _ in blocks] == pytest.approx([0.1, 0.2])
    assert microphone.when(16_000) - microphone.when(0) == pytest.approx(1.0)
