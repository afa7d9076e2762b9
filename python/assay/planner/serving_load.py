"""What a server of a model does under open-loop load, by arrival rate.

The times of iterations are those of `predict`; queues and percentiles are those of `open_loop`.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from assay.answers import Progress, silent
from assay.catalog import engines
from assay.errors import EvaluationError, InputError
from assay.lazy_import import np
from assay.model.language.distributions import Z90
from assay.planner.evaluation import STEP, inputs, spreads
from assay.planner.open_loop import OpenLoop, keeps_up, open_loop
from assay.planner.plan import plan_step
from assay.planner.prefill_chain import IterationTime, Requests
from assay.planner.serving_settings import started_with
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec
from assay.planner.sweep import sweep

_GRID: Final = 1.3
"""Ratio of the numbers of requests at which steps are evaluated; lines join them."""
_MOST_UNITS: Final = 16
"""Parts that a long prompt is counted in."""
_MOST_AT_ONCE: Final = 256
"""Prompts that an iteration takes at most, however short they are."""
_CLOSE: Final = 1.02
"""Ratio of rates at which the most that a server completes counts as found."""
_IDLE: Final = 0.1
"""Requests there on average, below which a server counts as idle."""


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """Requests of one length that arrive as a Poisson process.

    `prefix_hits` is the share of prompt tokens whose KV cache is there already, `most_running`
    the engine's limit (max_num_seqs) or what the KV cache holds.
    """

    prompt: int
    output: int
    prefix_hits: float = 0.0
    most_running: int = 1024
    first_token_limit: float = math.inf
    output_token_limit: float = math.inf

    def __post_init__(self) -> None:
        if self.prompt < 1 or self.output < 1:
            raise InputError(
                f"load: expected lengths of 1 token or more, got {self.prompt} and {self.output}"
            )
        if not 0 <= self.prefix_hits < 1:
            raise InputError(f"prefix hits: expected 0 to below 1, got {self.prefix_hits:g}")
        if self.most_running < 1:
            raise InputError(f"running requests: expected 1 or more, got {self.most_running}")


@dataclass(frozen=True, slots=True)
class PredictedLoad(OpenLoop):
    """What requests that arrive at a rate see, with the ends of its 90 % interval.

    The ends are those of a server whose iterations all take as little, or as long, as their model error
    allows; near saturation that moves latencies by more than the error itself.
    """

    verdict: str
    """`idle`, `ok`, or `near saturation`: at the upper end the server cannot keep up."""
    lo: OpenLoop
    hi: OpenLoop | None
    """None where latencies have no upper end."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The most requests per second that a server completes, with the ends of its 90 % interval."""

    rate: float
    lo: float
    hi: float


class _Parts:
    """How a prompt is divided over iterations: in units of one or several iterations each.

    `tokens` are the tokens of prompts of iterations; the time of an iteration with so many units of
    prompts is `shares` of the times with those: units of a long prompt have the mean of its iterations,
    the last of which takes the rest.
    """

    def __init__(self, fresh: int, budget: int) -> None:
        chunks = math.ceil(fresh / budget)
        self.each = math.ceil(chunks / _MOST_UNITS)
        self.units = math.ceil(chunks / self.each)
        self.at_once = min(max(budget // fresh, 1), _MOST_AT_ONCE)
        if chunks == 1:
            self.tokens = [fresh * units for units in range(self.at_once + 1)]
            self.shares = np.eye(self.at_once + 1)
            return
        whole, rest = divmod(fresh, budget)
        iterations = self.units * self.each
        self.tokens = [0, budget, rest or 1]
        last = 1 if rest else 0
        mean = [(iterations - whole - last) / iterations, whole / iterations, last / iterations]
        self.shares = np.array([[1.0, 0.0, 0.0], mean]).T


def latencies(
    model: ModelSpec,
    hardware: HardwareSpec,
    batch: BatchConfig,
    load: ServedLoad,
    rates: Sequence[float],
    finds_most: bool = False,
    progress: Progress = silent,
) -> tuple[list[PredictedLoad], list[tuple[float, str]], Completed | None]:
    """The latencies of a server at each arrival rate, and why it is saturated at others.

    Where it is at some rate, and if `finds_most`: what it completes.
    """
    fresh = max(round(load.prompt * (1 - load.prefix_hits)), 1)
    budget, _ = started_with(model, hardware, batch)
    parts = _Parts(fresh, budget)
    iteration = _iterations(model, hardware, batch, load, parts)
    drafted = batch.speculative_tokens
    accepted = batch.acceptance or 0.0
    emitted = drafted + 1.0 if accepted >= 1 else (1 - accepted ** (drafted + 1)) / (1 - accepted)
    errors = _log_errors(model, hardware, batch, load, min(fresh, budget))
    rows: list[PredictedLoad] = []
    refused: list[tuple[float, str]] = []

    def server(rate: float, deviations: float) -> tuple[Requests, IterationTime]:
        requests = Requests(
            rate=rate, output=load.output, units=parts.units, units_at_once=parts.at_once,
            unit_iterations=parts.each, emitted=emitted, most_running=load.most_running,
            **server_constants(batch.engine, deviations),
        )  # fmt: skip
        return requests, _slower(iteration, errors, deviations)

    def at(rate: float, deviations: float) -> OpenLoop | str:
        return _answer(*server(rate, deviations), load)

    for rate in rates:
        progress(f"{rate:g} requests/s")
        likely, least = at(rate, 0.0), at(rate, -Z90)
        if isinstance(likely, str) or isinstance(least, str):
            may = "" if isinstance(least, str) else "; within its interval it may keep up"
            refused.append((rate, f"saturated: {likely}{may}"))
            continue
        most = at(rate, Z90)
        rows.append(_row(likely, least, None if isinstance(most, str) else most))
    if not refused or not finds_most:
        return rows, refused, None
    progress("the most that the server completes")
    prompts = parts.at_once / (parts.units * parts.each * iteration(0, parts.at_once))
    tokens = load.most_running * emitted / iteration(load.most_running, 0)
    # Never more than prompts alone, or their answers alone, have time for.
    near = min(prompts, tokens / load.output, *(rate for rate, _ in refused))
    likely_most = _most_completed(server, 0.0, near)
    ends = [_most_completed(server, deviations, likely_most) for deviations in (Z90, -Z90)]
    return rows, refused, Completed(likely_most, *ends)


def _most_completed(
    server: Callable[[float, float], tuple[Requests, IterationTime]], deviations: float, near: float
) -> float:
    """The largest rate that a server keeps up with, by halving the interval around it."""
    low = high = near
    while keeps_up(*server(high, deviations)):
        low, high = high, 1.5 * high
    while low == high or not keeps_up(*server(low, deviations)):
        low, high = low / 1.5, low
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        is_below = keeps_up(*server(middle, deviations))
        low, high = (middle, high) if is_below else (low, middle)
    return low


def _answer(requests: Requests, iteration: IterationTime, load: ServedLoad) -> OpenLoop | str:
    """The latencies at a rate, or why the server cannot keep up with it."""
    try:
        return open_loop(requests, iteration, load.first_token_limit, load.output_token_limit)
    except EvaluationError as error:
        return error.message


def _row(likely: OpenLoop, least: OpenLoop, most: OpenLoop | None) -> PredictedLoad:
    verdict = "near saturation" if most is None else "idle" if likely.running < _IDLE else "ok"
    return PredictedLoad(
        likely.rate, likely.running, likely.first_token, likely.output_token, likely.token_gap,
        likely.end_to_end, likely.goodput, verdict, least, most,
    )  # fmt: skip


def server_constants(engine: str, deviations: float = 0.0) -> dict[str, float]:
    """What a server adds to a first token."""
    constants = engines.find(engine, "open_loop")
    names = {
        "request_seconds": "serving.request_time", "late_iterations": "serving.first_iterations"
    }  # fmt: skip
    errors = constants.log_standard_errors
    return {
        field: constants.values[name] * math.exp(deviations * errors.get(name, 0.0))
        for field, name in names.items()
    }


def _log_errors(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, load: ServedLoad, tokens: int
) -> tuple[float, float]:
    """Log spreads of the times of iterations without and with prompts."""
    name = f"{STEP}wall_time"
    decode = replace(
        batch, context=load.prompt + load.output // 2, sequences=1, prefill_tokens=0, prompt=0
    )  # fmt: skip
    prefill = replace(decode, prefill_tokens=tokens, prompt=load.prompt)

    def spread(step: BatchConfig) -> float:
        given, _ = inputs(model, hardware, step, plan_step(model, step, on_gpu=hardware.is_gpu))
        return spreads(given, hardware, step.engine, [name])[name].sigma

    return spread(decode), spread(prefill)


def _slower(
    iteration: IterationTime, errors: tuple[float, float], deviations: float
) -> IterationTime:
    """The times of iterations so many standard deviations above the likely ones."""
    factors = [math.exp(deviations * error) for error in errors]
    # A prompt never makes an iteration shorter.
    return lambda decoding, units: max(
        iteration(decoding, units) * factors[1 if units else 0], iteration(decoding, 0) * factors[0]
    )


def _iterations(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, load: ServedLoad, parts: _Parts
) -> IterationTime:
    """Seconds of an iteration by decoding requests and units of prompts, from one tape."""
    numbers = [0, 1]
    while numbers[-1] < load.most_running:
        numbers.append(min(math.ceil(numbers[-1] * _GRID), load.most_running))
    chosen = replace(
        batch, context=load.prompt + load.output // 2, prompt=load.prompt, sequences=1,
        prefill_tokens=0,
    )  # fmt: skip
    times = np.zeros((len(numbers), len(parts.tokens)))
    step_ns = sweep(
        model, hardware, chosen, {"sequences": numbers[1:], "prefill_tokens": parts.tokens}
    ).step_ns
    times[1:] = np.reshape(step_ns, (len(numbers) - 1, len(parts.tokens))) * 1e-9
    alone = sweep(
        model, hardware, replace(chosen, sequences=0, prefill_tokens=parts.tokens[1]),
        {"prefill_tokens": parts.tokens[1:]},
    ).step_ns  # fmt: skip
    times[0, 1:] = alone * 1e-9
    table = times @ parts.shares

    @cache
    def row(decoding: int) -> list[float]:
        """The times with so many requests decoding, by a line between those of the table."""
        above = min(bisect.bisect_left(numbers, decoding), len(numbers) - 1)
        low = max(above - 1, 0)
        width = numbers[above] - numbers[low]
        part = min((decoding - numbers[low]) / width, 1.0) if width else 1.0
        line: list[float] = ((1 - part) * table[low] + part * table[above]).tolist()
        return line

    return lambda decoding, units: row(decoding)[units]
