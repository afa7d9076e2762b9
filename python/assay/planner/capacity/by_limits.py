"""What every server serves by the limits of an objective: the front of cost against interactivity.

One look at a server at some rates gives the share of requests within every pair of limits, so that a reader may
move limits without another plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.answers import Answer, data_of
from assay.errors import EvaluationError, InfeasibleError
from assay.lazy_import import np
from assay.planner.capacity.candidates import Candidate
from assay.planner.capacity.planning import Planner
from assay.planner.capacity.served import SAMPLE, Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

FIRST_TOKEN: Final = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
"""Limits of TTFT, in seconds."""
OUTPUT_TOKEN: Final = (
    *(0.004, 0.005, 0.006, 0.008, 0.01, 0.012, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1),
    0.2,
)
"""Limits of TPOT, in seconds."""
_LOADS: Final = (
    *(0.004, 0.008, 0.015, 0.025, 0.04, 0.06, 0.09, 0.13, 0.17, 0.22),
    *(round(0.26 + 0.03 * step, 2) for step in range(25)),
    1.0,
)
"""Rates that are looked at, of the one that saturates a server: requests wait where it is near."""
_FAR, _HALVINGS = 1.08, 2
"""Ratio of rates between which a further one is looked at, and how often."""
_FEWEST: Final = 0.5 / SAMPLE
"""Share beyond limits that a sample cannot tell from none."""


@dataclass(frozen=True)
class ServerRates:
    """The rates that one server serves, by limits of TTFT (rows) and TPOT (columns)."""

    gpu: str
    layout: str
    weight_dtype: str
    engine: str
    gpus: int
    usd_per_hour: float | None
    rated_watts: float | None
    """At the meter."""
    rates: Sequence[Sequence[float]]
    """Requests per second; 0 where no rate keeps the limits."""


@dataclass(frozen=True)
class RatesByLimits(Answer):
    """Servers of a model with the rates that each serves by limits, and the rate that is asked for."""

    model: str
    share: float
    """Of requests that keep both limits."""
    peak_rate: float
    first_token: Sequence[float]
    output_token: Sequence[float]
    servers: Sequence[ServerRates]
    assumed: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return data_of(self, "model share peak_rate assumed first_token output_token servers")

    def cheapest(self, row: int, column: int) -> tuple[float, int, ServerRates] | None:
        """USD an hour, replicas and server of the cheapest plan within a pair of limits."""
        plans = []
        for server in self.servers:
            rate = server.rates[row][column]
            if rate > 0 and server.usd_per_hour is not None:
                replicas = max(math.ceil(self.peak_rate / rate), 1)
                plans.append((replicas * server.usd_per_hour, replicas, server))
        return min(plans, key=lambda plan: plan[0], default=None)


def rates_by_limits(planner: Planner) -> RatesByLimits:
    """What the servers of a planner serve by limits, at its risk and its share of requests."""
    servers = []
    count = len(planner.servers)
    for number, server in enumerate(planner.servers, 1):
        planner.progress(f"{number} of {count} servers: {server.name}")
        rates = _rates(server, planner.sample, planner.objective.share, planner.deviations)
        rated = server.rated_watts
        own = ServerRates(
            server.hardware.name, server.layout, server.batch.weight_dtype, server.batch.engine,
            server.gpus, server.usd_per_hour,
            None if rated is None else rated * planner.site.pue, rates,
        )  # fmt: skip
        servers.append(own)
    if not servers:
        reason = planner.refused[-1] if planner.refused else ("no server", "no accelerator")
        raise InfeasibleError(f"no server holds {planner.model.name}: {reason[0]}: {reason[1]}")
    return RatesByLimits(
        planner.model.name, planner.objective.share, planner.traffic.peak, FIRST_TOKEN,
        OUTPUT_TOKEN, servers, notes=planner.notes(),
    )  # fmt: skip


def _rates(server: Candidate, sample: Sample, share: float, deviations: float) -> list[list[float]]:
    """The highest rate by limits: where the share of requests within them crosses the one that must be."""
    most = server.saturation(sample, deviations)
    seen = {
        rate: _within(server, sample, rate, deviations)
        for rate in (most * np.array(_LOADS)).tolist()
    }
    for _ in range(_HALVINGS):
        for rate in _between(seen, share):
            seen[rate] = _within(server, sample, rate, deviations)
    rates, within = _falling(seen)
    kept = within >= share
    above = np.minimum(kept.sum(axis=0), len(rates) - 1)
    below = np.maximum(above - 1, 0)
    # Between two rates the share beyond the limits grows by a power of the rate.
    high, low = (
        np.log(np.maximum(1 - np.take_along_axis(within, at[None], 0)[0], _FEWEST))
        for at in (above, below)
    )
    beyond = math.log(max(1 - share, _FEWEST))
    part = np.clip((beyond - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    highest = rates[below] * (rates[above] / rates[below]) ** part
    highest = np.where(kept[0], np.where(kept.all(axis=0), rates[-1], highest), 0.0)
    return [[float(f"{rate:.4g}") for rate in row] for row in highest]


def _falling(seen: Mapping[float, Numbers]) -> tuple[Numbers, Numbers]:
    """Rates in order, and the shares within limits at each: more requests keep no more of them."""
    rates = sorted(seen)
    return np.array(rates), np.minimum.accumulate(np.stack([seen[rate] for rate in rates]), axis=0)


def _between(seen: Mapping[float, Numbers], share: float) -> list[float]:
    """Rates half way between two that are far apart and of which only the lower keeps some limits."""
    rates, within = _falling(seen)
    kept = within >= share
    crossed = (kept[:-1] & ~kept[1:]).any(axis=(1, 2)) & (rates[1:] > _FAR * rates[:-1])
    return [float(rate) for rate in np.sqrt(rates[:-1] * rates[1:])[crossed]]


def _within(server: Candidate, sample: Sample, rate: float, deviations: float) -> Numbers:
    """The share of requests within every pair of limits; none where the server cannot keep up."""
    try:
        first, token = server.latencies(sample, rate, deviations)
    except EvaluationError:
        return np.zeros((len(FIRST_TOKEN), len(OUTPUT_TOKEN)))
    # A request of one token has no time between tokens.
    token = np.where(sample.outputs > 1, token, 0.0)
    rows = np.searchsorted(FIRST_TOKEN, first)
    columns = np.searchsorted(OUTPUT_TOKEN, token)
    counts = np.zeros((len(FIRST_TOKEN) + 1, len(OUTPUT_TOKEN) + 1))
    np.add.at(counts, (rows, columns), 1.0)
    whole: Numbers = counts.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] / len(first)
    return whole
