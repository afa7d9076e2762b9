"""Chunks of prefill that adapt to the time of a step."""

import pytest
from small_models import fixture_engine

from assay.engine import SamplingParams
from assay.engine.core.step_pacing import FIRST_PREFILL, LEAST_PREFILL, StepPacer

DECODE_S, TOKEN_S = 0.008, 20e-6


def run(pacer, steps, decoding=32, decode_s=DECODE_S, start=0.0):
    """Steps of a device with a fixed time and a time for each token of prefill; the seconds of each."""
    now, times = start, []
    for number in range(steps):
        prefill = 0 if number % 4 == 0 else pacer.budget(decoding, 8192) - decoding
        seconds = decode_s + TOKEN_S * prefill
        pacer.observe(decoding, prefill, now, now + seconds, is_end=True)
        now += seconds
        times.append(seconds)
    return times


def test_steps_come_to_their_limit_and_stay_below_it():
    times = run(StepPacer(0.025), 80)
    assert max(times) <= 0.025 * 1.001
    assert times[-1] == pytest.approx(0.025, rel=0.01)


def test_longer_decode_leaves_less_prefill():
    pacer = StepPacer(0.025)
    run(pacer, 40)
    before = pacer.budget(32, 8192)
    # Contexts have grown: decoding alone takes twice as long.
    times = run(pacer, 80, decode_s=2 * DECODE_S, start=100.0)
    assert pacer.budget(32, 8192) < before
    assert times[-1] == pytest.approx(0.025, rel=0.02)


def test_prompts_progress_whatever_the_limit():
    pacer = StepPacer(0.001)
    assert pacer.budget(8, 8192) == 8 + FIRST_PREFILL
    run(pacer, 20)
    assert pacer.budget(8, 8192) == 8 + LEAST_PREFILL


def test_without_decode_or_limit_the_whole_budget_is_used():
    assert StepPacer(0.0).budget(5, 512) == 512
    assert StepPacer(0.001).budget(0, 512) == 512


def test_steps_without_an_end_count_with_the_next():
    pacer = StepPacer(0.025)
    pacer.observe(0, 100, 0.0, 0.0, is_end=False)
    pacer.observe(0, 100, 0.0, 0.004, is_end=True)
    assert pacer.budget(1, 8192) == 1 + round(0.025 / 20e-6)


def test_an_engine_that_is_paced_gives_the_same_tokens():
    prompts = [list(range(3, 3 + length)) for length in (40, 70, 90)]
    params = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
    outputs = []
    for limit in (0, 1):
        with fixture_engine("llama", deterministic=True, max_step_ms=limit) as engine:
            outputs.append([one.token_ids for one in engine.generate(prompts, params)])
    assert outputs[0] == outputs[1]
