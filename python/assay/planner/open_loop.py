"""Latencies of requests that arrive by themselves: queues, iterations and percentiles.

Requests arrive as a Poisson process, whatever the server does. An iteration takes one token of every
decoding request and the prompts that wait, up to the token budget: arrivals of one iteration are
served in the next (gated service). How many requests decode follows from Little's law: they share
the server, each slower the more there are, which is a queue of processor sharing with a closed form.

The time of an iteration is an input, a function of decoding requests and units of prompts; a unit
is a prompt, or a chunk of the budget where prompts are longer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from assay.errors import EvaluationError, InputError
from assay.lazy_import import LazyModule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
else:
    np = LazyModule("numpy", globals(), "np")

QUANTILES: Final = (0.5, 0.9, 0.99)
_MOST_STATES: Final = 512
_TAIL: Final = 1e-7
"""Probability of states beyond those that are counted."""
_POINTS: Final = 201


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests and what the engine does with them.

    `units` are chunks of a prompt, `units_at_once` how many of them an iteration takes; `emitted` is
    the tokens that a decode iteration gains, more than one with speculative decoding.
    """

    rate: float
    output: float
    units: int = 1
    units_at_once: int = 1
    emitted: float = 1.0
    most_running: int = 4096
    request_seconds: float = 0.0
    """HTTP, tokenizer and scheduler of the server before a request can be scheduled."""
    late_iterations: float = 0.0
    """Iterations until the server hands out the tokens of one: one where it launches the next first."""

    def __post_init__(self) -> None:
        if not (self.rate > 0 and self.output >= 1 and self.emitted > 0):
            raise InputError(
                f"open loop: expected a rate and tokens above 0, got rate {self.rate:g}, "
                f"output {self.output:g}, tokens a step {self.emitted:g}"
            )
        if min(self.units, self.units_at_once, self.most_running) < 1:
            raise InputError(
                "open loop: expected at least one unit of prompt and one running request"
            )


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean and 50th, 90th and 99th percentile, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """What requests that arrive at a rate see."""

    rate: float
    running: float
    """Mean number of decoding requests."""
    first_token: Latency
    output_token: Latency
    """Mean time between tokens of a request, over requests."""
    token_gap: Latency
    """Time between two tokens, over tokens."""
    end_to_end: Latency
    goodput: float
    """Requests per second within both limits; the rate where no limit is given."""


IterationTime = Callable[[int, int], float]
"""Seconds of an iteration by decoding requests and units of prompts."""


def open_loop(
    requests: Requests,
    iteration: IterationTime,
    first_token_limit: float = math.inf,
    output_token_limit: float = math.inf,
) -> OpenLoop:
    """Latencies and goodput at one arrival rate; raises where the server cannot keep up."""
    states = _Running(requests, iteration)
    firsts = [
        (values + states.waiting, shares)
        for values, shares in (chain.first_token() for chain in states.chains)
    ]
    first = _mixture(firsts, states.weights)
    gaps = _mixture([chain.gaps() for chain in states.chains], states.token_weights)
    outputs = states.output_tokens()
    rest = max(requests.output - 1, 0.0)
    ends = _mixture(
        [_sum(own, tokens, rest) for own, tokens in zip(firsts, outputs, strict=True)],
        states.weights,
    )
    within = sum(
        weight * _share_below(own, first_token_limit) * _share_below(tokens, output_token_limit)
        for weight, own, tokens in zip(states.weights, firsts, outputs, strict=True)
    )
    return OpenLoop(
        requests.rate, states.mean, _latency(first), _latency(_mixture(outputs, states.weights)),
        _latency(_scaled(gaps, 1.0 / requests.emitted)), _latency(ends), requests.rate * min(float(within), 1.0),
    )  # fmt: skip


Points = tuple["Array", "Array"]
"""Values and their probabilities."""


class _Chain:
    """Units of prompts that wait at the start of an iteration, with some requests decoding."""

    def __init__(self, requests: Requests, decoding: int, iteration: IterationTime) -> None:
        self.requests, self.decoding = requests, decoding
        count = requests.units_at_once
        self.times = np.array([iteration(decoding, units) for units in range(count + 1)])
        if not np.all(np.isfinite(self.times)) or np.any(self.times < 0):
            raise EvaluationError(f"an iteration of {decoding} requests takes no finite time")
        load = requests.rate * requests.units * self.times[-1] / count
        if load >= 1:
            raise EvaluationError(
                f"prompts of {requests.rate:g} requests/s need {load:.0%} of the time"
            )
        self.share, self.seconds = self._stationary()

    def _stationary(self) -> tuple[Array, Array]:
        """Probabilities of waiting units over iterations, and the time that each takes."""
        requests, count = self.requests, self.requests.units_at_once
        size = 32
        while True:
            states = np.arange(size)
            served = np.minimum(states, count)
            seconds = self.times[served].copy()
            moves = np.zeros((size, size))
            for state in states:
                left = state - served[state]
                if state == 0 and seconds[0] == 0:
                    # Nothing runs: the next request starts at once.
                    moves[0, min(requests.units, size - 1)] = 1.0
                    seconds[0] = 1.0 / requests.rate
                    continue
                arrivals = _poisson(requests.rate * seconds[state], size)
                targets = np.minimum(left + requests.units * np.arange(size), size - 1)
                np.add.at(moves[state], targets, arrivals)
            share = _stationary_of(moves)
            if share[-1] < _TAIL or size >= _MOST_STATES:
                return share, seconds
            size *= 2

    @property
    def mean_seconds(self) -> float:
        """Mean time of an iteration."""
        return float(self.share @ self.seconds)

    def gaps(self) -> Points:
        """Times between tokens."""
        return self.seconds, self.share

    def first_token(self) -> Points:
        """Time to first token: the rest of an iteration, those ahead, and the own prompt's."""
        requests, count = self.requests, self.requests.units_at_once
        seen = self.share * self.seconds / self.mean_seconds
        values: list[Array] = []
        weights: list[Array] = []
        for state in np.nonzero(seen > _TAIL)[0]:
            if state == 0 and self.times[0] == 0:
                # Nothing runs: no iteration to wait for, and nobody ahead.
                full, last = divmod(requests.units - 1, count)
                values.append(np.array([full * self.times[count] + self.times[last + 1]]))
                weights.append(np.array([seen[0]]))
                continue
            for part in _PARTS:
                times, shares = self._next(int(state), part)
                values.append(times)
                weights.append(seen[state] / len(_PARTS) * shares)
        times_to_first, shares = np.concatenate(values), np.concatenate(weights)
        late = requests.request_seconds + requests.late_iterations * self.mean_seconds
        return late + times_to_first, shares / shares.sum()

    def _next(self, state: int, part: float) -> Points:
        """Time to first token of a request that arrives when `part` of an iteration has passed."""
        requests, count, seconds = self.requests, self.requests.units_at_once, self.seconds[state]
        before = _likely(requests.rate * seconds * part)
        after = _likely(requests.rate * seconds * (1 - part))
        ahead, behind = np.arange(len(before))[:, None], np.arange(len(after))[None, :]
        units = max(state - count, 0) + requests.units * (ahead + 1)
        full = (units - 1) // count
        # Requests that come while others are served join the last iteration as well.
        later = np.rint(requests.rate * full * self.times[count]).astype(int)
        last = np.minimum(units - full * count + requests.units * (behind + later), count)
        times = (1 - part) * seconds + full * self.times[count] + self.times[last]
        return times.ravel(), (before[:, None] * after[None, :]).ravel()


class _Running:
    """How many requests decode, and what each number of them means for latencies."""

    def __init__(self, requests: Requests, iteration: IterationTime) -> None:
        self.requests = requests
        self._chain = cache(lambda number: _Chain(requests, number, iteration))
        share = self._share()
        numbers = np.arange(len(share))
        self.mean = float(share @ numbers)
        picked = _representatives(share)
        self.numbers = [min(number, requests.most_running) for number in picked]
        self.chains = [self._chain(number) for number in self.numbers]
        edges = [0, *((low + high + 1) // 2 for low, high in itertools.pairwise(picked))]
        self.weights = np.add.reduceat(share, edges)
        seconds = np.array([chain.mean_seconds for chain in self.chains])
        tokens = self.weights * np.minimum(picked, requests.most_running) / seconds
        self.token_weights = tokens / tokens.sum() if tokens.sum() > 0 else self.weights
        # Where more are there than may run, the others wait for a place: Little's law.
        beyond = np.maximum(numbers - requests.most_running, 0)
        self.waiting = float(share @ beyond) / requests.rate

    def _seconds(self, number: int) -> float:
        """Mean time of an iteration with so many decoding; between a few of them, by a line."""
        if number <= _EXACT:
            return float(self._chain(number).mean_seconds)
        low = _EXACT
        while (high := math.ceil(low * _STRIDE)) < number:
            low = high
        high = min(high, self.requests.most_running)
        if high <= low:
            return float(self._chain(high).mean_seconds)
        part = (number - low) / (high - low)
        return float(
            (1 - part) * self._chain(low).mean_seconds + part * self._chain(high).mean_seconds
        )

    def _share(self) -> Array:
        """Probabilities of 0, 1, 2 ... requests there: processor sharing, births and deaths."""
        requests = self.requests
        logs, total = [0.0], 0.0
        while True:
            number = len(logs)
            running = min(number, requests.most_running)
            # A request leaves when all its tokens are there.
            leaving = running * requests.emitted / (requests.output * self._seconds(running))
            logs.append(logs[-1] + math.log(requests.rate / leaving))
            total = float(np.logaddexp(total, logs[-1]))
            if requests.rate < leaving and logs[-1] - total < math.log(_TAIL):
                return np.exp(np.array(logs) - total)
            is_full = number > requests.most_running and requests.rate >= leaving
            if is_full or number > _MOST_NUMBER:
                raise EvaluationError(
                    f"{requests.rate:g} requests/s are more than the server completes"
                )

    def output_tokens(self) -> list[Points]:
        """Mean time between tokens of requests, by how many decode when they arrive."""
        requests = self.requests
        # A request that finds some decoding decodes with them: one more.
        seconds = [self._seconds(min(n + 1, requests.most_running)) for n in self.numbers]
        stay = requests.output * float(self.weights @ np.array(seconds)) / requests.emitted
        output_times = []
        for chain, own in zip(self.chains, seconds, strict=True):
            # Prompts that arrive during the stay, each of which delays one token.
            prompt = max(float(chain.times[min(1, len(chain.times) - 1)] - chain.times[0]), 0.0)
            steps = max(requests.output / requests.emitted, 1.0)
            load = min(requests.rate * requests.units * prompt, 0.9)
            work = math.sqrt(requests.rate * stay) * requests.units * prompt / (1 - load)
            spread = work / steps
            output_times.append(_scaled(_lognormal(own, spread), 1.0 / requests.emitted))
        return output_times


_EXACT: Final = 8
_STRIDE: Final = 1.25
_PARTS: Final = tuple((index + 0.5) / 8 for index in range(8))
_MOST_NUMBER: Final = 20_000
_REPRESENTATIVES: Final = 24


def _representatives(share: Array) -> list[int]:
    """Numbers of requests that stand for those between them: quantiles of their distribution."""
    cumulative = np.cumsum(share)
    targets = np.linspace(1e-4, 1 - 1e-4, _REPRESENTATIVES)
    quantiles = np.searchsorted(cumulative, targets)
    return sorted({int(min(index, len(share) - 1)) for index in quantiles})


def _likely(mean: float) -> Array:
    """Probabilities of 0, 1, 2 ... arrivals, up to those that are likely."""
    return _poisson(mean, max(8, int(mean + 6 * math.sqrt(mean) + 6)))


def _poisson(mean: float, count: int) -> Array:
    """Probabilities of 0 to `count - 1` arrivals, the last with all beyond."""
    numbers = np.arange(count)
    if mean <= 0:
        none: Array = (numbers == 0).astype(np.float64)
        return none
    logs = numbers * math.log(mean) - mean - np.cumsum(np.log(np.maximum(numbers, 1)))
    probabilities: Array = np.exp(logs)
    probabilities[-1] += max(1.0 - float(probabilities.sum()), 0.0)
    probabilities /= probabilities.sum()
    return probabilities


def _stationary_of(moves: Array) -> Array:
    """The distribution that a chain keeps."""
    size = len(moves)
    system = moves.T - np.eye(size)
    # The rows add up to nothing: the last says that probabilities add up to one.
    system[-1] = 1.0
    target = np.zeros(size)
    target[-1] = 1.0
    probabilities: Array = np.clip(np.linalg.solve(system, target), 0.0, None)
    probabilities /= probabilities.sum()
    return probabilities


def _lognormal(center: float, spread: float) -> Points:
    """A lognormal distribution of this mean and spread as points, cut at three spreads."""
    steps = np.linspace(-3, 3, _POINTS)
    weights = np.exp(-0.5 * steps**2)
    sigma = math.sqrt(math.log1p((spread / center) ** 2)) if center > 0 else 0.0
    return center * np.exp(sigma * steps - sigma**2 / 2), weights / weights.sum()


def _scaled(points: Points, factor: float) -> Points:
    return points[0] * factor, points[1]


def _mixture(parts: Sequence[Points], weights: Array) -> Points:
    values = np.concatenate([values for values, _ in parts])
    shares = np.concatenate(
        [weight * share for weight, (_, share) in zip(weights, parts, strict=True)]
    )
    return values, shares / shares.sum()


def _sum(first: Points, tokens: Points, count: float) -> Points:
    """First token plus `count` times between tokens, taken as independent given the load."""
    levels = (np.arange(25) + 0.5) / 25
    starts = np.array([_quantile(first, level) for level in levels])
    gaps = np.array([_quantile(tokens, level) for level in levels])
    both = (starts[:, None] + count * gaps[None, :]).ravel()
    return both, np.full(both.size, 1.0 / both.size)


def _quantile(points: Points, level: float) -> float:
    order = np.argsort(points[0])
    position = np.searchsorted(np.cumsum(points[1][order]), level)
    return float(points[0][order][min(int(position), len(order) - 1)])


def _share_below(points: Points, limit: float) -> float:
    return float(points[1][points[0] <= limit].sum())


def _latency(points: Points) -> Latency:
    return Latency(float(points[0] @ points[1]), *(_quantile(points, level) for level in QUANTILES))
