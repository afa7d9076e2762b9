"""The engine's own defaults as a candidate."""

from __future__ import annotations

from assay.improve.engines.protocol import EngineKnob
from assay.improve.levers.lever import KnobRange, Lever
from assay.improve.levers.own_defaults import own_defaults

KNOBS = {
    "threads": EngineKnob("threads", "", 0, hot=True),
    "max_batch": EngineKnob("max_batch", "", 16, hot=True),
    "kv": EngineKnob("kv", "", "bf16", hot=True),
    "port": EngineKnob("port", "", 8000, hot=False),
    "slots": EngineKnob("slots", "", None, hot=True),
}


def _lever(name: str, knob: str, **more: object) -> Lever:
    return Lever(name, "fake", "", (KnobRange(knob, (1,)),), **more)  # type: ignore[arg-type]


LEVERS = [
    _lever("threads", "threads", correctness="rounding"),
    _lever("batch", "max_batch", safety="may fail"),
    _lever("kv-fp8", "kv", correctness="lossy"),
    _lever("slots", "slots"),
]


def test_a_start_that_was_made_slow_is_compared_with_the_defaults() -> None:
    start = {"threads": 1, "max_batch": 1, "kv": "fp8", "port": 9, "slots": 4}
    candidate = own_defaults(LEVERS, KNOBS, start)
    assert candidate is not None
    # Formats, what no lever has, and defaults that only the engine knows stay as they are.
    assert candidate.changes == {"threads": 0, "max_batch": 16}
    assert candidate.levers == ("threads", "batch")
    assert (candidate.correctness, candidate.safety) == ("rounding", "may fail")


def test_defaults_of_a_server_that_must_be_restarted_are_not_live() -> None:
    cold = {**KNOBS, "max_batch": EngineKnob("max_batch", "", 16, hot=False)}
    for knobs, hot in ((KNOBS, True), (cold, False)):
        candidate = own_defaults(LEVERS, knobs, {"threads": 1, "max_batch": 1})
        assert candidate is not None
        assert candidate.hot == hot


def test_an_engine_at_its_defaults_has_none() -> None:
    start = {"threads": 0, "max_batch": 16, "kv": "fp8", "port": 9, "slots": 4}
    assert own_defaults(LEVERS, KNOBS, start) is None
