"""Whether a window was stable, backlogged or overloaded: does the number of requests under way grow?

In a stable window as many requests leave as arrive. The sending period, less the time in which the
first requests fill the server, is cut into blocks; arrivals less departures of a block are samples of
the drift of the queue. Of a queue that keeps up they sum to a bounded number, so that the t-test of
their mean errs toward "no growth".

Overloaded: the drift is above zero with 95 % confidence, and at least `LEAST_GROWTH` of the requests that
arrive pile up. Latencies then depend on how long the window was, and are never scored.
Backlogged: no growth, but two or more requests wait for their first token at once, most of the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from assay.array_types import Floats, Ints
from assay.lazy_import import LazyModule
from assay.load.metrics import is_latency
from assay.load.workloads.measurement import LoadState, RequestRecord

special: Any = LazyModule("scipy.special", globals(), "special")

LEAST_GROWTH: Final = 0.05
"""Of the requests that arrive, how many pile up at least in an overloaded window."""

TIMEOUT: Final = "timeout"
"""How the error of a request begins that the client gave up: it never left the server by itself."""

_CONFIDENCE: Final = 0.95
_LEAST_REQUESTS: Final = 10
_MOST_BLOCKS: Final = 20
_EARLY_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class QueueTrend:
    """The load state of a window, and what it was told by."""

    state: LoadState
    growth: float | None
    """Requests that pile up for each one that arrives; None where the window is too short to tell."""
    growth_lo: float | None
    """The lower end of its one-sided 95 % interval."""
    waiting_share: float
    """Share of the sending period in which two or more requests wait for their first token."""
    most_under_way: int
    note: str | None = None

    def to_data(self) -> dict[str, Any]:
        """As plain data, for `Measurement.details`."""
        data = asdict(self)
        del data["state"]
        return data


def queue_trend(records: Sequence[RequestRecord]) -> QueueTrend:
    """Test whether the queue grew during the sending period of a window."""
    if not records:
        return QueueTrend("stable", None, None, 0.0, 0, "no request was sent")
    ordered = sorted(records, key=lambda record: record.sent_s)
    sent = np.array([record.sent_s for record in ordered], dtype=np.float64)
    left = np.array([_left_s(record) for record in ordered], dtype=np.float64)
    started = np.array([_started_s(record) for record in ordered], dtype=np.float64)
    waiting = _share_of_time(sent, started, least=2)
    most = int(_under_way(sent, left)[1].max())
    ended = np.array([record.end_s for record in ordered], dtype=np.float64)
    growth, note = _growth(sent, left, ended)
    if growth is not None and growth[1] > 0 and growth[0] >= LEAST_GROWTH:
        state: LoadState = "overloaded"
    else:
        state = "backlogged" if waiting > 0.5 else "stable"
    value, lo = (None, None) if growth is None else growth
    return QueueTrend(state, value, lo, waiting, most, note)


def scored(
    figures: Mapping[str, float], state: LoadState
) -> tuple[dict[str, float], dict[str, float]]:
    """The figures that may be compared, and those withheld: latencies of an overloaded window.

    >>> scored({"output_throughput": 9.0, "mean_ttft_ms": 800.0}, "overloaded")
    ({'output_throughput': 9.0}, {'mean_ttft_ms': 800.0})
    """
    if state != "overloaded":
        return dict(figures), {}
    withheld = {name: value for name, value in figures.items() if is_latency(name)}
    return {name: value for name, value in figures.items() if name not in withheld}, withheld


def _left_s(record: RequestRecord) -> float:
    gave_up = record.error is not None and record.error.startswith(TIMEOUT)
    return math.inf if gave_up else record.end_s


def _started_s(record: RequestRecord) -> float:
    return record.end_s if record.first_token_s is None else record.first_token_s


def _growth(
    sent: Floats, left: Floats, ended: Floats
) -> tuple[tuple[float, float] | None, str | None]:
    """The drift of the queue for each arrival with its lower bound, or why it cannot be told."""
    # The first requests meet an empty server: their latency is how long it takes to fill.
    early = max(3, math.ceil(_EARLY_SHARE * sent.size))
    ramp_s = float(np.median(ended[:early] - sent[:early]))
    begin_s, end_s = float(sent[0]) + ramp_s, float(sent[-1])
    arrivals = int((sent >= begin_s).sum())
    if arrivals < _LEAST_REQUESTS or end_s - begin_s < ramp_s:
        return None, (
            "the window is too short to tell growth of the queue: requests arrived for "
            f"{sent[-1] - sent[0]:.3g} s, the first ones took {ramp_s:.3g} s, "
            f"{arrivals} arrived after those"
        )
    blocks = min(max(arrivals // 5, 4), _MOST_BLOCKS)
    edges = np.linspace(begin_s, end_s, blocks + 1)
    came, _ = np.histogram(sent, edges)
    went, _ = np.histogram(left[np.isfinite(left)], edges)
    drift = (came - went).astype(np.float64)
    error = float(drift.std(ddof=1)) / math.sqrt(blocks)
    quantile = float(special.stdtrit(blocks - 1, _CONFIDENCE))
    mean, rate = float(drift.mean()), float(came.mean())
    return (mean / rate, (mean - quantile * error) / rate), None


def _under_way(begin: Floats, end: Floats) -> tuple[Floats, Ints]:
    """Times of change, and how many intervals cover the time from each to the next."""
    finite = end[np.isfinite(end)]
    times = np.concatenate([begin, finite])
    steps = np.concatenate([np.ones(begin.size, np.int64), -np.ones(finite.size, np.int64)])
    # Of events at one time, ends come first: a closed loop sends when an answer ends.
    order = np.lexsort((steps, times))
    return times[order], np.cumsum(steps[order])


def _share_of_time(begin: Floats, end: Floats, least: int) -> float:
    """Share of the sending period that at least this many intervals cover.

    Requests that all came at once have no such period: the time to the last end counts.
    """
    times, number = _under_way(begin, end)
    last = float(begin[-1])
    if last <= begin[0]:
        last = float(times[-1])
    bounds = np.clip(times, begin[0], last)
    total = last - float(begin[0])
    if total <= 0:
        return 0.0
    return float(np.diff(bounds)[number[:-1] >= least].sum()) / total
