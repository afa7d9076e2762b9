"""The mean of terms that depend on their neighbors in time: its standard error and interval."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from assay.array_types import Floats
from assay.intervals import Interval
from assay.lazy_import import LazyModule

stats: Any = LazyModule("scipy.stats", globals(), "stats")
fft: Any = LazyModule("scipy.fft", globals(), "fft")


CONFIDENCE: Final = 0.90
"""Of every interval of a diagnosis, unless told otherwise."""

_COSINES: Final = 0.4
"""Cosines per samples to the power 2/3, the choice of Lazarus, Lewis, Stock and Watson."""


def long_run_degrees(count: int) -> int:
    """Cosine transforms that the standard error of a mean of `count` terms rests on."""
    cosines = math.floor(_COSINES * math.pow(count, 2.0 / 3.0))
    return min(max(cosines, 4), max(count - 1, 1))


def long_run_error(terms: Floats) -> float:
    """The standard error of the mean of terms in time order, which holds under autocorrelation.

    The long-run variance is the mean square of the terms' lowest cosine transforms, and their
    number is the degrees of freedom of Student's t: D. Lazarus, D. Lewis, J. Stock, M. Watson, "HAR
    Inference: Recommendations for Practice", JBES 36(4), 2018. Newey and West's estimate with a
    normal quantile covers too little at the lengths of a recording.
    """
    count = len(terms)
    degrees = long_run_degrees(count)
    transforms = fft.dct(terms - float(terms.mean()), type=2, norm="ortho")[1 : degrees + 1]
    return math.sqrt(float(np.mean(transforms**2)) / count)


def long_run_interval(terms: Floats, confidence: float = CONFIDENCE) -> Interval:
    """The mean of terms in time order with an interval of Student's t around it."""
    mean = float(terms.mean())
    degrees = long_run_degrees(len(terms))
    reach = float(stats.t.ppf(0.5 + confidence / 2.0, degrees)) * long_run_error(terms)
    return Interval(mean, mean - reach, mean + reach)
