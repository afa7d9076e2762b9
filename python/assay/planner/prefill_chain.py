"""Prompts that wait while some requests decode: a Markov chain over iterations.

An iteration takes one token of every decoding request and units of waiting prompts, as many as the
token budget has room for; arrivals of one iteration are served in the next (gated service). A unit is a
prompt, or part of one where prompts are longer than the budget: then it takes several iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.errors import EvaluationError, InputError
from assay.lazy_import import np
from assay.planner.weighted_points import Points, condensed, likely_arrivals, poisson, stationary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

TAIL: Final = 1e-7
"""Probability of states beyond those that are counted."""
_FEWEST_STATES: Final = 32
_MOST_STATES: Final = 512
_PARTS: Final = tuple((index + 0.5) / 8 for index in range(8))
_SEEN: Final = 1e-4
"""Probability of states that no percentile feels."""
_MOST_ARRIVALS: Final = 96
_MOST_POINTS_OF_STATE: Final = 1024
_MOST_POINTS: Final = 100_000
"""Points that stand for more where thousands of requests arrive in an iteration: all would take gigabytes."""

IterationTime = Callable[[int, int], float]
"""Seconds of an iteration by decoding requests and units of prompts."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests and what the engine does with them.

    `units` are parts of a prompt, `units_at_once` how many of them an iteration takes, and
    `unit_iterations` how many iterations a unit takes; `emitted` is the tokens that a decode
    iteration gains, more than one with speculative decoding.
    """

    rate: float
    output: float
    units: int = 1
    units_at_once: int = 1
    unit_iterations: int = 1
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
        if min(self.units, self.units_at_once, self.unit_iterations, self.most_running) < 1:
            raise InputError(
                "open loop: expected at least one unit of prompt and one running request"
            )


class PrefillChain:
    """Units of prompts that wait at the start of an iteration, with some requests decoding."""

    def __init__(self, requests: Requests, decoding: int, iteration: IterationTime) -> None:
        self.requests, self.decoding = requests, decoding
        self._known_arrivals: dict[float, tuple[NDArray[np.int64], Array]] = {}
        count = requests.units_at_once
        # Iterations that a unit takes count as one, in which others gain as many tokens.
        self.times = self._times(iteration, decoding)
        self.next_times = self._times(iteration, min(decoding + 1, requests.most_running))
        if not np.all(np.isfinite(self.times)) or np.any(self.times < 0):
            raise EvaluationError(f"an iteration of {decoding} requests takes no finite time")
        self.prompt_load = requests.rate * requests.units * float(self.times[-1]) / count
        self.is_stable = self.prompt_load < 1
        if self.is_stable:
            self.share, self.seconds = self._stationary()
        else:
            # Every iteration is full, and prompts queue up.
            self.share, self.seconds = np.array([1.0]), self.times[-1:]
        tokens = np.where(np.arange(len(self.share)) > 0, requests.unit_iterations, 1)
        if not self.is_stable:
            tokens = np.array([requests.unit_iterations])
        self.tokens = tokens.astype(np.float64)

    def _times(self, iteration: IterationTime, decoding: int) -> Array:
        requests = self.requests
        scale = [1, *[requests.unit_iterations] * requests.units_at_once]
        return np.array([each * iteration(decoding, units) for units, each in enumerate(scale)])

    def _stationary(self) -> tuple[Array, Array]:
        """Probabilities of waiting units over iterations, and the time that each takes."""
        requests, count = self.requests, self.requests.units_at_once
        size = max(_FEWEST_STATES, 4 * requests.units)
        while True:
            served = np.minimum(np.arange(size), count)
            seconds = self.times[served].copy()
            moves = np.zeros((size, size))
            for state in range(size):
                if state == 0 and seconds[0] == 0:
                    # Nothing runs: the next request starts at once.
                    moves[0, min(requests.units, size - 1)] = 1.0
                    seconds[0] = 1.0 / requests.rate
                    continue
                left = state - served[state]
                landing = moves[state, left :: requests.units]
                landing += poisson(requests.rate * seconds[state], len(landing))
            share = stationary(moves)
            if share[-requests.units :].sum() < TAIL or size >= _MOST_STATES:
                return share, seconds
            size = min(2 * size, _MOST_STATES)

    @property
    def mean_seconds(self) -> float:
        """Mean time of an iteration that gives each decoding request a token."""
        return float(self.share @ self.seconds) / float(self.share @ self.tokens)

    def gaps(self) -> Points:
        """Times between tokens."""
        weights = self.share * self.tokens
        return self.seconds / self.tokens, weights / weights.sum()

    def first_token(self) -> Points:
        """Time to first token: the rest of an iteration, those ahead, the own prompt's, the next."""
        seen = self.share * self.seconds / (self.share @ self.seconds)
        values: list[Array] = []
        weights: list[Array] = []
        for state in np.nonzero(seen > _SEEN)[0]:
            if state == 0 and self.times[0] == 0:
                values.append(self._alone())
                weights.append(np.array([seen[0]]))
                continue
            for part in _PARTS:
                times, shares = self._arriving(int(state), part)
                values.append(times)
                weights.append(seen[state] / len(_PARTS) * shares)
        shares = np.concatenate(weights)
        times = self.requests.request_seconds + np.concatenate(values)
        return condensed((times, shares / shares.sum()), _MOST_POINTS)

    def _alone(self) -> Array:
        """Time to first token where nothing runs: no iteration to wait for, and nobody ahead."""
        count = self.requests.units_at_once
        full, last = divmod(self.requests.units - 1, count)
        own = full * self.times[count] + self.times[last + 1]
        return np.array([own + self._late(np.array([last + 1]), np.array([0]))[0]])

    def _arriving(self, state: int, part: float) -> Points:
        """Time to first token of a request that arrives when `part` of an iteration has passed."""
        requests, count, seconds = self.requests, self.requests.units_at_once, self.seconds[state]
        before = self._arrivals(seconds * part)
        after = self._arrivals(seconds * (1 - part))
        ahead, behind = before[0][:, None], after[0][None, :]
        units = max(state - count, 0) + requests.units * (ahead + 1)
        full = (units - 1) // count
        # Requests that come while others are served join the last iteration as well.
        later = np.rint(requests.rate * full * self.times[count]).astype(int)
        wanted = units - full * count + requests.units * (behind + later)
        last = np.minimum(wanted, count)
        times = (1 - part) * seconds + full * self.times[count] + self.times[last]
        times = times + self._late(last, wanted - last)
        both = times.ravel(), (before[1][:, None] * after[1][None, :]).ravel()
        return condensed(both, _MOST_POINTS_OF_STATE)

    def _arrivals(self, seconds: float) -> tuple[NDArray[np.int64], Array]:
        """Numbers of arrivals and their probabilities; of very many, some stand for their neighbors."""
        if seconds not in self._known_arrivals:
            likely = likely_arrivals(self.requests.rate * seconds)
            width = -(-len(likely) // _MOST_ARRIVALS)
            starts = np.arange(0, len(likely), width)
            self._known_arrivals[seconds] = (
                np.minimum(starts + (width - 1) // 2, len(likely) - 1),
                np.add.reduceat(likely, starts),
            )
        return self._known_arrivals[seconds]

    def _late(self, last: NDArray[np.int64], left: NDArray[np.int64]) -> Array:
        """Time until tokens are handed out, after an iteration: part of the next, with its prompts."""
        requests, count = self.requests, self.requests.units_at_once
        if not requests.late_iterations:
            return np.zeros(np.shape(last))
        arriving = requests.rate * requests.units * self.times[last]
        following = np.minimum(left + arriving, count)
        # A unit of several iterations hands out tokens after the first of them.
        scale = np.array([1.0, *[1.0 / requests.unit_iterations] * count])
        expected = np.interp(following, np.arange(count + 1), self.next_times * scale)
        late: Array = requests.late_iterations * expected
        return late


def prompt_seconds(requests: Requests, iteration: IterationTime, decoding: int) -> float:
    """What a prompt adds to the time of iterations that so many decode in."""
    added = iteration(decoding, 1) - iteration(decoding, 0)
    return max(added, 0.0) * requests.unit_iterations * requests.units
