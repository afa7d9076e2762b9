"""The own engine with delays in its steps: same tokens, longer steps, nothing left behind."""

from collections.abc import Iterator

import pytest
from small_models import fixture_engine

from assay.diagnose.delays import EngineTarget
from assay.engine import Engine, SamplingParams
from assay.engine.runner import recording
from assay.errors import InputError

GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
LONG_NS = 30_000_000
"""Long beside a step of a small model, and beside what a busy machine does to it."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.load("synthetic") as engine:
        yield engine


def test_delays_of_graph_and_host_lengthen_the_step(engine: Engine) -> None:
    with EngineTarget(engine, batch=2, context=16, steps=3) as target:
        names = [node.name for node in target.nodes]
        assert {"embedding", "layers.1.mlp.down", "head", "sample"} <= set(names)
        assert {"host.schedule", "host.build_inputs", "host.append_tokens"} <= set(names)
        control = target.run({})
        assert control.spent_ns == 0
        for name in ("layers.0.mlp.down", "host.schedule"):
            run = target.run({name: LONG_NS})
            assert run.spent_ns == pytest.approx(LONG_NS, rel=0.02)
            assert run.step_ns >= LONG_NS
        both = target.run({"layers.0.mlp.down": LONG_NS, "layers.1.mlp.down": LONG_NS})
        assert both.step_ns >= 2 * LONG_NS
        # The same graph serves every delay, zero included.
        assert target.run({}).step_ns < LONG_NS


def test_tokens_are_the_same_with_delays_and_after_them(engine: Engine) -> None:
    [before] = engine.generate([[5, 6, 7]], GREEDY)
    target = EngineTarget(engine, batch=1, context=8, steps=2)
    target.run({"head": 1_000_000})
    target.close()
    assert recording.active is None
    assert not engine.has_work
    [after] = engine.generate([[5, 6, 7]], GREEDY)
    assert after.token_ids == before.token_ids
    with EngineTarget(engine, batch=1, context=8, steps=2):
        engine.add_request([5, 6, 7], GREEDY, "beside")
        tokens: list[int] = []
        while engine.is_under_way("beside"):
            for output in engine.step():
                if output.request_id == "beside":
                    tokens += [one.token_id for one in output.chunks if one.token_id is not None]
        assert tokens == list(before.token_ids)


def test_requests_outlast_the_prefill_of_a_full_batch(engine: Engine) -> None:
    """The first requests decode while the last ones are in prefill."""
    with pytest.raises(InputError, match=r"expected a KV cache of at least 3,.* got 1,024"):
        EngineTarget(engine, batch=16, context=128)
    with (
        Engine.load("synthetic", kv_tokens=8192, token_budget=32) as large,
        EngineTarget(large, batch=16, context=64, steps=2) as target,
    ):
        for _ in range(40):
            assert target.run({}).step_ns > 0
        assert large.statistics()["preemptions"] == 0
    target = EngineTarget(engine, batch=2, context=8, steps=2)
    engine.abort(target._requests[0])
    with pytest.raises(InputError, match="expected steps of 2 sequences, got 1"):
        target.run({})
    target.close()


def test_what_cannot_be_profiled_is_named(engine: Engine) -> None:
    engine.add_request([1, 2], GREEDY)
    with pytest.raises(InputError, match="expected an idle engine"):
        EngineTarget(engine)
    while engine.has_work:
        engine.step()
    with EngineTarget(engine, steps=2), pytest.raises(InputError, match="expected an idle engine"):
        EngineTarget(engine)
    target = EngineTarget(engine, steps=2)
    # Rebuilding the graphs drops the delays.
    engine.configure({"graph_buckets": 4})
    with pytest.raises(InputError, match="got steps whose graphs have none"):
        target.run({"head": 1_000_000})
    target.close()


def test_every_architecture_keeps_its_tokens() -> None:
    with fixture_engine("gpt2") as engine:
        [before] = engine.generate([[5, 6, 7]], GREEDY)
        with EngineTarget(engine, context=8, steps=2) as target:
            assert target.run({"head": 1_000_000}).spent_ns >= 1_000_000
        [after] = engine.generate([[5, 6, 7]], GREEDY)
        assert after.token_ids == before.token_ids
