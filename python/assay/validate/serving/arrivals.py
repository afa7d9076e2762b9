"""Open loops: how many requests a server has in flight, and which have no steady latency.

Requests come at a rate, whatever the server does. Where it keeps up, as many are in flight as come while one stays
(Little's law). Where it does not, the queue grows as long as requests come: every place is taken, so that the time
between tokens and the rate are those of a full server, and the time to the first token only says when the
benchmark ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.array_types import Floats
from assay.validate.serving.deployments import UNLIMITED, Deployment

_GRID = (*np.geomspace(1.0, 4096.0, 25).tolist(), UNLIMITED)
_QUEUED = "time_to_first_token"
_LIMIT, _RUN = "serving.batch_limit", "serving.run_requests"


@dataclass(frozen=True)
class Loads:
    """A server by requests in flight: requests per second and seconds of a decode iteration.

    `least` and `most` are the 90 % interval of the last rate.
    """

    rates: Floats
    decode: Floats
    least: float
    most: float


def in_flight(
    deployment: Deployment, loads_of: Callable[[Deployment, Sequence[float]], Loads]
) -> tuple[Deployment, str]:
    """A deployment with the requests that its arrivals lead to, and why some of its figures have no answer."""
    arriving = deployment.arrival_rate
    if arriving is None:
        return deployment, ""
    loads = loads_of(deployment, _GRID)
    full = float(loads.rates[-1])
    # Rates may fall a little where a server is full; it has as many in flight as first complete so many.
    reached = np.maximum.accumulate(loads.rates)
    running = float(np.interp(arriving, reached, _GRID)) if arriving < full else UNLIMITED
    values = deployment.values | {"serving.concurrency": running}
    if _RUN in values:
        most = min(running, values.get(_LIMIT, running), values[_RUN])
        values[_RUN] /= drain_answers(loads.decode, round(most))
    settled = replace(deployment, values=values)
    if arriving < loads.least:
        return settled, ""
    reason = (
        f"open loop: {arriving:g} requests/s {'overload' if arriving >= full else 'may overload'} a server that "
        f"completes {full:.3g} ({loads.least:.3g} to {loads.most:.3g}): no steady latency"
    )
    answered = [figure for figure in deployment.figures if figure.variable != _QUEUED]
    return replace(settled, figures=answered), reason


def drain_answers(decode: Floats, running: int) -> float:
    """How many mean answers it takes until the last of so many running requests ends.

    Lengths are exponential, so that with b requests left one ends after a b-th of a mean answer, in iterations that
    shorten as the batch empties. With iterations of one length that is the harmonic number.

    >>> round(drain_answers(np.ones(len(_GRID)), 4), 3)
    2.083
    """
    left = np.arange(1, max(running, 1) + 1)
    times = np.interp(left, _GRID, decode)
    return float((times / left).sum() / times[-1])
