"""What requests of a traffic see of one server, in closed form: latencies, and the share within limits.

Prompts wait for each other (M/G/1) and decoding requests share the server (processor sharing). A fixed
sample of requests, each with its own lengths and places in those distributions, gives all percentiles and
the share that keeps every limit together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final

from assay.catalog.engines import NO_FRONTEND, Frontend
from assay.errors import EvaluationError
from assay.lazy_import import np
from assay.planner.capacity import queues
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.step_table import StepTable
from assay.planner.open_loop import Latency

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

SAMPLE: Final = 4096
"""Requests of the sample."""
_ITERATIONS: Final = 12
"""Of the fixed point of tokens in a step and its time."""
_MOST_LOAD: Final = 0.9
_FEW: Final = 8
"""Values of a sum up to which each is drawn."""
_BURSTY: Final = 2.0
"""Dispersion of arrivals from which on counts are not nearly Poisson."""
_NO_TIME: Final = 1e-12
_QUANTILES: Final = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class ServerLimits:
    """What a server adds to a first token, and the KV cache it has."""

    cache_tokens: float
    request_seconds: float = 0.0
    late_iterations: float = 0.0
    frontend: Frontend = NO_FRONTEND
    """The API process: requests and tokens of all sequences pass it one by one."""

    def handled(self, outputs: float) -> float:
        """Seconds of the API process for a request of so many output tokens."""
        return self.frontend.request + self.frontend.token * outputs


@dataclass(frozen=True)
class Sample:
    """Requests that stand for a traffic, with fixed places in every distribution."""

    fresh: Numbers
    prompts: Numbers
    outputs: Numbers
    uniform: Numbers
    """A row for each distribution that a request has a place in."""

    @cached_property
    def context(self) -> float:
        """Tokens in the cache of a decoding request, mean over time."""
        held = self.prompts + self.outputs / 2
        return float((self.outputs * held).sum() / self.outputs.sum())

    @cached_property
    def attended(self) -> float:
        """The length of a prompt whose tokens attend to as many others, mean over fresh tokens."""
        own = 2 * self.prompts - self.fresh
        return float((self.fresh * own).sum() / self.fresh.sum())


def sample_of(fresh: Numbers, prompts: Numbers, outputs: Numbers, size: int = SAMPLE) -> Sample:
    """A sample of requests: all lengths as often as they are, places by a low-discrepancy sequence.

    The additive recurrence of Roberts (2018) with the roots of x^(d+1) = x + 1.
    """
    order = np.argsort(fresh, kind="stable")
    picked = order[((np.arange(size) + 0.5) / size * len(fresh)).astype(np.int64)]
    root = 1.2
    dimensions = 7
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = np.array([root ** -(index + 1) for index in range(dimensions)])
    uniform = (0.5 + np.outer(steps, np.arange(1, size + 1))) % 1.0
    # The lengths are sorted; the places must not follow them.
    shuffle = np.random.default_rng(0).permutation(size)
    return Sample(fresh[picked], prompts[picked], outputs[picked], uniform[:, shuffle])


@dataclass(frozen=True)
class Served:
    """Latencies of a traffic on one server, and how it is used."""

    rate: float
    running: float
    """Requests that decode, mean over time."""
    first_token: Latency
    output_token: Latency
    end_to_end: Latency
    attained: float
    """Share of requests that keep every limit."""
    misses: dict[str, float]
    """Share of requests beyond each limit."""
    prompt_share: float
    """Share of the time that prompts take."""
    step_tokens: float
    """Tokens of prompts in a step, mean over steps."""
    busy: float
    """Share of the time in which something runs."""

    @property
    def input_share(self) -> float:
        """Share of the cost that input tokens have: that of the busy time that prompts take."""
        return self.prompt_share / max(self.busy, self.prompt_share)

    @property
    def binds(self) -> str:
        """The limit that most requests miss."""
        return max(self.misses, key=lambda name: self.misses[name]) if self.misses else "rate"


def serve(
    table: StepTable, sample: Sample, rate: float, limits: ServerLimits, objective: Objective,
    dispersion: float = 1.0,
) -> Served:  # fmt: skip
    """Latencies of a traffic at a rate; raises `EvaluationError` where the server cannot keep up."""
    state = ServerState(table, sample, rate, limits, dispersion)
    return judged(sample, state.first_tokens(), state.output_tokens(), objective, state)


def judged(
    sample: Sample, first: Numbers, token: Numbers, objective: Objective, state: ServerState
) -> Served:
    """The latencies of a sample beside limits."""
    whole = first + (sample.outputs - 1) * token
    values = {"ttft": first, "tpot": token, "e2el": whole}
    kept = np.ones(len(first), dtype=bool)
    misses = {}
    for name, limit in objective.limits.items():
        late = values[name] > limit
        if name == "tpot":
            # A request of one token has no time between tokens.
            late = late & (sample.outputs > 1)
        misses[name] = float(late.mean())
        kept &= ~late
    return Served(
        state.rate, state.mean_running, _latency(first), _latency(token[sample.outputs > 1]),
        _latency(whole), float(kept.mean()), misses, state.prompt_share, state.step_tokens,
        state.busy,
    )  # fmt: skip


def _latency(values: Numbers) -> Latency:
    if not len(values):
        return Latency(math.nan, math.nan, math.nan, math.nan)
    return Latency(float(values.mean()), *(float(q) for q in np.quantile(values, _QUANTILES)))


class ServerState:
    """How a server is at a rate: steps by the number that decode, and how many do."""

    def __init__(
        self, table: StepTable, sample: Sample, rate: float, limits: ServerLimits,
        dispersion: float,
    ) -> None:  # fmt: skip
        self.sample, self.rate, self.limits, self.dispersion = sample, rate, limits, dispersion
        self.context, self.attended = sample.context, sample.attended
        held = math.floor(limits.cache_tokens / self.context)
        self.most = max(min(table.most, held), 1)
        numbers = np.arange(self.most + 1, dtype=float)
        self.numbers = numbers
        room = np.maximum(table.budget - numbers, 1.0)
        self.mean_fresh = float(sample.fresh.mean())
        # Tokens of longer prompts attend to more others.
        self.longer = table.longer(2 * sample.prompts - sample.fresh, self.attended)
        self.mean_output = float(sample.outputs.mean())
        self.handled = rate * limits.handled(self.mean_output)
        if self.handled >= 1:
            raise EvaluationError(
                f"the API process needs {self.handled:.0%} of the time for {rate:g} requests/s"
            )
        self._run(table, room)
        lasting = table.lasting(self.numbers, self.load, rate)
        if lasting is not table:
            self._run(lasting, room)

    def _run(self, table: StepTable, room: Numbers) -> None:
        """How many decode where steps take what a table says."""
        numbers, rate = self.numbers, self.rate
        self.table = table
        self.decode = table.seconds(numbers, self.context, 0.0, self.attended)
        self.decode[0] = 0.0
        self.fill = self._fill(room)
        self.mixed = table.seconds(numbers, self.context, self.fill, self.attended)
        self.full = table.seconds(numbers, self.context, room, self.attended)
        # What a prompt adds to the steps that it is in, by its tokens.
        self.added = np.maximum(self.mixed - self.decode, 0.0) / self.fill
        load = rate * self.mean_fresh * self.added
        stable = load < 1
        if not stable[min(1, self.most)]:
            raise EvaluationError(
                f"prompts of {rate:g} requests/s need {load[min(1, self.most)]:.0%} of the time"
            )
        self.load = np.where(stable, load, 1 - 1e-6)
        self.seconds = np.where(stable, self.decode / (1 - self.load), np.inf)
        self.share = self._share()
        self.running = np.minimum(np.arange(len(self.share)), self.most)
        self.mean_running = float(self.share @ self.running)
        self.variance = float(self.share @ self.running**2) - self.mean_running**2

    def _fill(self, room: Numbers) -> Numbers:
        """Tokens of prompts in a step that has any, by the number that decode.

        Prompts that arrive during a step share the next one.
        """
        fresh = self.sample.fresh
        quarter = np.minimum(np.linspace(0, self.most, 5).astype(int), self.most)
        pieces = np.array(
            [float(np.ceil(fresh / max(self.table.budget - n, 1)).mean()) for n in quarter]
        )
        chunks = np.interp(self.numbers, np.unique(quarter), pieces[: len(np.unique(quarter))])
        single = self.mean_fresh / chunks
        fill = np.minimum(single, room)
        for _ in range(_ITERATIONS):
            times = self.table.seconds(self.numbers, self.context, fill, self.attended)
            arriving = np.maximum(self.rate * times * chunks, 1e-9)
            fill = np.minimum(single * arriving / -np.expm1(-arriving), room)
        return np.asarray(fill, float)

    def _share(self) -> Numbers:
        """Probabilities of how many requests decode or wait for a place to."""
        load = min(self.rate * self.mean_fresh * float(self.added[min(1, self.most)]), _MOST_LOAD)
        # An arrival also keeps others from leaving while its prompt runs, as if more had arrived:
        # births vary by the square of that, deaths as before.
        square = self._squares(self.added[min(1, self.most)])
        births = 1 + 2 * load / (1 - load) + float(square) * (self.rate / (1 - load)) ** 2
        noise = (1 + self.dispersion * births) / 2

        def leaving(most: int) -> Numbers:
            rates: Numbers = np.maximum(
                self.numbers[1:] / (self.mean_output * self.seconds[1:]), 1e-12
            )
            return rates

        return queues.number_there(self.rate, leaving, self.most, noise)

    def _squares(self, added: Numbers) -> Numbers:
        """Mean square of the time that a prompt adds to steps, by that of its tokens on average."""
        square = self.sample.fresh**2
        linear, rest = float((square * self.longer).mean()), (square * self.longer**2).mean()
        squares: Numbers = float(square.mean()) * added**2 + 2 * linear * added + float(rest)
        return squares

    @property
    def prompt_share(self) -> float:
        """Share of the time that prompts take."""
        return min(float(self.share @ self.load[self.running]), 1.0)

    @property
    def busy(self) -> float:
        """Share of the time in which something runs."""
        return 1 - float(self.share[0]) * (1 - float(self.load[0]))

    @property
    def step_tokens(self) -> float:
        """Tokens of prompts in a step, mean over steps."""
        step = float(np.interp(self.mean_running, self.numbers, self.seconds))
        return min(self.rate * self.mean_fresh * step, float(self.fill.max()))

    def _seen(self) -> tuple[NDArray[np.int64], Numbers]:
        """How many decode when each request of the sample arrives, and those who wait before it."""
        cumulative = np.cumsum(self.share)
        there = np.searchsorted(cumulative, self.sample.uniform[0] * cumulative[-1])
        there = np.minimum(there, len(self.share) - 1)
        waiting = np.maximum(there - self.most + 1, 0).astype(float)
        return np.minimum(there, self.most), waiting

    def first_tokens(self) -> Numbers:
        """Time to first token of each request of the sample."""
        sample, uniform = self.sample, self.sample.uniform
        decoding, waiting = self._seen()
        mean = min(round(self.mean_running), self.most)
        # Prompts that wait fill their steps: the queue is served by the token budget.
        each = self.full / np.maximum(self.table.budget - self.numbers, 1.0)
        service = sample.fresh * np.maximum(float(each[mean]) + self.longer, 0.0)
        times, below = queues.waiting_times(self.rate, service, dispersion=self.dispersion)
        behind = queues.inverse(times, below, uniform[1]) * each[decoding] / each[mean]
        # In an empty queue a prompt waits for the rest of a step, with other prompts or without.
        mixed = np.minimum(self.rate * self.mean_fresh * self.mixed / self.fill, 1.0)
        queued = np.minimum(self.rate * self.mean_fresh * each, 1 - 1e-9)
        among = np.clip((mixed - queued) / (1 - queued), 1e-9, 1 - 1e-9)[decoding]
        has_others = uniform[2] < among
        part = np.where(has_others, uniform[2] / among, (uniform[2] - among) / (1 - among))
        step = np.where(has_others, self.mixed[decoding], self.decode[decoding])
        rest = np.where(behind > 0, 0.0, part * step)
        window = np.where(behind > 0, behind, step)
        place = waiting * self.mean_output * self.seconds[self.most] / self.most
        own, last = self._own(decoding, window)
        # The step after the last one has prompts where any came during it.
        after = np.minimum(decoding + 1, self.most)
        has_prompts = uniform[6] < -np.expm1(-self.rate * last)
        late = self.limits.late_iterations * np.where(
            has_prompts, self.mixed[after], self.decode[after]
        )
        # Requests wait for the API process as for a server of one service time (M/D/1).
        api = self.limits.frontend.request / 2 * self.handled / (1 - self.handled)
        first: Numbers = self.limits.request_seconds + api + place + rest + behind + own + late
        return first

    def _own(self, decoding: NDArray[np.int64], waited: Numbers) -> tuple[Numbers, Numbers]:
        """Time of the steps that compute the prompt of each request, and of the last of them."""
        fresh = self.sample.fresh
        room = np.maximum(self.table.budget - decoding, 1).astype(float)
        whole = np.floor((fresh - 1) / room)
        rest = fresh - whole * room
        # Prompts that arrive while it waits share the last one.
        arriving = self.rate * (waited + whole * self.full[decoding])
        beside = _compound(arriving, fresh, self.sample.uniform[5], self.dispersion)
        last = np.minimum(rest + beside, room)
        tail = self.table.seconds(decoding.astype(float), self.context, last, self.attended)
        result: Numbers = whole * self.full[decoding] + tail + fresh * self.longer
        return np.maximum(result, 0.0), tail

    def output_tokens(self) -> Numbers:
        """Mean time between tokens of each request of the sample.

        How many decode along its stay tends from the number at its start to the mean, as of M/M/oo; prompts
        that come during the stay add their time.
        """
        sample, uniform = self.sample, self.sample.uniform
        outputs = np.maximum(sample.outputs, 1.0)
        decoding, _ = self._seen()
        stay = outputs / self.mean_output
        kept = -np.expm1(-stay) / stay
        along = 2 * (stay + np.expm1(-stay)) / stay**2 - kept**2
        there = self.mean_running + 1 + (decoding - self.mean_running) * kept
        there = there + _normal(uniform[3]) * np.sqrt(np.maximum(along, 0.0) * self.variance)
        there = np.clip(there, 1.0, self.most)
        step = np.interp(there, self.numbers, self.decode)
        load = np.minimum(np.interp(there, self.numbers, self.load), _MOST_LOAD)
        cost = sample.fresh * np.maximum(
            float(np.interp(self.mean_running, self.numbers, self.added)) + self.longer, 0.0
        )
        # Each prompt that comes brings the time of those who come during it.
        base = self.rate * outputs * step
        extra = _compound(base, cost, uniform[4], self.dispersion) / (1 - load)
        # Busy periods vary by (1 - load)^-3; what delays a request also keeps others from leaving.
        slope = _slope(self.decode)
        more = self.rate * self.mean_output * np.interp(there, self.numbers, slope)
        mean = base * float(cost.mean()) / (1 - load)
        wider = np.sqrt(1 - load) * (1 - np.minimum(more, _MOST_LOAD))
        extra = np.maximum(mean + (extra - mean) / wider, 0.0)
        result: Numbers = step + extra / outputs
        return result


def _slope(decode: Numbers) -> Numbers:
    """What a further decoding request adds to a step; the first one, which brings the step, as the second."""
    if len(decode) < 3:
        return np.zeros(len(decode))
    slope = np.gradient(decode[1:])
    return np.concatenate([slope[:1], slope])


@cache
def _others(size: int) -> NDArray[np.int64]:
    """Which request's value comes first, second ... of those that a request meets: in no order of lengths."""
    generator = np.random.default_rng(1)
    return np.stack([generator.permutation(size) for _ in range(_FEW + 1)])


def _normal(uniform: Numbers) -> Numbers:
    from scipy.special import ndtri

    values: Numbers = ndtri(uniform)
    return values


def _gamma(mean: Numbers, variance: Numbers, uniform: Numbers) -> Numbers:
    """Quantiles of gamma distributions (Wilson and Hilferty 1931)."""
    shape = np.maximum(mean**2 / np.maximum(variance, 1e-300), 1e-3)
    root = 1 - 1 / (9 * shape) + _normal(uniform) / (3 * np.sqrt(shape))
    result: Numbers = mean * np.maximum(root, 0.0) ** 3
    return result


def _compound(
    expected: Numbers, values: Numbers, uniform: Numbers, dispersion: float = 1.0
) -> Numbers:
    """Sums of a Poisson number of values, by its mean: of few values each is drawn, of many a gamma."""
    mean, square = float(values.mean()), float((values**2).mean()) * dispersion
    sums = _gamma(expected * mean, expected * square, uniform)
    if dispersion > _BURSTY:
        return sums
    few, others = expected < _FEW / 2, _others(len(values))
    below = np.exp(-expected)
    term, total = below, np.zeros(len(expected))
    exact = np.zeros(len(expected))
    for count in range(1, _FEW + 1):
        # One value more for all whose number is larger: of any request of the sample.
        total = total + values[others[count]]
        exact = np.where(uniform > below, total, exact)
        term = term * expected / count
        below = below + term
    result: Numbers = np.where(few, exact, sums)
    return result


def highest_rate(
    table: StepTable, sample: Sample, limits: ServerLimits, objective: Objective,
    dispersion: float = 1.0, *, close: float = 1.01,
) -> float:  # fmt: skip
    """The highest rate at which the objective is kept, within 1 %; 0 where no rate keeps it."""

    def at(rate: float) -> Served:
        return serve(table, sample, rate, limits, objective, dispersion)

    return highest_kept(at, saturation(table, sample, limits), objective.share, close=close)


def highest_kept(
    at: Callable[[float], Served], most: float, share: float, *, close: float = 1.01
) -> float:
    """The highest rate up to `most` whose requests keep their limits, within 1 %; 0 where none do."""

    def keeps(rate: float) -> bool:
        try:
            return at(rate).attained >= share
        except EvaluationError:
            return False

    low, high = most / 1024, most
    if not keeps(low):
        return 0.0
    while high / low > close:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def saturation(table: StepTable, sample: Sample, limits: ServerLimits) -> float:
    """A rate above what the server completes: prompts alone, or answers alone, take all of the time."""
    most = max(min(table.most, math.floor(limits.cache_tokens / sample.context)), 1)
    prompt = float(table.seconds(0.0, sample.context, float(table.budget), sample.attended))
    decode = float(table.seconds(float(most), sample.context, 0.0, sample.attended))
    prompts = table.budget / (prompt * float(sample.fresh.mean()))
    output = float(sample.outputs.mean())
    return min(prompts, most / (decode * output), 1 / max(limits.handled(output), _NO_TIME))
