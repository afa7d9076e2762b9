"""Causes from metrics and probes that are written here, so that the time each explains is exact."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
import simulated_recordings

from assay.diagnose.hypothesis import Hypothesis
from assay.diagnose.live.causes import Scene, find_causes
from assay.diagnose.live.client import Completion
from assay.diagnose.live.observed import with_claims
from assay.diagnose.live.probes import LENGTH, REPEATED, SINGLE, TOGETHER, Pair, Probe, Probes
from assay.diagnose.live.watch import Window
from assay.observe.telemetry import reading

STEP_NS = 5e6


def window(*rows: dict[str, Any]) -> Window:
    """A window of samples a second apart; a row without a source is a scrape."""
    columns = reading.columns()
    full = [
        {"monotonic_ns": second * 10**9, "source": "endpoint", "endpoint_up": 1} | row
        for second, row in enumerate(rows)
    ]
    frame = pl.DataFrame([{name: row.get(name) for name in columns} for row in full], columns)
    return Window(frame, 0, len(rows) * 10**9)


def answer(
    *, ttft_s: float = 0.01, tpot_s: float = 0.005, prompt: int = 64, made: int = 33
) -> Completion:
    arrivals = tuple(ttft_s + tpot_s * number for number in range(made))
    return Completion(0.0, arrivals, prompt, made)


def probe(kind: str, *answers: Completion) -> Probe:
    return Probe(kind, len(answers), answers[0].prompt_tokens, answers)


def found(load: Window, probes: Probes | None = None, *, has_load: bool = True):
    causes, notes = find_causes(Scene(load, has_load, STEP_NS, probes or Probes()))
    return {one.name: one for one in causes}, notes


def test_prefill_interference_is_the_mean_of_its_pairs():
    # 32 steps of 2, 3 and 4 ms more, for a prompt of 1,000 tokens: 64, 96 and 128 us a token.
    pairs = [Pair(0.005, 0.005 + more, 1000, 33) for more in (0.002, 0.003, 0.004)]
    load = window(
        {"engine_prompt_tokens": 0.0, "engine_generation_tokens": 0.0,
         "engine_requests_running": 4.0, "engine_prefix_cache_hits": 0.0},
        {"engine_prompt_tokens": 3000.0, "engine_generation_tokens": 1000.0,
         "engine_requests_running": 4.0, "engine_prefix_cache_hits": 1000.0},
    )  # fmt: skip
    cause = found(load, Probes(pairs=pairs))[0]["prefill interference"]
    # 2,000 tokens of prompts for 1,000 tokens in a batch of 4: 8 for each step of a sequence.
    assert cause.ns_per_token == pytest.approx(96e3 * 8)
    # Student's t with two degrees of freedom: 2.92 standard errors of 32 / sqrt(3).
    assert cause.hi - cause.ns_per_token == pytest.approx(8e3 * 2.92 * 32 / 3**0.5, rel=1e-3)
    assert cause.status == "established by experiment"
    _, notes = found(load, Probes(pairs=pairs), has_load=False)
    (note,) = (one for one in notes if one.startswith("prefill"))
    assert "a prompt token prefilled beside a stream delays it by 96.0 us" in note


def test_pairs_that_differ_by_chance_establish_nothing():
    pairs = [Pair(0.005, 0.005 + more, 1000, 33) for more in (-0.002, 0.001, 0.003)]
    causes, notes = found(window(), Probes(pairs=pairs))
    assert "prefill interference" not in causes
    assert not any("prefill" in note for note in notes)
    _, notes = found(window(), Probes(pairs=pairs[:2]))
    assert any(
        note.startswith("prefill interference not examined: needs at least 3") for note in notes
    )


def test_a_small_batch_is_what_sharing_a_step_would_save():
    probes = Probes(done=[
        probe(SINGLE, answer()), probe(TOGETHER, *(answer(tpot_s=0.006) for _ in range(8))),
    ])  # fmt: skip
    load = window({"engine_requests_running": 2.0}, {"engine_requests_running": 2.0})
    cause = found(load, probes)[0]["small batch"]
    # 33 tokens in 0.17 s, and 264 in 0.202 s.
    assert cause.ns_per_token == pytest.approx(1e9 * (0.17 / 33 - 0.202 / 264))
    busy = window({"engine_requests_running": 8.0})
    assert "small batch" not in found(busy, probes)[0]
    causes, notes = found(load, probes, has_load=False)
    assert "small batch" not in causes
    assert any("the batch of probes is their own" in note for note in notes)


def test_a_prefix_cache_that_works_is_no_cause():
    def probes(again_s: float) -> Probes:
        return Probes(done=[
            probe(SINGLE, answer()),
            probe(LENGTH, answer(ttft_s=0.11, prompt=1064, made=2)),
            probe(REPEATED, answer(ttft_s=0.11, prompt=1064, made=2)),
            probe(REPEATED, answer(ttft_s=again_s, prompt=1064, made=2)),
        ])  # fmt: skip

    counted = window(
        {"engine_prefix_cache_queries": 0.0, "engine_prefix_cache_hits": 0.0,
         "engine_generation_tokens": 0.0},
        {"engine_prefix_cache_queries": 600.0, "engine_prefix_cache_hits": 100.0,
         "engine_generation_tokens": 1000.0},
    )  # fmt: skip
    assert "prefix cache misses" not in found(counted, probes(0.02))[0]
    cause = found(counted, probes(0.11))[0]["prefix cache misses"]
    # 100 us for each of 500 tokens, at most; none of them may have come before.
    assert (cause.ns_per_token, cause.lo) == (0.0, 0.0)
    assert cause.hi == pytest.approx(500 * 1e5 / 1000)
    _, notes = found(window(), probes(0.11), has_load=False)
    (note,) = (one for one in notes if one.startswith("prefix"))
    assert "took 110.0 ms to its first token, and 110.0 ms when it came again" in note


def test_the_machine_is_asked_where_it_is_known():
    load = window(
        {"source": "host", "host_pressure_cpu": 0.4},
        {"source": "nvidia", "gpu_throttle": 4, "gpu_sm_clock_hz": 1.5e9,
         "gpu_sm_clock_max_hz": 2e9},
        {"source": "nvidia", "gpu_throttle": 1, "gpu_sm_clock_hz": 1.5e9},
    )  # fmt: skip
    probes = Probes(done=[probe(SINGLE, answer(tpot_s=0.004)), probe(SINGLE, answer())])
    causes, _ = found(load, probes)
    # The median step of 5 ms is 1 ms above the fastest, and 40 % of it is the most.
    assert causes["host CPU starvation"].ns_per_token == pytest.approx(1e6)
    assert causes["host CPU starvation"].hi == pytest.approx(2e6)
    assert causes["throttling"].hi == pytest.approx(0.25 * STEP_NS)
    assert "1 of 2 samples by power cap" in causes["throttling"].evidence[0].statement


def test_a_long_watch_adds_what_a_queue_does_to_tokens():
    samples = simulated_recordings.server_run(2, effect_us=900.0).with_columns(endpoint_up=1)
    end_ns = samples["monotonic_ns"].max()
    seen = Window(samples, 0, end_ns)
    queue = Hypothesis("queueing", "", 5e6, 4e6, 6e6, "supported", (), "")
    (cause,), _ = with_claims(seen, [queue])
    assert cause.ns_per_token == 5e6
    assert "of inter-token latency" in cause.evidence[-1].statement
    assert "stood up to: placebo treatment" in cause.evidence[-1].statement
    short = Window(samples, 0, end_ns // 8)
    causes, notes = with_claims(short, [queue])
    assert causes == [queue]
    assert notes[0].startswith("no effect of a state was estimated: expected 100 scrapes")


def test_a_neighbor_that_metrics_do_not_show_is_found_in_samples():
    samples = simulated_recordings.server_run(2, effect_us=900.0).with_columns(endpoint_up=1)
    waits = samples.filter(pl.col("source") == "endpoint").select(
        "tick", active=1 + (pl.col("engine_requests_waiting") > 0).cast(pl.Int64)
    )
    # What made the tokens late is now another process, on exactly those ticks.
    gpu = samples.filter(pl.col("source") == "host").with_columns(source=pl.lit("nvidia"))
    gpu = gpu.join(waits, on="tick").with_columns(gpu_processes=pl.col("active")).drop("active")
    calm = samples.with_columns(engine_requests_waiting=0.0 * pl.col("engine_requests_waiting"))
    seen = Window(pl.concat([calm, gpu]), 0, samples["monotonic_ns"].max())
    (cause,), _ = with_claims(seen, [])
    assert cause.name == "noisy neighbor"
    assert cause.lo < cause.ns_per_token < cause.hi
    share = float((waits["active"] > 1).mean())
    assert cause.ns_per_token == pytest.approx(9e5 * share, rel=0.15)


def test_what_was_not_sampled_is_said():
    causes, notes = found(window())
    assert causes == {}
    assert [note.partition(" not examined")[0] for note in notes] == [
        "queueing", "KV cache full", "pre-emption", "prefill interference", "prefix cache misses",
        "small batch", "host CPU starvation", "throttling",
    ]  # fmt: skip


def test_a_queue_that_costs_nothing_is_no_cause():
    idle = window(
        {"engine_queue_seconds_sum": 1.0, "engine_queue_seconds_count": 5.0,
         "engine_generation_tokens": 10.0, "engine_requests_waiting": 0.0},
        {"engine_queue_seconds_sum": 1.0, "engine_queue_seconds_count": 9.0,
         "engine_generation_tokens": 500.0, "engine_requests_waiting": 0.0},
    )  # fmt: skip
    assert "queueing" not in found(idle)[0]
    restarted = window(
        {"engine_preemptions": 9.0, "engine_generation_tokens": 900.0},
        {"engine_preemptions": 1.0, "engine_generation_tokens": 100.0},
    )
    assert "pre-emption" not in found(restarted)[0]
