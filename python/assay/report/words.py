"""Figures as text: units, digits, and the names that people have for metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from assay.intervals import Interval

RATIO: Final = "x"
"""The unit of a ratio: after over before, above 1 better."""
PERCENT: Final = "%"

_LATENCY: Final = re.compile(r"^(mean|median|std|p[0-9]{1,3})_(ttft|tpot|itl|e2el)_ms$")
_RATES: Final[Mapping[str, tuple[str, str]]] = {
    "output_throughput": ("output throughput", "tokens/s"),
    "total_token_throughput": ("total token throughput", "tokens/s"),
    "request_throughput": ("request throughput", "requests/s"),
    "request_goodput": ("goodput", "requests/s"),
    "slo_rate": ("rate that keeps the service levels", "requests/s"),
}
_SIGNIFICANT: Final = 4


def metric_name(metric: str) -> str:
    """What people call a metric of `vllm bench serve`.

    >>> metric_name("p99_ttft_ms"), metric_name("output_throughput")
    ('p99 TTFT', 'output throughput')
    """
    if matched := _LATENCY.match(metric):
        return f"{matched[1]} {matched[2].upper()}"
    return _RATES.get(metric, (metric.replace("_", " "), ""))[0]


def metric_unit(metric: str) -> str:
    """The unit of a metric; empty for one that is not known."""
    if _LATENCY.match(metric):
        return "ms"
    return _RATES.get(metric, ("", ""))[1]


def number(value: float) -> str:
    """Four significant digits, with separators of thousands.

    >>> number(1234567.0), number(48.7251), number(0.0123456), number(0.0)
    ('1,234,567', '48.73', '0.01235', '0')
    """
    if not math.isfinite(value):
        return {math.inf: "unbounded", -math.inf: "-unbounded"}.get(value, "not a number")
    if value == 0:
        return "0"
    digits = _SIGNIFICANT - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(digits, 0)}f}"


def amount(value: float, unit: str) -> str:
    """A value with its unit.

    >>> amount(1.6234, "x"), amount(0.874, "%"), amount(48.7251, "tokens/s")
    ('1.623x', '87.4 %', '48.73 tokens/s')
    """
    if unit == RATIO:
        return f"{value:.3f}x" if math.isfinite(value) else number(value)
    if unit == PERCENT:
        return f"{100 * value:.1f} %"
    return f"{number(value)} {unit}".rstrip()


def quantity(value: float | None, unit: str) -> str:
    """A quantity of the graph, already in its display unit.

    >>> quantity(100.0, "%"), quantity(None, "W"), quantity(5.461e-07, "USD/token")
    ('100 %', 'missing', '5.461e-07 USD/token')
    """
    if value is None:
        return "missing"
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g} {unit}"
    return f"{value:,.0f} {unit}" if value % 1 == 0 else f"{number(value)} {unit}"


def shown(figure: Interval | None, unit: str, of: str = "") -> str:
    """A figure with its interval; `of` follows the value.

    >>> shown(Interval(1.6234, 1.58, 1.67), "x")
    '1.623x (1.580 to 1.670)'
    >>> shown(Interval(1.6234, 1.58, 1.67), "x", "the start")
    '1.623x the start (1.580 to 1.670)'
    >>> shown(Interval(12.0, 12.0, 12.0), "blocks")
    '12 blocks'
    >>> shown(Interval(1.0, 1.0, 1.0), "trials")
    '1 trial'
    """
    if figure is None:
        return "not measured"
    if figure.lo == figure.hi == figure.value:
        if unit not in (RATIO, PERCENT) and figure.value == int(figure.value):
            is_one = figure.value == 1 and unit.endswith("s")
            return f"{int(figure.value):,} {unit[:-1] if is_one else unit}".rstrip()
        return amount(figure.value, unit)
    return f"{amount(figure.value, unit)} {of}".rstrip() + f" ({interval(figure, unit)})"


MOST_RATIO: Final = 100.0
"""Ends of a ratio's interval beyond this, or below its inverse, say that too little was seen."""


def interval(figure: Interval, unit: str) -> str:
    """The interval of a figure.

    >>> interval(Interval(1.3, 0.0, 2.2e12), "x"), interval(Interval(1.3, 0.9, 140.0), "x")
    ('not bounded yet', 'above 0.900')
    """
    low, high = _bound(figure.lo, unit), _bound(figure.hi, unit)
    if unit == RATIO:
        is_low, is_high = figure.lo >= 1 / MOST_RATIO, figure.hi <= MOST_RATIO
        if not is_low or not is_high:
            return f"above {low}" if is_low else f"below {high}" if is_high else "not bounded yet"
    return f"{low} to {high}"


def _bound(value: float, unit: str) -> str:
    if unit == RATIO and math.isfinite(value):
        return f"{value:.3f}"
    return f"{100 * value:.1f} %" if unit == PERCENT else number(value)


def setting(value: Any) -> str:
    """The value of a knob as one writes it.

    >>> setting(True), setting(None), setting("q8_0"), setting(4)
    ('true', 'none', 'q8_0', '4')
    """
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings(values: Mapping[str, Any]) -> str:
    """Settings in one line.

    >>> settings({"threads": 2, "graphs": True})
    'threads=2 graphs=true'
    """
    return " ".join(f"{knob}={setting(value)}" for knob, value in values.items())


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The change of settings and its inverse; empty where nothing changes.

    >>> change({"threads": 1, "graphs": False}, {"threads": 2})
    'threads 1 -> 2; inverse: threads 2 -> 1'
    """
    moved = {knob: value for knob, value in after.items() if before.get(knob) != value}
    if not moved:
        return ""
    forth = ", ".join(
        f"{knob} {setting(before.get(knob))} -> {setting(value)}" for knob, value in moved.items()
    )
    back = ", ".join(
        f"{knob} {setting(value)} -> {setting(before.get(knob))}" for knob, value in moved.items()
    )
    return f"{forth}; inverse: {back}"


def seconds(value: float) -> str:
    """A length of time for people.

    >>> seconds(0.25), seconds(75.0), seconds(7300.0)
    ('0.25 s', '1 min 15 s', '2 h 1 min')
    """
    if value < 60:
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    if value < 3600:
        return f"{int(value // 60)} min {int(value % 60)} s"
    return f"{int(value // 3600)} h {int(value % 3600 // 60)} min"
