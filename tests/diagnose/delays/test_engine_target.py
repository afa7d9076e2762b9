"""The own engine with delays in its steps: same tokens, longer steps, nothing left behind."""

from collections.abc import Iterator

import pytest
from small_models import fixture_engine

from assay.diagnose.delays import EngineTarget
from assay.engine import Engine, SamplingParams
from assay.engine.core import recording
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
