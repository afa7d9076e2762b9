"""Combining rules for times and caches: overlap, smooth maximum, cold misses, intervals."""

from __future__ import annotations

from fractions import Fraction

from assay.model import Expression, Scope, Variable, cited, exp, maximum, minimum, sqrt, total
from assay.stack import works

SHARP = 6
"""Exponent for limits of one pipeline: two equal ones cost 12 % more than one."""

QUANTILE_95 = 1.645
"""Standard deviations between the median of a normal distribution and its 95 % quantile."""

QUANTILES = cited(works.NIST_HANDBOOK, "sec. 1.3.6.6.9, quantiles of the lognormal distribution")
"""Where the ends of an interval come from."""


def sharp_maximum(*times: Expression) -> Expression:
    """Smooth maximum (p-norm) of several limits on one pipeline."""
    largest = maximum(*times)
    return largest * total(*((time / largest) ** SHARP for time in times)) ** Fraction(1, SHARP)


def overlap(first: Expression, second: Expression, exponent: Expression) -> Expression:
    """Time of two overlapping activities: no overlap at exponent 1, full overlap as it grows."""
    larger, smaller = maximum(first, second), minimum(first, second)
    return larger * (1 + (smaller / larger) ** exponent) ** (1 / exponent)


def exposed(first: Expression, second: Expression, share: Expression) -> Expression:
    """The longer of two activities plus the exposed share of the shorter."""
    return maximum(first, second) + share * minimum(first, second)


def cold_share(footprint: Expression, capacity: Expression) -> Expression:
    """Share of data evicted from a cache since its last use.

    `footprint` is the bytes touched in between. A cyclic sweep over more than the capacity
    evicts everything; the fourth power spans that change within a factor of two in size.
    """
    ratio = (footprint / capacity) ** 4
    return ratio / (1 + ratio)


def transfer_time(size: Expression, bandwidth: Expression, ramp: Expression) -> Expression:
    """Time to move bytes when the rate grows with size: half the bandwidth at `ramp` bytes."""
    return (size + sqrt(size * ramp)) / bandwidth


def declare_interval(scope: Scope, time: Variable, spread: Expression) -> None:
    """Declare the 90 % interval of a time."""
    scope.declare(
        f"time_low, t_5 [s as us]: 5 % quantile: {time.meaning}",
        equals=time * exp(-QUANTILE_95 * spread),
        reference=QUANTILES,
        library=True,
    )
    scope.declare(
        f"time_high, t_95 [s as us]: 95 % quantile: {time.meaning}",
        equals=time * exp(QUANTILE_95 * spread),
        reference=QUANTILES,
        library=True,
    )
