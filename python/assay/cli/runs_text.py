"""Texts that the commands about runs share."""

import time
from collections.abc import Mapping
from typing import Annotated

from assay.cli.declaring import argument
from assay.intervals import Interval
from assay.report.words import metric_name, metric_unit, setting, shown

__all__ = ["Run", "figure", "metric_figure", "setting", "when"]

Run = Annotated[str, argument("RUN", "A run: its id or the start of it, its folder, or latest.")]


def when(at: float | None) -> str:
    """A time as people read it, in UTC.

    >>> when(0), when(None)
    ('1970-01-01 00:00:00', '-')
    """
    if at is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def figure(interval: Mapping[str, float] | None, unit: str) -> str:
    """A figure with its interval, from JSON.

    >>> figure({"value": 1.5, "lo": 1.4, "hi": 1.6}, "x")
    '1.500x (1.400 to 1.600)'
    """
    if not interval or None in (interval.get("value"), interval.get("lo"), interval.get("hi")):
        return "-"
    return shown(Interval(interval["value"], interval["lo"], interval["hi"]), unit)


def metric_figure(interval: Mapping[str, float] | None, metric: str | None) -> str:
    """A figure of a metric, with the names and units that reports have."""
    if metric is None or not interval:
        return "-"
    return f"{metric_name(metric)} {figure(interval, metric_unit(metric))}"
