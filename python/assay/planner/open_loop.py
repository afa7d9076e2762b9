"""Latencies of requests that arrive by themselves: queues, iterations and percentiles.

Requests arrive as a Poisson process, whatever the server does. How many decode follows from births and
deaths: they share the server, each slower the more there are (processor sharing). For each number of
them, prompts wait for iterations (`prefill_chain.py`). An idle server has the latency of one request, and
at the rate that it can complete latencies grow without bound.

The time of an iteration is an input, a function of decoding requests and units of prompts.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from assay.errors import EvaluationError
from assay.lazy_import import np
from assay.planner import weighted_points as points
from assay.planner.prefill_chain import TAIL, IterationTime, PrefillChain, Requests, prompt_seconds
from assay.planner.weighted_points import Points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

QUANTILES: Final = (0.5, 0.9, 0.99)
_EXACT: Final = 8
_STRIDE: Final = 1.25
_MOST_NUMBER: Final = 20_000
_REPRESENTATIVES: Final = 16
_RARE: Final = 1e-5
_MOST_LOAD: Final = 0.9
_MOST_UNSTABLE: Final = 0.01
"""Probability of states in which prompts queue up, beyond which a server counts as saturated."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean and 50th, 90th and 99th percentile, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


_NO_LATENCY: Final = Latency(math.nan, math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """What requests that arrive at a rate see."""

    rate: float
    running: float
    """Mean number of requests that are there: the rate times the mean latency (Little's law)."""
    first_token: Latency
    output_token: Latency
    """Mean time between tokens of a request, over requests; NaN where requests have one token."""
    token_gap: Latency
    """Time between two tokens, over tokens; NaN where requests have one token."""
    end_to_end: Latency
    goodput: float
    """Requests per second within both limits; the rate where no limit is given."""


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
    gaps = states.token_gaps()
    outputs = states.output_tokens()
    has_gaps = requests.output > 1
    wholes = firsts
    if has_gaps:
        rest = requests.output - 1
        wholes = [
            points.total(own, tokens, rest) for own, tokens in zip(firsts, outputs, strict=True)
        ]
    else:
        output_token_limit = math.inf
    ends = points.mixture(wholes, states.weights)
    within = sum(
        weight
        * points.share_below(own, first_token_limit)
        * points.share_below(tokens, output_token_limit)
        for weight, own, tokens in zip(states.weights, firsts, outputs, strict=True)
    )
    end_to_end = _latency(ends)
    return OpenLoop(
        requests.rate, requests.rate * end_to_end.mean,
        _latency(points.mixture(firsts, states.weights)),
        _latency(points.mixture(outputs, states.weights)) if has_gaps else _NO_LATENCY,
        _latency(points.scaled(gaps, 1.0 / requests.emitted)) if has_gaps else _NO_LATENCY,
        end_to_end,
        requests.rate * min(float(within), 1.0),
    )  # fmt: skip


def keeps_up(requests: Requests, iteration: IterationTime) -> bool:
    """Whether a server completes as many requests as arrive."""
    try:
        _Running(requests, iteration)
    except EvaluationError:
        return False
    return True


class _Running:
    """How many requests decode, and what each number of them means for latencies."""

    def __init__(self, requests: Requests, iteration: IterationTime) -> None:
        self.requests, self.iteration = requests, iteration
        self._chain = cache(lambda number: PrefillChain(requests, number, iteration))
        share = self._share()
        numbers = np.arange(len(share))
        picked = _representatives(share)
        self.numbers = [min(number, requests.most_running) for number in picked]
        self.chains = [self._chain(number) for number in self.numbers]
        edges = [0, *((low + high + 1) // 2 for low, high in itertools.pairwise(picked))]
        self.weights = np.add.reduceat(share, edges)
        self._drop_unstable()
        # Where more are there than may run, the others wait for a place: Little's law.
        beyond = np.maximum(numbers - requests.most_running, 0)
        self.waiting = float(share @ beyond) / requests.rate

    def _drop_unstable(self) -> None:
        """Leave out rare numbers of requests at which prompts queue up for as long as they last."""
        stable = [chain.is_stable for chain in self.chains]
        if (left_out := 1 - float(self.weights[stable].sum())) > _MOST_UNSTABLE:
            raise EvaluationError(
                f"prompts of {self.requests.rate:g} requests/s need all of the time for "
                f"{left_out:.0%} of it"
            )
        self.numbers = list(itertools.compress(self.numbers, stable))
        self.chains = list(itertools.compress(self.chains, stable))
        self.weights = self.weights[stable] / self.weights[stable].sum()

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
        # An arrival also keeps others from leaving while its prompt runs, as if more had arrived:
        # births vary by the square of that, deaths as before.
        load = min(requests.rate * prompt_seconds(requests, self.iteration, 1), _MOST_LOAD)
        noise = (1 + (1 - load) ** -2) / 2
        logs, total = [0.0], 0.0
        while True:
            number = len(logs)
            running = min(number, requests.most_running)
            # A request leaves when all its tokens are there.
            leaving = running * requests.emitted / (requests.output * self._seconds(running))
            logs.append(logs[-1] + math.log(requests.rate / leaving) / noise)
            total = float(np.logaddexp(total, logs[-1]))
            if requests.rate < leaving and logs[-1] - total < math.log(TAIL):
                return np.exp(np.array(logs) - total)
            is_full = number > requests.most_running and requests.rate >= leaving
            if is_full or number > _MOST_NUMBER:
                raise EvaluationError(
                    f"{requests.rate:g} requests/s are more than the server completes"
                )

    def token_gaps(self) -> Points:
        """Times between two tokens, over tokens: of the more requests, the more there are."""
        decoding = [
            (chain, weight * number / chain.mean_seconds)
            for chain, number, weight in zip(self.chains, self.numbers, self.weights, strict=True)
            if number
        ]
        if not decoding:
            return self._chain(1).gaps()
        weights = np.array([weight for _, weight in decoding])
        return points.mixture([chain.gaps() for chain, _ in decoding], weights / weights.sum())

    def output_tokens(self) -> list[Points]:
        """Mean time between tokens of requests, by how many decode when they arrive."""
        requests = self.requests
        # A request that finds some decoding decodes with them: one more.
        seconds = [self._seconds(min(n + 1, requests.most_running)) for n in self.numbers]
        steps = max(requests.output / requests.emitted, 1.0)
        output_times = []
        for chain, own in zip(self.chains, seconds, strict=True):
            # Arrivals during the stay delay it by their prompts and by their tokens, and so bring
            # further ones: iterations vary as those of a server that decodes as many do.
            decoding = min(chain.decoding + 1, requests.most_running)
            prompt = prompt_seconds(requests, self.iteration, decoding)
            load = requests.rate * (prompt + steps * self._marginal(chain.decoding))
            varying = points.spread(self._chain(max(chain.decoding, 1)).gaps())
            # The units of a long prompt come one after the other.
            alike = min(max(requests.units / requests.units_at_once, 1.0), steps)
            deviation = varying * math.sqrt(alike / steps) / (1 - min(load, _MOST_LOAD))
            values, shares = points.lognormal(own, deviation)
            # No token comes sooner than an iteration without prompts takes.
            least = self.iteration(decoding, 0)
            tokens = np.maximum(values, min(least, own)), shares
            output_times.append(points.scaled(tokens, 1.0 / requests.emitted))
        return output_times

    def _marginal(self, number: int) -> float:
        """Seconds that one more decoding request adds to an iteration, mean over the next few."""
        more = min(max(number, 1) + _EXACT, self.requests.most_running)
        if more <= max(number, 1):
            return 0.0
        added = self.iteration(more, 0) - self.iteration(max(number, 1), 0)
        return max(added, 0.0) / (more - max(number, 1))


def _representatives(share: Array) -> list[int]:
    """Numbers of requests that stand for those between them: the first, and quantiles."""
    cumulative = np.cumsum(share)
    targets = np.linspace(1e-4, 1 - 1e-4, _REPRESENTATIVES)
    quantiles = np.searchsorted(cumulative, targets)
    # Of few requests each counts; a quantile would stand for those below it, too.
    first = np.nonzero(share[:_EXACT] > _RARE)[0]
    return sorted({int(min(index, len(share) - 1)) for index in (*first, *quantiles)})


def _latency(distribution: Points) -> Latency:
    values = points.quantiles(distribution, QUANTILES)
    return Latency(points.mean(distribution), *(float(value) for value in values))
