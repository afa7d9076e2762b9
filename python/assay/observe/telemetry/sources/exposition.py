"""A bounded reader of Prometheus' text format: a scrape of thousands of lines in milliseconds.

A series keeps the text of its name and labels, as the server writes it. Lines that are not in the
format are counted and skipped: one bad line of a server must not lose the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_SERIES: Final = 20_000
"""Series of a scrape at most; the rest is counted."""

_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = r'[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*"(?:[^"\\\n]|\\.)*"'
_LINE: Final = re.compile(
    rf"\s*(?P<key>{_NAME}(?:\s*\{{\s*(?:{_LABEL}\s*(?:,\s*{_LABEL}\s*)*)?,?\s*\}})?)\s+(?P<value>\S+)"
    r"(?:\s+-?[0-9.]+)?\s*(?:#.*)?",
    re.ASCII,
)
_ONE_LABEL: Final = re.compile(
    r'(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\.)*)"', re.ASCII
)
_ESCAPES: Final = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


@dataclass(slots=True)
class Scrape:
    """The series of one answer, by name with labels."""

    series: dict[str, float] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    """Metric types by name: counter, gauge, histogram, summary."""
    bad_lines: int = 0
    left_out: int = 0


class Parser:
    """Reads scrapes of one server; lines it has seen before are read faster."""

    def __init__(self, max_series: int = MAX_SERIES) -> None:
        self._max = max_series
        self._seen: set[str] = set()

    def parse(self, text: str) -> Scrape:
        """All series of an answer."""
        scrape = Scrape()
        series, seen = scrape.series, self._seen
        for line in text.split("\n"):
            if not line or line.isspace():
                continue
            if line[0] == "#":
                words = line.split(None, 3)
                if len(words) == 4 and words[1] == "TYPE":
                    scrape.types[words[2]] = words[3].strip()
                continue
            key, _, value = line.rpartition(" ")
            if key not in seen:
                match = _LINE.fullmatch(line)
                if match is None:
                    scrape.bad_lines += 1
                    continue
                is_plain = match["key"] == key
                key, value = match["key"], match["value"]
                if is_plain and len(seen) < self._max:
                    seen.add(key)
            try:
                number = float(value)
            except ValueError:
                scrape.bad_lines += 1
                continue
            if len(series) >= self._max and key not in series:
                scrape.left_out += 1
                continue
            series[key] = number
        return scrape


def split(key: str) -> tuple[str, dict[str, str]]:
    r"""The name and the labels of a series.

    >>> split('a_total{model="x\\"y",le="+Inf"}')
    ('a_total', {'model': 'x"y', 'le': '+Inf'})
    """
    name, brace, rest = key.partition("{")
    labels = (
        {} if not brace else {label[1]: _unescaped(label[2]) for label in _ONE_LABEL.finditer(rest)}
    )
    return name.strip(), labels


def _unescaped(text: str) -> str:
    return re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), text)


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram: upper bounds of its buckets, and how many lie in each, the last unbounded."""

    labels: tuple[tuple[str, str], ...]
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    count: int


def histograms(series: Mapping[str, float], name: str) -> Iterator[Histogram]:
    """The histograms of a metric, one for each set of labels."""
    grouped: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
    for key, value in series.items():
        if not key.startswith(f"{name}_bucket"):
            continue
        metric, labels = split(key)
        bound = labels.pop("le", None)
        if metric != f"{name}_bucket" or bound is None:
            continue
        grouped.setdefault(tuple(sorted(labels.items())), {})[float(bound)] = value
    totals: dict[tuple[tuple[str, str], ...], float] = {}
    for key, value in series.items():
        if key.startswith(f"{name}_sum"):
            metric, labels = split(key)
            if metric == f"{name}_sum":
                totals[tuple(sorted(labels.items()))] = value
    for labels_key, cumulative in grouped.items():
        bounds = sorted(cumulative)
        if not bounds or bounds[-1] != float("inf"):
            continue
        steps = [int(cumulative[bound]) for bound in bounds]
        counts = tuple(
            max(after - before, 0) for before, after in zip([0, *steps], steps, strict=False)
        )
        yield Histogram(
            labels_key, tuple(bounds[:-1]), counts, totals.get(labels_key, 0.0), steps[-1]
        )
