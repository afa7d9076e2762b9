"""Steps of prefill and decode on a GPU: few shapes, and graphs of large ones that recur."""

import dataclasses

import pytest
from small_models import fixture_engine, fixture_files

from assay.engine import Engine, SamplingParams
from assay.engine.requests.request import Request
from assay.engine.requests.scheduled_sequence import ScheduledSequence, totals_of
from chosen_device import cpu_only, new_device

GREEDY = SamplingParams(max_tokens=6, temperature=0.0, ignore_eos=True)
PROMPTS = [list(range(3, 3 + length)) for length in (5, 30, 61, 44)]


@pytest.fixture
def like_a_gpu(monkeypatch):
    """A CPU whose steps run as those of a GPU."""
    device = new_device()
    monkeypatch.setattr(
        device, "capabilities", dataclasses.replace(device.capabilities, is_gpu=True)
    )
    return device


@cpu_only
def test_few_shapes_change_no_token(like_a_gpu):
    files = fixture_files("llama")
    knobs = {"overlap": "on", "token_budget": 100, "max_batch": 4, "captured_prefill": 16}
    with Engine.load(files, like_a_gpu, **knobs) as engine:
        padded = [one.token_ids for one in engine.generate(PROMPTS, GREEDY)]
        programs = engine._state.runner._graphs._programs
        mixed = {key[0]: program for key, program in programs.items() if not key[0].decode_only}
        large = [shape for shape in mixed if shape.num_tokens > 16]
        assert large
        # None came twice for the same buffers.
        assert not any(mixed[shape].graphs for shape in large)
        assert all(shape.num_tokens in (64, 104) for shape in large)
        assert {shape.num_seqs for shape in mixed} <= {1, 2, 4}
        # Steps followed each other: their times were measured.
        assert engine.statistics()["device_ns"] > 0
    with fixture_engine("llama", overlap="on") as engine:
        assert [one.token_ids for one in engine.generate(PROMPTS, GREEDY)] == padded


@cpu_only
def test_large_steps_are_graphs_from_their_second_time_on(like_a_gpu):
    files = fixture_files("llama")
    knobs = {"overlap": "on", "token_budget": 64, "max_batch": 8, "captured_prefill": 16}
    prompts = [[(7 * first + token) % 96 for token in range(90)] for first in range(12)]
    with Engine.load(files, like_a_gpu, **knobs) as engine:
        replayed = [one.token_ids for one in engine.generate(prompts, GREEDY)]
        programs = engine._state.runner._graphs._programs.items()
        large = [program for key, program in programs if key[0].num_tokens == 64]
        assert any(program.uses > 2 for program in large)
        assert all(bool(program.graphs) == (program.uses >= 2) for program in large)
    with Engine.load(files, like_a_gpu, **knobs, graph_buckets=0) as engine:
        assert [one.token_ids for one in engine.generate(prompts, GREEDY)] == replayed


def test_warming_up_captures_every_decode_size_for_both_buffers():
    with fixture_engine("llama", max_batch=12) as engine:
        engine.warm_up(60.0)
        keys = engine._state.runner._graphs._programs
        decode = {(key[0].num_seqs, key[1]) for key in keys if key[0].decode_only}
    assert decode == {(size, buffer) for size in (*range(1, 9), 10, 12) for buffer in (0, 1)}


def test_totals_are_those_of_every_sequence():
    plain = Request.forward_only(list(range(20)))
    adapted = Request.forward_only(list(range(9)), adapter=2)
    adapted.num_computed_tokens = 8
    totals = totals_of([ScheduledSequence(plain, 20, 0), ScheduledSequence(adapted, 1, 1)])
    assert (totals.num_tokens, totals.num_samples, totals.longest_context) == (21, 1, 20)
    assert (totals.decode_only, totals.adapted, totals.continues) == (False, True, True)
    assert totals_of([ScheduledSequence(adapted, 1, 1)]).decode_only


@cpu_only
def test_logits_of_every_token_are_those_without_padding(like_a_gpu):
    # Ten rows are padded to ten, ten samples by themselves to sixteen.
    tokens = list(range(3, 13))
    with Engine.load(fixture_files("llama"), like_a_gpu, token_budget=100) as engine:
        padded = engine.logits(tokens)
    with fixture_engine("llama") as engine:
        assert (engine.logits(tokens) == padded).all()
