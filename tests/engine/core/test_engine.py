"""Requests through the engine, on a small model."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from small_models import fixture_engine, fixture_files

from assay import xp
from assay.engine import Engine, SamplingParams
from assay.errors import InputError
from chosen_device import NAME, new_device

GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)


@pytest.fixture
def engine():
    # Only in this mode is an output independent of the rest of the batch.
    with fixture_engine("llama", deterministic=True) as loaded:
        yield loaded


def run(engine, **requests):
    """Step until all requests have finished; tokens by request."""
    tokens = {name: [] for name in requests}
    for name, (prompt, params) in requests.items():
        engine.add_request(prompt, params, name)
    while engine.has_work:
        for output in engine.step():
            tokens[output.request_id] += output.token_ids
    return tokens


def test_operations_are_labeled_by_what_they_compute(engine):
    labels = [node.label for node in engine.operations()]
    block = [
        "attention.qkv",
        "attention.rope_write",
        "attention.paged",
        "attention.output",
        "mlp.gate_up",
        "mlp.down",
    ]
    expected = ["embedding"]
    for layer in range(2):
        expected += [f"layers.{layer}.{name}" for name in block]
    assert labels == [*expected, "head", "sample"]


def test_decode_step_is_one_upload_one_graph_and_one_download(engine):
    engine.add_request([5, 6, 7], GREEDY)
    for _ in range(3):
        engine.step()
    # Arrays that other tests left in cycles would be freed between the records.
    gc.collect()
    allocations = engine.device.pool_statistics()
    engine.device.synchronize()
    engine.device.take_records()
    engine.step()
    engine.device.synchronize()
    records = engine.device.take_records().records
    assert sorted((record.kind, record.name) for record in records) == [
        ("copy to device", "step_inputs"),
        ("copy to host", "step_outputs"),
        ("graph", "step.1x1x1"),
    ]
    assert engine.device.pool_statistics() == allocations


def test_prefix_cache_serves_a_repeated_prompt(engine):
    prompt = list(range(3, 43))
    [first] = engine.generate([prompt], GREEDY)
    [again] = engine.generate([prompt], GREEDY)
    assert (first.cached_tokens, again.cached_tokens) == (0, 32)
    assert again.token_ids == first.token_ids
    assert engine.statistics()["hit_tokens"] == 32
    # The output is cached too: the next message of a conversation finds it.
    [more] = engine.generate([[*prompt, *first.token_ids, 9]], GREEDY)
    assert more.cached_tokens == 48


def test_requests_wait_for_free_blocks_and_all_finish():
    requests = {f"r{index}": ([index + 3] * 20, GREEDY) for index in range(6)}
    with (
        fixture_engine("llama", deterministic=True) as roomy,
        fixture_engine("llama", deterministic=True, kv_tokens=64) as tight,
    ):
        expected = run(roomy, **requests)
        assert run(tight, **requests) == expected
        counts = tight.statistics()
        assert counts["used"] == 0
        assert (counts["running"], counts["waiting"]) == (0, 0)


def test_preempted_request_has_the_same_output():
    long = SamplingParams(max_tokens=40, temperature=0.0, ignore_eos=True)
    requests = {f"r{index}": ([index + 3] * 8, long) for index in range(3)}
    with (
        fixture_engine("llama", deterministic=True) as roomy,
        fixture_engine("llama", deterministic=True, kv_tokens=96) as tight,
    ):
        expected = run(roomy, **requests)
        assert run(tight, **requests) == expected
        assert tight.statistics()["preemptions"] > 0


def test_aborted_request_frees_its_blocks(engine):
    name = engine.add_request([5] * 40, GREEDY)
    other = engine.add_request([6] * 40, GREEDY)
    engine.step()
    output = engine.abort(name)
    assert (output.finish_reason, output.summary.prompt_tokens) == ("abort", 40)
    with pytest.raises(InputError, match='request "request-1": expected one under way'):
        engine.abort(name)
    engine.abort(other)
    assert not engine.has_work
    assert engine.statistics()["used"] == 0


def test_context_beyond_the_limit_is_refused(engine):
    assert engine.context_limit == 128
    engine.generate([[5] * 100], SamplingParams(max_tokens=28, temperature=0.0, ignore_eos=True))
    with pytest.raises(InputError) as error:
        engine.add_request([5] * 100, SamplingParams(max_tokens=29))
    assert str(error.value) == (
        "prompt: expected at most 128 tokens with the output, the limit of the model's context, "
        "got 100 in the prompt and max_tokens 29"
    )
    with pytest.raises(InputError, match=r"limit of the model's context, got 128 in the prompt"):
        engine.add_request([5] * 128, SamplingParams(max_tokens=None))
    message = r"at most 32 tokens .* the limit of the KV cache"
    with fixture_engine("llama", kv_tokens=32) as small, pytest.raises(InputError, match=message):
        small.add_request([5] * 30, SamplingParams(max_tokens=3))
    assert not engine.has_work


def test_no_max_tokens_generates_to_the_context_limit(engine):
    open_end = SamplingParams(max_tokens=None, temperature=0.0, ignore_eos=True)
    [answer] = engine.generate([[5] * 100], open_end)
    assert (len(answer.token_ids), answer.finish_reason) == (28, "length")


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "prompt: expected at least one token, got none"),
        ([96], "prompt: expected tokens from 0 to 95, got 96"),
        ([-1], "prompt: expected tokens from 0 to 95, got -1"),
        ([1.5], "prompt: expected a text or token IDs, got 1.5"),
        (["a"], "prompt: expected one text or its token IDs, got a list with the text 'a'"),
    ],
)
def test_invalid_prompt_is_refused(engine, prompt, message):
    with pytest.raises(InputError) as error:
        engine.add_request(prompt, GREEDY)
    assert str(error.value) == message


def test_stop_token_ends_an_output(engine):
    [full] = engine.generate([[5, 6, 7]], GREEDY)
    third = full.token_ids[2]
    first_at = full.token_ids.index(third)
    stopping = SamplingParams(
        max_tokens=12, temperature=0.0, ignore_eos=True, stop_token_ids=[third]
    )
    [stopped] = engine.generate([[5, 6, 7]], stopping)
    assert stopped.token_ids == full.token_ids[: first_at + 1]
    assert stopped.finish_reason == "stop"


def test_stop_string_ends_an_output_and_is_not_shown(engine):
    [full] = engine.generate([[40, 41, 42]], GREEDY)
    stop = full.text[4:6]
    params = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True, stop=stop)
    [stopped] = engine.generate([[40, 41, 42]], params)
    assert stopped.finish_reason == "stop"
    assert stopped.text == full.text[: full.text.index(stop)]
    streamed = list(engine.stream([40, 41, 42], params))
    assert "".join(chunk.text for chunk in streamed) == stopped.text


def test_stream_equals_completion_and_can_be_closed_early(engine):
    [full] = engine.generate([[5, 6, 7]], GREEDY)
    chunks = list(engine.stream([5, 6, 7], GREEDY))
    assert [chunk.token_id for chunk in chunks] == list(full.token_ids)
    assert [chunk.finish_reason for chunk in chunks] == [None] * 11 + ["length"]
    stream = engine.stream([5, 6, 7], GREEDY)
    next(stream)
    stream.close()
    assert not engine.has_work
    assert engine.statistics()["used"] == 0


def test_logprobs_match_the_logits(engine):
    params = SamplingParams(max_tokens=4, temperature=0.0, ignore_eos=True, logprobs=3)
    [answer] = engine.generate([[5, 6, 7]], params)
    logits = engine.logits([5, 6, 7, *answer.token_ids]).astype(np.float64)[2:-1]
    logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    for row, chunk in zip(logprobs, answer.logprobs, strict=True):
        best = np.argsort(-row)[:3]
        assert chunk.token_id == best[0]
        assert chunk.logprob == pytest.approx(row[best[0]], abs=1e-4)
        assert [token for token, _ in chunk.top_logprobs] == best.tolist()
        assert [logprob for _, logprob in chunk.top_logprobs] == pytest.approx(
            row[best].tolist(), abs=1e-4
        )


def test_seed_decides_the_tokens_in_any_batch(engine):
    def params(seed):
        return SamplingParams(max_tokens=12, temperature=1.5, seed=seed, ignore_eos=True)

    alone = run(engine, a=([5, 6], params(7)))["a"]
    beside = run(engine, a=([5, 6], params(7)), b=([5, 6], params(8)), c=([9] * 30, GREEDY))
    assert beside["a"] == alone
    assert beside["b"] != alone


def test_presence_penalty_prevents_repeats(engine):
    unpenalized = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)
    [answer] = engine.generate([[5, 6, 7]], unpenalized)
    assert len(set(answer.token_ids)) < 20
    never = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True, presence_penalty=100.0)
    [other] = engine.generate([[5, 6, 7]], never)
    assert len(set(other.token_ids)) == 20
    # A request without penalties in the same batch is unaffected.
    tokens = run(engine, a=([5, 6, 7], never), b=([5, 6, 7], unpenalized))
    assert tokens["a"] == list(other.token_ids)
    assert tokens["b"] == list(answer.token_ids)


def test_penalties_match_their_definition(engine):
    params = SamplingParams(
        max_tokens=6,
        temperature=0.0,
        ignore_eos=True,
        repetition_penalty=1.3,
        presence_penalty=0.4,
        frequency_penalty=0.3,
    )
    prompt = [5, 6, 7, 6]
    [answer] = engine.generate([prompt], params)
    tokens: list[int] = []
    for _ in range(6):
        row = engine.logits([*prompt, *tokens])[-1].astype(np.float64)
        for token in {*prompt, *tokens}:
            row[token] = row[token] / 1.3 if row[token] > 0 else row[token] * 1.3
        for token in set(tokens):
            row[token] -= 0.4 + 0.3 * tokens.count(token)
        tokens.append(int(row.argmax()))
    assert list(answer.token_ids) == tokens


def test_engines_over_the_same_files_share_weights():
    with fixture_engine("llama") as first, fixture_engine("llama") as second:
        assert first.model is second.model
        with fixture_engine("llama", weight_format="q8_0") as third:
            assert third.model is not first.model


def test_models_in_memory_share_weights_only_if_they_are_one():
    files = replace(fixture_files("llama"), path=None)
    scaled = np.float32(2) * files.tensors["lm_head.weight"].to_float32()
    doubled = replace(
        files.tensors["lm_head.weight"], format="f32", bytes=memoryview(scaled).cast("B")
    )
    stored = replace(
        files.tensors["lm_head.weight"], format="f32", bytes=memoryview(scaled / 2).cast("B")
    )
    one = replace(files, tensors={**files.tensors, "lm_head.weight": stored})
    other = replace(files, tensors={**files.tensors, "lm_head.weight": doubled})
    with Engine.load(one, NAME) as first, Engine.load(one, NAME) as second:
        assert first.model is second.model
        with Engine.load(other, NAME) as third:
            assert not np.array_equal(first.logits([5, 6]), third.logits([5, 6]))


def test_synthetic_model_is_described_as_synthetic():
    with Engine.load("synthetic", NAME) as engine:
        assert engine.describe()["synthetic"] is True


def test_closed_engine_refuses_to_step():
    engine = fixture_engine("llama")
    before = engine.device.pool_statistics()
    engine.add_request([5], GREEDY)
    engine.close()
    engine.close()
    with pytest.raises(InputError, match="got one that was closed"):
        engine.step()
    assert engine.device.pool_statistics() != before


def test_cache_grows_on_demand_and_keeps_its_blocks(monkeypatch):
    params = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)
    prompts = {f"r{index}": ([index + 3] * 40, params) for index in range(5)}
    with fixture_engine("llama", deterministic=True, kv_tokens=1024) as roomy:
        expected = run(roomy, **prompts)
    monkeypatch.setattr("assay.engine.core.engine_state.FIRST_KV_TOKENS", 64)
    with fixture_engine("llama", deterministic=True) as engine:
        assert engine.context_limit == 128
        engine.generate([[3] * 40], params)
        before = engine.statistics()
        tokens = run(engine, **prompts)
        after = engine.statistics()
    assert tokens == expected
    assert (before["blocks"], after["blocks"]) == (4, 8)
    assert after["used"] == 0


def test_fork_shares_blocks_and_copies_on_write():
    prompt = list(range(3, 26))
    sampled = SamplingParams(max_tokens=12, temperature=1.5, seed=3, ignore_eos=True)
    with fixture_engine("llama", deterministic=True) as engine:
        greedy = run(engine, a=(prompt, GREEDY))["a"]
        name = engine.add_request(prompt, GREEDY)
        tokens = {name: [], "other": [], "same": []}
        for _ in range(3):
            tokens[name] += engine.step()[0].token_ids
        before = engine.statistics()
        engine.fork(name, sampled, "other")
        engine.fork(name, None, "same")
        assert engine.statistics()["used"] == before["used"]
        while engine.has_work:
            for output in engine.step():
                tokens[output.request_id] += output.token_ids
        assert engine.statistics()["copies"] == before["copies"] + 2
        assert tokens[name] == greedy
        assert tokens["same"] == greedy[3:]
        assert len(tokens["other"]) == 9
        assert tokens["other"] != greedy[3:]
        assert engine.statistics()["used"] == 0
        with pytest.raises(InputError, match="expected one under way"):
            engine.fork(name)


def test_profile_times_every_operation(engine):
    [before] = engine.generate([[5] * 40], GREEDY)
    times = engine.profile(2, 50)
    assert [time.node for time in times] == list(engine.operations(2))
    assert all(time.duration_ns > 0 for time in times)
    assert engine.statistics()["used"] == 0
    [after] = engine.generate([[5] * 40], GREEDY)
    assert after.token_ids == before.token_ids
    # The dummy sequences of a profile are never found as a prefix.
    engine.profile(1, 128)
    [zeros] = engine.generate([[0] * 40], GREEDY)
    assert zeros.cached_tokens == 0
    for wrong in ((0, 50), (17, 50), (1, 0), (1, 129)):
        with pytest.raises(InputError):
            engine.profile(*wrong)


def test_profile_does_not_read_uninitialized_memory():
    device = new_device()
    # NaN in every format, freed to the pool that the cache is allocated from.
    nan_bytes = xp.full((64 << 20,), 255, dtype=xp.uint8, device=device)
    del nan_bytes
    with fixture_engine("llama", device) as engine:
        assert engine.profile(1, 64)
        assert np.isfinite(engine.logits([1, 2, 3])).all()
