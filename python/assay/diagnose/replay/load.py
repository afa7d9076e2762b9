"""Continuous batching on a virtual clock: the engine's own scheduler, with the step-cost model.

Nothing runs on a device. The scheduler and the block manager are those of the engine, so chunked
prefill, admission, pre-emption and the prefix cache behave as they do there; only the time of a
step is predicted. The same load always gives the same result.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from assay.diagnose.replay.step_cost import StepCost, StepShape
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.engine.core.batch_scheduler import BatchScheduler
    from assay.engine.requests.request import Request
    from assay.engine.requests.scheduled_sequence import ScheduledSequence

MAX_STEPS: Final = 5_000_000
_VOCABULARY: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request: when it arrives, and how many tokens it brings and asks for."""

    time_s: float
    prompt_tokens: int
    output_tokens: int
    shared_prefix: int = 0
    """Leading tokens of the prompt that every request shares."""


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The settings of the scheduler that the load meets."""

    max_num_seqs: int = 16
    max_num_batched_tokens: int = 512
    policy: str = "fcfs"
    block_size: int = 16
    kv_tokens: int = 1 << 20
    prefix_caching: bool = False
    async_scheduling: bool = False
    """A step is scheduled when the one before it begins: what arrives later waits for the next."""


@dataclass(slots=True)
class RequestTimes:
    """What a request saw, in seconds."""

    arrival_s: float
    first_token_s: float = 0.0
    finish_s: float = 0.0
    tokens: int = 0

    @property
    def ttft_s(self) -> float:
        """Time to first token."""
        return self.first_token_s - self.arrival_s

    @property
    def tpot_s(self) -> float:
        """Time per output token after the first; 0 for a single token."""
        return (self.finish_s - self.first_token_s) / (self.tokens - 1) if self.tokens > 1 else 0.0

    @property
    def e2el_s(self) -> float:
        """End-to-end latency."""
        return self.finish_s - self.arrival_s


@dataclass(slots=True)
class LoadResult:
    """A simulated load."""

    requests: list[RequestTimes]
    steps: int = 0
    duration_s: float = 0.0
    preemptions: int = 0
    cached_tokens: int = 0
    step_times_s: list[float] = field(default_factory=list)

    def percentile(self, name: str, percent: float) -> float:
        """A percentile over requests of ttft_s, tpot_s or e2el_s (linear interpolation)."""
        values = sorted(float(getattr(request, name)) for request in self.requests)
        place = (len(values) - 1) * percent / 100
        low = int(place)
        high = min(low + 1, len(values) - 1)
        return values[low] + (values[high] - values[low]) * (place - low)

    def mean(self, name: str) -> float:
        """The mean over requests."""
        return sum(float(getattr(request, name)) for request in self.requests) / len(self.requests)

    @property
    def output_throughput(self) -> float:
        """Output tokens a second."""
        return sum(request.tokens for request in self.requests) / self.duration_s

    def goodput(self, slo: Mapping[str, float]) -> float:
        """Requests a second that meet every objective: ttft, tpot, e2el in seconds."""
        met = sum(
            all(getattr(request, f"{name}_s") <= bound for name, bound in slo.items())
            for request in self.requests
        )
        return met / self.duration_s


def poisson(
    rate: float, count: int, prompt_tokens: int, output_tokens: int, *, seed: int = 0
) -> list[Arrival]:
    """Requests that arrive at random, `rate` a second on average, all of one size."""
    source = random.Random(seed)
    time = 0.0
    arrivals = []
    for _ in range(count):
        time += source.expovariate(rate)
        arrivals.append(Arrival(time, prompt_tokens, output_tokens))
    return arrivals


def simulate(
    arrivals: Iterable[Arrival], config: SchedulerConfig, cost: StepCost, *, seed: int = 0
) -> LoadResult:
    """Run a load through the scheduler; each step takes the time that `cost` predicts."""
    waiting = sorted(arrivals, key=lambda arrival: arrival.time_s)
    if not waiting:
        raise InputError("load: expected at least one request, got none")
    scheduler = _scheduler(config)
    requests = _requests(waiting, config, seed)
    times = [RequestTimes(arrival.time_s) for arrival in waiting]
    by_id = {request.request_id: index for index, request in enumerate(requests)}
    result = LoadResult(times)
    now, arrived, scheduled_at = 0.0, 0, 0.0
    while arrived < len(requests) or scheduler.waiting or scheduler.running:
        seen = scheduled_at if config.async_scheduling else now
        while arrived < len(requests) and waiting[arrived].time_s <= seen:
            scheduler.add(requests[arrived])
            arrived += 1
        scheduled = scheduler.schedule()
        if not scheduled:
            if scheduler.waiting or scheduler.running:
                _refuse(scheduler, config)
            # An idle engine schedules at once.
            now = scheduled_at = max(now, waiting[arrived].time_s)
            continue
        spent = cost.step_ns(_shape(scheduled)) / 1e9
        scheduled_at = now
        now += spent
        result.step_times_s.append(spent)
        if len(result.step_times_s) > MAX_STEPS:
            raise InputError(f"load: expected at most {MAX_STEPS:,} steps", "give a shorter load")
        for sequence in scheduled:
            _commit(scheduler, sequence, times[by_id[sequence.request.request_id]], now)
    result.steps = len(result.step_times_s)
    result.duration_s = max(now - min(arrival.time_s for arrival in waiting), 1e-12)
    result.preemptions = scheduler.num_preemptions
    result.cached_tokens = sum(request.num_cached_tokens for request in requests)
    return result


def _scheduler(config: SchedulerConfig) -> BatchScheduler:
    from assay._native import BlockManager
    from assay.engine.core.batch_scheduler import POLICIES, BatchScheduler

    if config.policy not in POLICIES:
        raise InputError(f"policy: expected one of {', '.join(POLICIES)}, got {config.policy}")
    if config.max_num_batched_tokens < config.max_num_seqs:
        raise InputError(
            f"max_num_batched_tokens: expected at least max_num_seqs {config.max_num_seqs}, got "
            f"{config.max_num_batched_tokens}"
        )
    blocks = -(-config.kv_tokens // config.block_size)
    manager = BlockManager(blocks, config.block_size, prefix_caching=config.prefix_caching)
    return BatchScheduler(
        manager,
        max_batch=config.max_num_seqs,
        token_budget=config.max_num_batched_tokens,
        policy=config.policy,
        speculation_depth=0,
    )


def _requests(arrivals: Sequence[Arrival], config: SchedulerConfig, seed: int) -> list[Request]:
    from assay.engine.requests.output_text import OutputText
    from assay.engine.requests.request import Request
    from assay.engine.requests.sampling_params import SamplingParams

    source = random.Random(seed)
    shared = [source.randrange(_VOCABULARY) for _ in range(max(a.shared_prefix for a in arrivals))]
    requests = []
    for order, arrival in enumerate(arrivals):
        total = arrival.prompt_tokens + arrival.output_tokens
        if total > config.kv_tokens:
            raise InputError(
                f"load: expected requests of at most {config.kv_tokens:,} tokens, which the KV "
                f"cache holds, got one of {total:,}"
            )
        # Prompts differ, unless they are said to share their beginning.
        own = arrival.prompt_tokens - arrival.shared_prefix
        tokens = shared[: arrival.shared_prefix] + [
            source.randrange(_VOCABULARY) for _ in range(own)
        ]
        requests.append(
            Request(
                request_id=str(order), tokens=tokens, num_prompt_tokens=arrival.prompt_tokens,
                params=SamplingParams(max_tokens=arrival.output_tokens, temperature=0.0),
                seed=0, priority=0, arrival_order=order, max_total_tokens=total,
                stop_token_ids=frozenset(), text=OutputText(), arrival_time=arrival.time_s,
            )
        )  # fmt: skip
    return requests


def _refuse(scheduler: BatchScheduler, config: SchedulerConfig) -> None:
    """Nothing can be scheduled although requests wait: no request fits."""
    raise InputError(
        f"load: {len(scheduler.waiting) + len(scheduler.running)} requests wait and none fits "
        f"into a KV cache of {config.kv_tokens:,} tokens"
    )


def _shape(scheduled: Sequence[ScheduledSequence]) -> StepShape:
    """The shape of a step from what the scheduler chose."""
    decodes = prefill = samples = 0
    keys = pairs = 0.0
    for part in scheduled:
        request, tokens = part.request, part.num_scheduled_tokens
        before = request.num_computed_tokens
        samples += part.num_samples
        if before >= request.num_prompt_tokens and tokens == 1:
            decodes += 1
            keys += before + 1
        else:
            prefill += tokens
            pairs += tokens * (before + (tokens + 1) / 2)
    return StepShape(
        decodes, keys / decodes if decodes else 0.0, prefill, pairs, samples, len(scheduled)
    )


def _commit(
    scheduler: BatchScheduler, sequence: ScheduledSequence, times: RequestTimes, now: float
) -> None:
    """What the engine does after a step: count computed tokens, append the sampled one."""
    request = sequence.request
    first = request.num_computed_tokens
    known = request.tokens[first : first + sequence.num_scheduled_tokens]
    assert request.sequence_id is not None
    scheduler.block_manager.commit(request.sequence_id, known)
    request.num_computed_tokens += sequence.num_scheduled_tokens
    if not sequence.num_samples:
        return
    # Any token will do: its value decides nothing here.
    request.tokens.append(1)
    if request.num_output_tokens == 1:
        times.first_token_s = now
    times.tokens = request.num_output_tokens
    if len(request.tokens) >= request.max_total_tokens:
        times.finish_s = now
        scheduler.remove(request)
