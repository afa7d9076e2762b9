"""Counters of a real engine in this process."""

from small_models import FIXTURES, fixture_engine

import assay
from assay.engine import SamplingParams
from assay.observe.telemetry.sources.engine import EngineCounters


def test_counters_of_an_engine_follow_its_work() -> None:
    with fixture_engine(FIXTURES[0]) as engine:
        source = EngineCounters(engine)
        (before,) = source.read(fast_only=False)
        engine.generate([[1, 2, 3, 4]], SamplingParams(max_tokens=5))
        (after,) = source.read(fast_only=False)
    assert before.values["engine_generation_tokens"] == 0
    assert after.values["engine_prompt_tokens"] == 4
    assert after.values["engine_generation_tokens"] == 5
    assert after.values["engine_requests_running"] == 0
    assert after.series is not None
    assert after.series["assay_engine_steps"] >= 5


def test_an_engine_is_recorded_beside_the_host() -> None:
    seen = set()
    with (
        fixture_engine(FIXTURES[0]) as engine,
        assay.telemetry(
            [],
            engine=engine,
            endpoints=[],
            listener=lambda batch: seen.update(one.reading.source for one in batch),
        ) as state,
    ):
        engine.generate([[1, 2, 3, 4]], SamplingParams(max_tokens=5))
        for _ in range(100):
            if {"engine", "host"} <= seen:
                break
            state._sampler._stop.wait(0.05)
    assert {"engine", "host"} <= seen
