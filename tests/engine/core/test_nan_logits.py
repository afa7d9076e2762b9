"""A request whose logits are all NaN fails alone."""

import queue
from collections.abc import Iterator

import numpy as np
import pytest

from assay.engine import Engine, SamplingParams
from assay.engine.core.worker import EngineWorker, Failure
from assay.engine.loading.synthetic import synthetic_model
from assay.errors import ModelError
from chosen_device import NAME

GOOD, BAD = [5, 6, 7], [5, 77, 7]
PARAMS = SamplingParams(max_tokens=6, temperature=0.0, ignore_eos=True)


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine whose embedding of one token is NaN."""
    with Engine.load(synthetic_model(seed=91), NAME, deterministic=True) as loaded:
        table = loaded.model.embedding
        # All bits set are NaN in every floating-point format.
        row = np.full(table.nbytes // table.shape[0], 0xFF, np.uint8)
        table.device.upload("spoil", row, table.buffer, BAD[1] * row.nbytes)
        yield loaded


def test_request_with_nan_logits_fails_alone(engine: Engine) -> None:
    alone = engine.generate([GOOD], PARAMS)[0]
    first, bad, last = engine.generate([GOOD, BAD, GOOD], PARAMS)
    assert first.token_ids == last.token_ids == alone.token_ids
    assert (bad.finish_reason, bad.token_ids) == ("error", ())
    assert isinstance(bad.error, ModelError)
    assert "expected logits that are numbers, got only NaN after 3 tokens" in bad.error.message
    assert engine.generate([GOOD], PARAMS)[0].token_ids == alone.token_ids
    statistics = engine.statistics()
    assert (statistics["running"], statistics["waiting"]) == (0, 0)


def test_stream_with_nan_logits_raises(engine: Engine) -> None:
    with pytest.raises(ModelError, match="got only NaN"):
        list(engine.stream(BAD, SamplingParams(max_tokens=6, temperature=0.8, seed=3)))


def test_worker_reports_the_failed_request_only(engine: Engine) -> None:
    events: queue.Queue[object] = queue.Queue()
    worker = EngineWorker(engine, lambda given: [events.put(one) for one in given] and None)
    good, bad = worker.submit([GOOD, BAD], [PARAMS, PARAMS])
    ended: dict[str, object] = {}
    while len(ended) < 2:
        event = events.get(timeout=60)
        if isinstance(event, Failure) or event.finished:  # type: ignore[attr-defined]
            ended[event.request_id] = event  # type: ignore[attr-defined]
    assert isinstance(ended[bad], Failure)
    assert not isinstance(ended[good], Failure)
    assert worker.state.refusal is None
    worker.close()
