"""Causes that a server's metrics and a few probes can show, each with the time it explains."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.diagnose.hypothesis import Evidence, Hypothesis
from assay.diagnose.live.probes import LENGTH, REPEATED, SINGLE, TOGETHER, Probes
from assay.diagnose.live.watch import Window
from assay.diagnose.mechanisms.catalog import MECHANISMS
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.lazy_import import LazyModule
from assay.long_run import CONFIDENCE
from assay.observe.telemetry import throttle

stats: Any = LazyModule("scipy.stats", globals(), "stats")

_NS: Final = 1e9
FULL: Final = 0.9
"""Share of the KV cache in use from which on a waiting request waits for blocks."""
STARVED: Final = 0.1
"""Share of time in which a runnable thread waited for a core, from which on it counts."""
GAIN: Final = 1.3
"""A small batch is a cause when concurrent probes reach this multiple of the single throughput."""
CACHED: Final = 0.7
"""A repeated prompt answered within this share of the first time was in the prefix cache."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What causes are told from."""

    load: Window
    """The time whose requests are examined: others', or where there were none the probes'."""
    has_load: bool
    """Whether requests of others ran in it."""
    step_ns: float
    probes: Probes


@dataclass(frozen=True, slots=True)
class Unknown:
    """What a cause would need to be examined."""

    needs: str


Examined = Hypothesis | Unknown | None


def find_causes(scene: Scene) -> tuple[list[Hypothesis], list[str]]:
    """The causes, the one that explains most time first, and those that could not be examined."""
    causes: list[Hypothesis] = []
    notes: list[str] = []
    for name, find in CAUSES.items():
        cause = find(scene)
        if isinstance(cause, Unknown):
            notes.append(f"{name} not examined: needs {cause.needs}")
        elif cause is not None:
            causes.append(cause)
    causes.sort(key=lambda cause: -cause.ns_per_token)
    return causes, notes


def _quantiles(values: list[float]) -> tuple[float, float]:
    lo, hi = np.quantile(values, [0.05, 0.95]).tolist()
    return float(lo), float(hi)


def _queueing(scene: Scene) -> Examined:
    waited = scene.load.grown("engine_queue_seconds_sum")
    count = scene.load.grown("engine_queue_seconds_count")
    tokens = scene.load.grown("engine_generation_tokens")
    waiting = scene.load.gauge("engine_requests_waiting")
    if waited is None or count is None or tokens is None:
        if not waiting:
            return Unknown("metrics of the queue")
        if max(waiting) == 0:
            return None
        return Unknown("the server's queue time; requests do wait, and how long is not counted")
    if not tokens or waited / tokens * _NS < 0.01 * scene.step_ns:
        return None
    per_token = waited / tokens * _NS
    ratios = scene.load.ratios("engine_queue_seconds_sum", "engine_generation_tokens")
    lo, hi = _quantiles([_NS * ratio for ratio in ratios] or [per_token])
    seen = f"; {max(waiting):.0f} requests waited at most" if waiting else ""
    return Hypothesis(
        "queueing",
        "requests wait for a place in the batch before their first step",
        per_token, min(lo, per_token), max(hi, per_token), "supported",
        (_telemetry(
            f"{count:.0f} requests waited {1e3 * waited / max(count, 1):.1f} ms on average before "
            f"their first step, spread over {tokens:,.0f} tokens{seen}"
        ),),
        "more replicas, a larger batch (max_num_seqs), or fewer requests at once",
        beyond_step=True,
    )  # fmt: skip


def _kv_full(scene: Scene) -> Examined:
    used = scene.load.gauge("engine_kv_cache_usage")
    waiting = scene.load.gauge("engine_requests_waiting")
    if not used or not waiting:
        return Unknown("metrics of the KV cache and of waiting requests")
    if len(used) != len(waiting):
        return Unknown("KV cache usage and waiting requests in the same scrapes")
    held = [usage >= FULL and queue > 0 for usage, queue in zip(used, waiting, strict=True)]
    if not any(held):
        return None
    queued = _queueing(scene)
    share = sum(held) / len(held)
    explained = queued if isinstance(queued, Hypothesis) else None
    return Hypothesis(
        "KV cache full",
        "requests wait because no KV blocks are free for them",
        0.0 if explained is None else explained.ns_per_token * share,
        0.0,
        0.0 if explained is None else explained.hi,
        "cannot be told apart from queueing",
        (_telemetry(
            f"in {sum(held)} of {len(held)} scrapes requests waited with {FULL:.0%} or more of the "
            f"KV cache in use (at most {max(used):.0%})"
        ),),
        "more KV memory (gpu_memory_utilization, fp8 KV cache), shorter contexts (max_model_len)",
        within="queueing",
        beyond_step=True,
    )  # fmt: skip


def _preemption(scene: Scene) -> Examined:
    count = scene.load.grown("engine_preemptions")
    tokens = scene.load.grown("engine_generation_tokens")
    if count is None or tokens is None:
        return Unknown("the server's count of pre-empted requests")
    if not count or not tokens:
        return None
    total = scene.load.grown("engine_ttft_seconds_sum")
    firsts = scene.load.grown("engine_ttft_seconds_count")
    # A pre-empted request is prefilled again, which takes at most what its first token took.
    again = 0.0 if not total or not firsts else count * (total / firsts) / tokens * _NS
    return _known(
        "pre-emption",
        0.0, 0.0, again,
        f"{count:.0f} requests were pre-empted within {tokens:,.0f} tokens; at most the time to "
        "first token is spent again for each",
    )  # fmt: skip


def _prefill_interference(scene: Scene) -> Examined:
    """An experiment: the prefill is the treatment, and which stream of a pair has it is drawn."""
    pairs = [pair for pair in scene.probes.pairs if pair.prompt_tokens]
    if len(pairs) < 3:
        return Unknown("at least 3 pairs of streams with and without a prefill beside them")
    extra = np.array(
        [
            (pair.beside_s - pair.alone_s) * (pair.output_tokens - 1) / pair.prompt_tokens
            for pair in pairs
        ]
    )
    mean, error = float(extra.mean()), float(extra.std(ddof=1) / len(extra) ** 0.5)
    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, len(extra) - 1)) * error
    if mean - reach <= 0.0:
        return None
    each = f"{1e6 * mean:.1f} us ({1e6 * (mean - reach):.1f} to {1e6 * (mean + reach):.1f})"
    if not scene.has_load:
        return Unknown(
            f"requests of others; a prompt token prefilled beside a stream delays it by {each}"
        )
    prompts = scene.load.grown("engine_prompt_tokens")
    tokens = scene.load.grown("engine_generation_tokens")
    running = scene.load.gauge("engine_requests_running")
    if prompts is None or not tokens or not running:
        return Unknown("metrics of prompt and generated tokens and of running requests")
    hits = scene.load.grown("engine_prefix_cache_hits") or 0.0
    # Each sequence of the batch waits for a prompt's tokens once.
    per_step = max(prompts - hits, 0.0) * max(statistics.mean(running), 1.0) / tokens
    base = _mechanism("prefill interference")
    return Hypothesis(
        base.name, base.sentence,
        mean * per_step * _NS, (mean - reach) * per_step * _NS, (mean + reach) * per_step * _NS,
        "established by experiment",
        (
            Evidence(
                f"{len(pairs)} pairs of streams, one of each with a prompt of about "
                f"{pairs[0].prompt_tokens:,} tokens prefilled beside it, in random order: {each} more "
                "for each prompt token",
                source="experiment",
            ),
            _telemetry(f"{per_step:,.1f} prompt tokens were prefilled for each step of a sequence"),
        ),
        base.fix,
        beyond_step=True,
    )  # fmt: skip


def _prefix_cache(scene: Scene) -> Examined:
    queries = scene.load.grown("engine_prefix_cache_queries")
    hits = scene.load.grown("engine_prefix_cache_hits")
    tokens = scene.load.grown("engine_generation_tokens")
    repeated = scene.probes.of(REPEATED)
    rate = _prefill_rate(scene.probes)
    if len(repeated) < 2:
        return Unknown("a probe with a repeated prompt")
    length = repeated[0].prompt_tokens
    # Other new prompts of its length besides: a single one that a busy machine delays would make
    # its repetitions look cached.
    as_long = [
        probe
        for probe in scene.probes.of(LENGTH)
        if abs(probe.prompt_tokens - length) <= 0.05 * length
    ]
    new = statistics.median(probe.ttft_s for probe in (repeated[0], *as_long))
    again = statistics.median(probe.ttft_s for probe in repeated[1:])
    if rate is None or again <= CACHED * new:
        return None
    # A prompt too short to be worth a cache says nothing about one.
    if length * rate < 0.25 * new:
        return None
    seen = (
        f"a prompt of {length:,} tokens took {1e3 * new:.1f} ms to "
        f"its first token, and {1e3 * again:.1f} ms when it came again"
    )
    if scene.load.settings().get("enable_prefix_caching") == "False":
        seen += "; the engine says enable_prefix_caching=False"
    if not scene.has_load or queries is None or hits is None or not tokens:
        return Unknown(f"requests of others and the server's count of cached tokens; {seen}")
    missed = max(queries - hits, 0.0)
    most = missed * rate / tokens * _NS
    return Hypothesis(
        "prefix cache misses",
        "prompts that came before are prefilled again",
        0.0, 0.0, most, "supported",
        (Evidence(
            f"{seen}; {missed:,.0f} prompt tokens of others were not in the cache, at "
            f"{1e6 * rate:.1f} us each, if all of them came before",
            source="experiment",
        ),),
        "turn prefix caching on (enable_prefix_caching), put what prompts share first, or give "
        "the cache more memory",
        beyond_step=True,
    )  # fmt: skip


def _small_batch(scene: Scene) -> Examined:
    """How much less device time a token takes when several sequences share a step."""
    single, together = scene.probes.of(SINGLE), scene.probes.of(TOGETHER)
    running = scene.load.gauge("engine_requests_running")
    if not single or not together:
        return Unknown("probes one at a time and several at once")
    if not scene.has_load:
        return Unknown("requests of others: the batch of probes is their own")
    alone = statistics.median(probe.tokens_per_second for probe in single)
    best = max(together, key=lambda probe: probe.tokens_per_second)
    used = max(statistics.mean(running), 1.0) if running else 1.0
    if best.tokens_per_second < GAIN * alone or used >= best.concurrency:
        return None
    # Sequences of a step share the reading of the weights.
    gain = _NS / alone - _NS / best.tokens_per_second
    return Hypothesis(
        "small batch",
        "each step reads all weights, and few sequences share the reading",
        gain, 0.0, gain, "supported",
        (Evidence(
            f"{alone:,.1f} tokens/s one at a time, {best.tokens_per_second:,.1f} with "
            f"{best.concurrency} at once; {used:.1f} requests ran on average. Device time for each "
            "token, not latency",
            source="experiment",
        ),),
        "send more requests at once, or speculate: the latency of one does not fall by itself",
        beyond_step=True,
    )  # fmt: skip


def _host_starved(scene: Scene) -> Examined:
    pressure = scene.load.state("host_pressure_cpu")
    if not pressure:
        return Unknown("CPU pressure (PSI) of the server's machine")
    share = statistics.mean(pressure)
    if share < STARVED:
        return None
    fastest = min(
        (tpot for probe in scene.probes.of(SINGLE) if (tpot := probe.tpot_s)), default=0.0
    )
    most = share * scene.step_ns
    return _known(
        "host CPU starvation",
        min(max(scene.step_ns - fastest * _NS, 0.0), most), 0.0, most,
        f"a runnable thread waited for a core {share:.0%} of the time: at most that share of a step, "
        f"if it was the engine's; the median step is {(scene.step_ns - fastest * _NS) / 1e3:,.0f} us "
        "above the fastest",
    )  # fmt: skip


def _throttling(scene: Scene) -> Examined:
    masks = scene.load.state("gpu_throttle")
    clocks = scene.load.state("gpu_sm_clock_hz")
    highest = scene.load.state("gpu_sm_clock_max_hz")
    if not masks:
        return Unknown("throttle reasons of the server's GPU")
    limited = [mask for mask in masks if throttle.is_limited(int(mask))]
    if not limited:
        return None
    reasons = sorted({word for mask in limited for word in throttle.words(int(mask))})
    lost = 0.0
    if clocks and highest:
        lost = max(1.0 - statistics.mean(clocks) / max(highest), 0.0) * scene.step_ns
    return _known(
        "throttling",
        0.0, 0.0, lost,
        f"clocks were held down in {len(limited)} of {len(masks)} samples by {', '.join(reasons)}; "
        "at most the share of the clock, for kernels bound by it",
    )  # fmt: skip


CAUSES: Final[dict[str, Callable[[Scene], Examined]]] = {
    "queueing": _queueing,
    "KV cache full": _kv_full,
    "pre-emption": _preemption,
    "prefill interference": _prefill_interference,
    "prefix cache misses": _prefix_cache,
    "small batch": _small_batch,
    "host CPU starvation": _host_starved,
    "throttling": _throttling,
}


def _prefill_rate(probes: Probes) -> float | None:
    """Seconds of time to first token for each more token of the prompt; None if not measurable."""
    by_length: dict[int, list[float]] = {}
    for probe in (*probes.of(SINGLE), *probes.of(LENGTH)):
        by_length.setdefault(probe.prompt_tokens, []).append(probe.ttft_s)
    if len(by_length) < 2:
        return None
    lengths = sorted(by_length)
    short, long = lengths[0], lengths[-1]
    more = min(by_length[long]) - min(by_length[short])
    return more / (long - short) if more > 0 and long > short else None


def _known(name: str, ns: float, lo: float, hi: float, statement: str) -> Hypothesis:
    """A cause that traces know, too; where metrics give an upper bound alone, `ns` is 0."""
    base = _mechanism(name)
    return Hypothesis(
        base.name, base.sentence, ns, lo, hi, "supported", (_telemetry(statement),), base.fix,
        beyond_step=True,
    )  # fmt: skip


def _mechanism(name: str) -> Mechanism:
    return next(mechanism for mechanism in MECHANISMS if mechanism.name == name)


def _telemetry(statement: str) -> Evidence:
    return Evidence(statement, source="telemetry")
