"""Requests that a plan is made for: lengths, arrivals by the hour, bursts, and prefixes that repeat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from assay.errors import InputError
from assay.lazy_import import np
from assay.planner.capacity.stretches import Steadiness, Stretch, steadiness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Period:
    """A time in which replicas stay as many."""

    start: float
    """Seconds after the start of the traffic."""
    seconds: float
    rate: float
    """Requests per second, on average."""
    busiest: float
    """Requests per second of its busiest stretch."""


@dataclass(frozen=True)
class Reuse:
    """Blocks of prompts that other requests began with before, in the order of the requests."""

    block_tokens: int
    offsets: NDArray[np.int64]
    """Where the blocks of each request begin, and the end of the last."""
    distances: Numbers
    """Distinct blocks that were used since a block was used last; infinite for its first use."""

    def hits(self, blocks: float) -> Numbers:
        """Prompt tokens of each request that a cache of so many blocks (LRU) holds already.

        A prefix ends at its first block that is not there.
        """
        missing = np.nonzero(self.distances > blocks)[0]
        ends = self.offsets[1:]
        first = np.full(len(ends), np.iinfo(np.int64).max)
        owners = np.searchsorted(ends, missing, side="right")
        np.minimum.at(first, owners, missing)
        whole = np.minimum(first, ends) - self.offsets[:-1]
        tokens: Numbers = (whole * self.block_tokens).astype(np.float64)
        return tokens


@dataclass(frozen=True)
class Traffic:
    """Requests as a plan sees them."""

    name: str
    prompts: Numbers
    """Input tokens of each request, or of a sample of them."""
    outputs: Numbers
    periods: tuple[Period, ...]
    dispersion: float = 1.0
    """Variance over mean of arrivals in windows of 10 s while the rate stays: 1 for a Poisson process."""
    arrivals: Numbers | None = None
    """Times of the requests; None where the traffic is a rate."""
    reuse: Reuse | None = None
    prefix_hits: float = 0.0
    """Share of prompt tokens in the prefix cache, where the requests do not say which they share."""
    notes: tuple[str, ...] = field(default=())
    stretch: Stretch | None = None
    """The busiest one of a recording; None where a traffic is a rate, or periods are shorter than stretches."""

    def __post_init__(self) -> None:
        if not len(self.prompts) or len(self.prompts) != len(self.outputs):
            raise InputError(f"{self.name}: expected requests with prompts and outputs, got none")
        if min(self.prompts.min(), self.outputs.min()) < 1:
            raise InputError(f"{self.name}: expected lengths of 1 token or more")
        if not 0 <= self.prefix_hits < 1:
            raise InputError(f"prefix hits: expected 0 to below 1, got {self.prefix_hits:g}")

    @property
    def peak(self) -> float:
        """The rate of the busiest stretch."""
        return max(period.busiest for period in self.periods)

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return math.fsum(period.seconds for period in self.periods)

    @property
    def requests(self) -> float:
        """How many requests there are in all."""
        return math.fsum(period.rate * period.seconds for period in self.periods)

    def share(self, share: float) -> Traffic:
        """A share of the requests, taken at random: fewer at the same times of the day."""
        if not 0 < share <= 1:
            raise InputError(f"share of {self.name}: expected above 0 and up to 1, got {share:g}")
        thinned = 1 + (self.dispersion - 1) * share
        return replace(self.scaled(share), dispersion=thinned)

    def scaled(self, factor: float) -> Traffic:
        """As many times the requests of the same lengths and bursts, at the same times of the day."""
        periods = tuple(
            replace(period, rate=factor * period.rate, busiest=factor * period.busiest)
            for period in self.periods
        )
        return replace(self, periods=periods, arrivals=None, stretch=None)

    def fresh(self, cache_tokens: float) -> Numbers:
        """Prompt tokens of each request that must be computed, with a prefix cache of this size.

        At least one token is, as its logits give the first token.
        """
        if self.reuse is None:
            return np.maximum(self.prompts * (1 - self.prefix_hits), 1.0)
        return np.maximum(
            self.prompts - self.reuse.hits(cache_tokens / self.reuse.block_tokens), 1.0
        )


def steady(
    name: str, rate: float, prompts: Numbers, outputs: Numbers, *, prefix_hits: float = 0.0,
    dispersion: float = 1.0,
) -> Traffic:  # fmt: skip
    """Traffic that arrives at one rate, as a Poisson process if not said otherwise."""
    if not 0 < rate < math.inf:
        raise InputError(f"--rate: expected requests per second above 0, got {rate:g}")
    return Traffic(
        name, np.asarray(prompts, float), np.asarray(outputs, float), (Period(0.0, HOUR, rate, rate),),
        dispersion, prefix_hits=prefix_hits,
    )  # fmt: skip


def recorded(
    name: str, arrivals: Numbers, prompts: Numbers, outputs: Numbers, *,
    reuse: Reuse | None = None, bin_seconds: float = HOUR, notes: Sequence[str] = (),
    within: tuple[float, float] | None = None,
) -> Traffic:  # fmt: skip
    """Traffic of recorded requests, whose times are in order.

    `within` has the first and the last time of a recording that they are some of.
    """
    first, last = within or (float(arrivals[0]), float(arrivals[-1]))
    times = np.asarray(arrivals, float) - first
    if (np.diff(times) < 0).any():
        raise InputError(f"{name}: expected times in order")
    span = last - first
    if span <= 0:
        raise InputError(
            f"{name}: expected requests over some time, got {len(times):,} at one moment",
            "give --rate, or a longer recording",
        )
    steady_parts = steadiness(times, span, bin_seconds)
    periods = _periods(times, span, bin_seconds, steady_parts)
    peak = max(periods, key=lambda period: period.busiest)
    stretch = steady_parts.busiest(peak.start, peak.start + peak.seconds)
    if stretch is not None and stretch.rate < peak.rate:
        # A period above the mean of its stretch, by no more than chance.
        stretch = Stretch(peak.start, peak.seconds, peak.rate)
    return Traffic(
        name, np.asarray(prompts, float), np.asarray(outputs, float), periods,
        steady_parts.dispersion, times, reuse, notes=tuple(notes),
        stretch=stretch,
    )  # fmt: skip


def _periods(
    times: Numbers, span: float, seconds: float, steady_parts: Steadiness
) -> tuple[Period, ...]:
    """Rates by bin; a last bin that is too short to say a rate is part of the one before it."""
    count = max(round(span / seconds), 1)
    edges = [min(index * seconds, span) for index in range(count)] + [span]
    totals, _ = np.histogram(times, bins=np.array(edges))
    return tuple(
        Period(start, end - start, rate, max(stretch.rate, rate) if stretch else rate)
        for start, end, total in zip(edges[:-1], edges[1:], totals.tolist(), strict=True)
        if total
        for rate, stretch in [(total / (end - start), steady_parts.busiest(start, end))]
    )


def reuse_of(blocks: Sequence[Sequence[int]], block_tokens: int) -> Reuse | None:
    """How far apart the uses of blocks are; None where no request has any.

    The distinct blocks between two uses are the mean working set of a window of that many uses
    (Denning and Schwartz 1972, Properties of the working-set model).

    >>> reuse_of([[1, 2], [1, 3], [1, 2]], 512).hits(10.0).tolist()
    [0.0, 512.0, 1024.0]
    """
    if not any(blocks):
        return None
    offsets = np.cumsum([0, *(len(own) for own in blocks)])
    last: dict[tuple[int, int], int] = {}
    times = np.full(int(offsets[-1]), np.inf)
    now = 0
    for own in blocks:
        for place, block in enumerate(own):
            # Equal blocks at other places of a prompt have other keys and values.
            key = (block, place)
            before = last.get(key)
            if before is not None:
                times[now] = now - before
            last[key] = now
            now += 1
    return Reuse(block_tokens, offsets.astype(np.int64), _working_sets(times))


def _working_sets(times: Numbers) -> Numbers:
    """Mean distinct blocks in a window as long as each reuse time."""
    count = len(times)
    known = np.sort(times[np.isfinite(times)])
    below = np.concatenate([[0.0], np.cumsum(known)])
    index = np.searchsorted(known, times, side="right")
    finite = np.where(np.isfinite(times), times, 0.0)
    sets = (below[np.minimum(index, len(known))] + finite * (count - index)) / count
    return np.where(np.isfinite(times), sets, np.inf)
