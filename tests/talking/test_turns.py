"""Turns of a stream: when somebody begins, pauses, goes on and has said all."""

import pytest

from assay.errors import InputError
from assay.speech.voice_activity import CHUNK
from assay.talking.turns import Event, Kind, TurnDetector, TurnOptions


def events(*runs: tuple[float, int], **options: float) -> list[tuple[int, Event]]:
    """Each event with the number of the chunk that told it."""
    detector = TurnDetector(TurnOptions(padding=0.0, **options))
    probabilities = [probability for probability, count in runs for _ in range(count)]
    return [
        (index, event)
        for index, probability in enumerate(probabilities)
        for event in detector.push(probability)
    ]


def test_a_turn_begins_pauses_and_ends() -> None:
    # A chunk is 32 ms: 0.16 s are five, half a second is sixteen.
    begin, end = 10 * CHUNK, 30 * CHUNK
    assert events((0.1, 10), (0.9, 20), (0.1, 20)) == [
        (14, Event(Kind.BEGAN, begin, 15 * CHUNK)),
        (34, Event(Kind.PAUSED, begin, end)),
        (45, Event(Kind.ENDED, begin, end)),
    ]


def test_speech_that_goes_on_is_one_turn() -> None:
    kinds = [event.kind for _, event in events((0.9, 10), (0.1, 8), (0.9, 10), (0.1, 16))]
    assert kinds == [Kind.BEGAN, Kind.PAUSED, Kind.RESUMED, Kind.PAUSED, Kind.ENDED]
    # A probability between both thresholds goes on with speech, but does not take it up again.
    assert len(events((0.9, 10), (0.4, 40))) == 1
    kinds = [event.kind for _, event in events((0.9, 10), (0.1, 8), (0.4, 8))]
    assert kinds == [Kind.BEGAN, Kind.PAUSED, Kind.ENDED]


def test_a_short_sound_is_no_turn() -> None:
    assert events((0.9, 4), (0.1, 40)) == []
    [first, *_] = events((0.9, 4), (0.1, 40), (0.9, 10))
    assert first[1].start == 44 * CHUNK


def test_padding_is_kept_for_the_next_turn() -> None:
    detector = TurnDetector(TurnOptions(padding=0.32))
    for _ in range(20):
        assert not list(detector.push(0.0))
    assert detector.needed_from == 10 * CHUNK
    told = [event for _ in range(5) for event in detector.push(0.9)]
    assert told[0].start == detector.needed_from == 10 * CHUNK
    assert not detector.is_idle


def test_wrong_options_are_refused() -> None:
    with pytest.raises(InputError, match=r"silence: expected at least 0\.16 s, got 0\.1"):
        TurnOptions(silence=0.1)
    with pytest.raises(InputError, match="threshold"):
        TurnOptions(threshold=1.5)
