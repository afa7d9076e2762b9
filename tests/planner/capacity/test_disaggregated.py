"""Prefill and decode workers: closed form beside the replay, links that are too slow, and the ratio."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.planner.capacity.candidates import Candidate, candidates
from assay.planner.capacity.disaggregated import Disaggregated, Link, disaggregated, link_of
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.planning import Planner
from assay.planner.capacity.served import Sample, sample_of
from assay.planner.capacity.simulation import simulate
from assay.planner.capacity.traffic import steady
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig

LIMITS = Objective(1.0, 0.02)


@pytest.fixture(scope="module")
def group() -> tuple[Disaggregated, Sample]:
    generator = np.random.default_rng(5)
    prompts = np.maximum(np.rint(1024 * np.exp(generator.normal(0, 0.8, 2000))), 1.0)
    outputs = np.maximum(np.rint(128 * np.exp(generator.normal(0, 0.6, 2000))), 1.0)
    sample = sample_of(prompts, prompts, outputs)
    fitting, _ = candidates(
        model_spec("llama-3.1-8b"), hardware_spec("h200"), BatchConfig(), sample, tensor=[1],
        longest=float((prompts + outputs).max()),
    )  # fmt: skip
    (made,) = disaggregated(fitting, sample, LIMITS, 0.0)
    return made, sample


def test_a_transfer_takes_the_bytes_of_its_keys_and_values_over_the_adapter() -> None:
    """Llama 3.1 8B: 32 layers x 8 heads x 128 x 2 (keys, values) x 2 bytes are 131,072 bytes a token.

    One adapter of 400 Gbit/s of which 60.6334 % are measured moves 30.3 GB/s.
    """
    link = link_of(hardware_spec("h200"))
    assert link is not None
    assert link.bytes_per_second == pytest.approx(50e9 * 0.606334)
    seconds = float(link.seconds(np.array([1000.0]), 131_072.0)[0]) - link.latency
    assert seconds == pytest.approx(1000 * 131_072 / 30.3167e9, rel=1e-4)


def test_a_token_has_the_bytes_of_its_keys_and_values(group: tuple[Disaggregated, Sample]) -> None:
    assert group[0].kv_bytes == pytest.approx(131_072.0, rel=0.02)


def test_closed_form_is_near_the_replay_of_all_workers(group: tuple[Disaggregated, Sample]) -> None:
    own, sample = group
    rate = 0.6 * own.highest(sample, 0.0, LIMITS)
    generator = np.random.default_rng(11)
    picked = generator.integers(0, len(sample.prompts), 8000)
    arrivals = np.cumsum(generator.exponential(1 / rate, 8000))
    prompts, outputs = sample.prompts[picked], sample.outputs[picked]
    run = own.replayed(0.0, arrivals, prompts, prompts, outputs, generator)
    served = own.served(sample, rate, 0.0, LIMITS)
    for figure, near in (("first_token", 0.25), ("output_token", 0.15), ("end_to_end", 0.15)):
        values = np.nanquantile(getattr(run, figure)[800:], [0.5, 0.9, 0.99])
        for level, value in zip(("p50", "p90", "p99"), values, strict=True):
            assert getattr(getattr(served, figure), level) == pytest.approx(value, rel=near)


def test_a_slow_link_holds_first_tokens_up_and_then_the_rate(
    group: tuple[Disaggregated, Sample],
) -> None:
    own, sample = group
    rate = 0.3 * own.highest(sample, 0.0, LIMITS)
    mean = float(sample.prompts.mean()) * own.kv_bytes
    # Half busy at the fewer workers: a transfer waits for others as long again, and longer.
    workers = min(own.prefills, own.decodes)
    slow = replace(own, link=Link(2 * mean * rate / workers, 0.0))
    fast = replace(own, link=Link(1e15, 0.0))
    late, soon = (way.served(sample, rate, 0.0, LIMITS).first_token.mean for way in (slow, fast))
    assert late - soon > 2 * workers / (2 * rate)
    # All of the time of the adapters.
    full = replace(own, link=Link(mean * rate / workers, 0.0))
    assert (
        full.highest(sample, 0.0, Objective(share=0.01)) < rate < fast.highest(sample, 0.0, LIMITS)
    )


def test_decode_workers_do_not_wait_for_prompts(group: tuple[Disaggregated, Sample]) -> None:
    own, sample = group
    decoder = Candidate(**{name: getattr(own, name) for name in Candidate.__dataclass_fields__})
    rate = 8.0
    together = decoder.served(sample, rate, 0.0, LIMITS)
    apart = replace(own, prefills=1, decodes=1).served(sample, rate, 0.0, LIMITS)
    assert apart.output_token.p99 < together.output_token.p99


def planned(**more: Any) -> Planner:
    prompts, outputs = np.full(10, 6000.0), np.full(10, 60.0)
    return Planner(
        "llama-3.1-8b", steady("long", 30.0, prompts, outputs), Objective(1.5, 0.012),
        gpus=["h200"], tensor=[1], **more,
    )  # fmt: skip


def test_a_tight_tpot_with_long_prompts_is_cheaper_apart() -> None:
    together, apart = planned().plan().best, planned(apart=True).plan().best
    assert "P" in apart.layout.split()[0]
    assert apart.gpus < together.gpus
    assert apart.replica_gpus * apart.replicas == apart.gpus
    assert apart.risk <= 0.101
    assert apart.watts is not None


@pytest.mark.slow
def test_a_simulated_group_agrees_with_its_closed_form() -> None:
    made = planned(apart=True)
    best = made.plan().best
    replayed = simulate(made.sizing_of(best), best)
    assert sum(replayed.agrees.values()) >= 8
