"""What would have been heard when, and a loudspeaker that is filled by a callback."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assay.talking import players
from assay.talking.players import Loudspeaker, Timeline

RATE = 24_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(players, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_what_comes_late_leaves_a_gap(clock: SimpleNamespace) -> None:
    timeline = Timeline(is_live=True)
    timeline.play(np.ones(RATE, np.float32))
    clock.now += 0.5
    assert timeline.left == pytest.approx(0.5)
    timeline.gap()
    timeline.play(np.ones(RATE, np.float32))
    clock.now += 2.0
    timeline.gap()
    timeline.play(np.ones(RATE, np.float32))
    assert timeline.gaps == pytest.approx(0.5)
    heard = timeline.waveform()
    assert len(heard) == 3.5 * RATE
    assert not heard[2 * RATE : round(2.5 * RATE)].any()


def test_an_interruption_cuts_off_what_was_not_heard(clock: SimpleNamespace) -> None:
    timeline = Timeline(is_live=True)
    for _ in range(3):
        timeline.play(np.ones(RATE, np.float32))
    clock.now += 1.25
    assert timeline.stop() == pytest.approx(1.75)
    assert len(timeline.waveform()) == 1.25 * RATE
    assert timeline.left == 0.0
    assert Timeline(is_live=False).waveform().shape == (0,)


def test_a_loudspeaker_plays_in_order_and_stops() -> None:
    streams: list[Any] = []

    def output_stream(**settings: Any) -> Any:
        stream = SimpleNamespace(
            **settings, start=lambda: None, stop=lambda: None, close=lambda: None
        )
        streams.append(stream)
        return stream

    speaker = Loudspeaker(SimpleNamespace(OutputStream=output_stream))
    speaker.play(np.full(3, 0.1, np.float32))
    speaker.play(np.full(3, 0.2, np.float32))

    def fill(frames: int) -> list[float]:
        block = np.full((frames, 1), 9.0, np.float32)
        streams[0].callback(block, frames, None, None)
        return block[:, 0].round(3).tolist()

    assert fill(4) == pytest.approx([0.1, 0.1, 0.1, 0.2])
    assert speaker.left == pytest.approx(2 / RATE)
    assert speaker.stop() == pytest.approx(2 / RATE)
    assert fill(2) == [0.0, 0.0]
    speaker.close()
