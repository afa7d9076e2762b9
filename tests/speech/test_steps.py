"""Several recordings at once, against each alone."""

import numpy as np
import pytest
import whisper_random

from assay.errors import InputError, ShapeError
from assay.runtime import device
from assay.speech.whisper.steps import GraphDecoder

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
