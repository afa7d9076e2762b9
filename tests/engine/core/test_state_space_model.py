"""A state-space model in the engine: states of sequences that come, go, wait and fork."""

import numpy as np
import pytest

from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model

FILES = synthetic_model("mamba2")
PROMPTS = ["Once upon a time", "In the beginning there was", "x", "A longer text, of many words"]
GREEDY = SamplingParams(max_tokens=9, temperature=0.0, ignore_eos=True)


@pytest.fixture(scope="module")
def alone() -> list[tuple[int, ...]]:
    """What each prompt gives by itself."""
    with Engine.load(FILES, max_batch=1) as engine:
        return [tuple(engine.generate([one], GREEDY)[0].token_ids) for one in PROMPTS]


@pytest.mark.parametrize(
    "settings",
    [
        {"max_batch": 4},
        {"max_batch": 2, "token_budget": 5},
        {"max_batch": 3, "graph_buckets": 0},
        {"max_batch": 4, "overlap": "on"},
        {"max_batch": 4, "deterministic": True},
    ],
    ids=["batch", "chunked prefill", "no graphs", "overlap", "deterministic"],
)
def test_a_batch_gives_what_each_prompt_gives_alone(
    alone: list[tuple[int, ...]], settings: dict[str, int | str | bool]
) -> None:
    with Engine.load(FILES, **settings) as engine:
        answers = engine.generate(PROMPTS, GREEDY)
        assert [tuple(answer.token_ids) for answer in answers] == alone
        # Slots that changed hands begin anew.
        assert [tuple(one.token_ids) for one in engine.generate(PROMPTS, GREEDY)] == alone
        assert engine.statistics()["preemptions"] == 0


def test_as_many_requests_run_as_the_batch_has(alone: list[tuple[int, ...]]) -> None:
    with Engine.load(FILES, max_batch=4) as engine:
        for prompt in PROMPTS:
            engine.add_request(prompt, GREEDY)
        engine.step()
        assert engine.statistics()["running"] == 4
        text = engine.score("a text")
        assert len(text.logprobs) > 1


def test_a_fork_has_a_state_of_its_own() -> None:
    with Engine.load(FILES, max_batch=4) as engine:
        first = engine.add_request(PROMPTS[0], GREEDY)
        found: dict[str, list[int | None]] = {first: []}

        def advance() -> None:
            for output in engine.step():
                found[output.request_id] += [chunk.token_id for chunk in output.chunks]

        while len(found[first]) < 3:
            advance()
        second = engine.fork(first)
        found[second] = list(found[first])
        while engine.has_work:
            advance()
        assert found[first] == found[second]


def test_knobs_that_need_another_cache_keep_outputs(alone: list[tuple[int, ...]]) -> None:
    with Engine.load(FILES, max_batch=1) as engine:
        undo = engine.configure({"max_batch": 4})
        assert [tuple(one.token_ids) for one in engine.generate(PROMPTS, GREEDY)] == alone
        undo()
        assert tuple(engine.generate(PROMPTS[:1], GREEDY)[0].token_ids) == alone[0]


def test_speculation_is_off_and_said_so(alone: list[tuple[int, ...]]) -> None:
    with Engine.load(FILES, speculation_depth=4) as engine:
        assert any("speculation is off" in line for line in engine.degradations)
        answers = engine.generate(PROMPTS, GREEDY)
    assert [tuple(answer.token_ids) for answer in answers] == alone


def test_the_embedding_is_that_of_the_last_layer() -> None:
    """With an odd number of layers the residual stream ends in the other buffer."""
    for layers in (2, 3):
        files = synthetic_model("mamba2", config={"num_hidden_layers": layers})
        with Engine.load(files) as engine:
            hidden = engine.embed("some text")
            logits = engine.logits("some text")[-1]
        head = files.tensors["lm_head.weight"].to_float32()
        np.testing.assert_allclose(head @ hidden, logits, rtol=1e-3, atol=1e-3)
