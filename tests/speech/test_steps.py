"""Several recordings at once, against each alone."""

import numpy as np
import pytest
import whisper_random

from assay.errors import InputError, ShapeError
from assay.runtime import device
from assay.speech.whisper.beam_steps import BeamSteps
from assay.speech.whisper.steps import GraphBeams, GraphDecoder

RECORDINGS = 3


def test_recordings_at_once_as_each_alone() -> None:
    encoder, decoder = whisper_random.load(device("cpu"))
    features = whisper_random.features(RECORDINGS)
    together = encoder.forward(features)
    alone = [encoder.forward(one) for one in features]
    joined = np.concatenate([one.to_numpy() for one in alone])
    np.testing.assert_allclose(together.to_numpy(), joined, rtol=0, atol=1e-5)
    steps = GraphDecoder(decoder, RECORDINGS)
    tokens = np.random.default_rng(5).integers(0, 1000, (20, RECORDINGS))
    caches = [decoder.cache(1) for _ in alone]
    encoded = [decoder.encoded(one) for one in alone]
    # Twice: what the first recordings left is forgotten.
    for _ in range(2):
        steps.listen(together)
        tables = [np.empty(0, np.int32) for _ in alone]
        for cache in caches:
            cache.clear()
        for row in tokens:
            logits = steps.step(row).to_numpy()
            for number, token in enumerate(row.tolist()):
                hidden, [tables[number]] = decoder.forward(
                    [[token]], [tables[number]], encoded[number], caches[number]
                )
                expected = decoder.logits(hidden)[0]
                np.testing.assert_allclose(logits[number], expected, rtol=0, atol=1e-4)


def test_what_does_not_fit_is_refused() -> None:
    encoder, decoder = whisper_random.load(device("cpu"))
    steps = GraphDecoder(decoder, 2)
    with pytest.raises(InputError, match=r"expected listen\(\)"):
        steps.step([1, 2])
    with pytest.raises(ShapeError, match="of 2 recordings"):
        steps.listen(encoder.forward(whisper_random.features(1))[:49])
    steps.listen(encoder.forward(whisper_random.features(2)))
    with pytest.raises(ShapeError, match="expected 2 tokens, got 1"):
        steps.step([1])
    for _ in range(whisper_random.SMALL.text_context):
        steps.step([1, 2])
    with pytest.raises(InputError, match="at most 40 tokens, got 41"):
        steps.step([1, 2])
    with pytest.raises(InputError, match="at least 1 sequence"):
        GraphDecoder(decoder, 0)


def test_captured_steps_of_beams_as_steps_without_capture() -> None:
    encoder, decoder = whisper_random.load(device("cpu"))
    encoded = decoder.encoded(encoder.forward(whisper_random.features(1)[0]))
    caches = [decoder.cache(3) for _ in range(2)]
    starts = [decoder.forward([[7, 8]], [np.empty(0, np.int32)], encoded, it)[1] for it in caches]
    steps = BeamSteps(decoder, encoded, caches[0])
    # Beams share their start, part, and one of them ends.
    captured, plain = ([tables[0]] * 3 for tables in starts)
    for count in [3] * 6 + [2] * 5:
        tokens = [int(token) for token in np.random.default_rng(count).integers(0, 1000, count)]
        logits, captured = steps.run(tokens, captured[:count])
        hidden, plain = decoder.forward(
            [[token] for token in tokens], plain[:count], encoded, caches[1]
        )
        assert [table.tolist() for table in captured] == [table.tolist() for table in plain]
        np.testing.assert_allclose(logits, decoder.logits(hidden), rtol=0, atol=1e-5)
        # Beams change places.
        captured, plain = captured[::-1], plain[::-1]


def test_beams_with_blocks_of_their_own_as_beams_that_share_slots() -> None:
    encoder, decoder = whisper_random.load(device("cpu"))
    encoded = decoder.encoded(encoder.forward(whisper_random.features(1)[0]))
    shared = BeamSteps(decoder, encoded, decoder.cache(3))
    own = GraphBeams(GraphDecoder(decoder, 3), encoded)
    prompt = [7, 8, 9]
    for _ in range(2):
        starts = [steps.begin(prompt, [0, 2]) for steps in (shared, own)]
        np.testing.assert_allclose(starts[0][0], starts[1][0], rtol=0, atol=1e-5)
        tables = [[table] * 3 for _, table in starts]
        numbers = np.random.default_rng(8)
        # Beams part, one takes the place of another, and one ends.
        for parents in ([0, 0, 0], [2, 0, 0], [1, 1, 2], [2, 1], [1, 0]):
            tokens = numbers.integers(0, 1000, len(parents)).tolist()
            steps = [
                each.run(tokens, [rows[parent] for parent in parents])
                for each, rows in zip((shared, own), tables, strict=True)
            ]
            np.testing.assert_allclose(steps[0][0], steps[1][0], rtol=0, atol=1e-5)
            tables = [rows for _, rows in steps]
