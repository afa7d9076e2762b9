"""The table of a result, for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from assay.bench.harness.comparison import Comparison, Verdict
from assay.bench.harness.result import Figure, Result
from assay.bench.harness.statistics import Interval, median, median_interval, quantile
from assay.errors import unknown_name

HEADER: Final = ("figure", "value", "unit", "spread", "of ceiling", "check")
RIGHT: Final = (1, 3, 4)
"""Right-aligned columns."""

COLUMNS: Final[Mapping[str, float]] = {
    "min": 0.0,
    "p10": 0.1,
    "p50": 0.5,
    "p90": 0.9,
    "p99": 0.99,
    "max": 1.0,
}
"""Columns that can be asked for: quantiles of our samples, one a round."""

TIMES_AT_MOST: Final = "times_at_most"
"""The parameter of a case that may take so many times as long as its first rival."""


def columns_of(text: str | None) -> tuple[str, ...]:
    """Names of columns between commas; raises `InputError` for others than those that there are."""
    names = tuple(word.strip() for word in text.split(",")) if text else ()
    for name in names:
        if name not in COLUMNS:
            raise unknown_name("column", name, COLUMNS)
    return tuple(dict.fromkeys(names))


def rows(
    result: Result, comparison: Comparison | None = None, columns: Sequence[str] = ()
) -> tuple[list[str], list[list[str]]]:
    """The header and the cells; a comparison adds a column, and `columns` one for each quantile.

    Of rivals a quantile is given with their name.
    """
    verdicts = {verdict.name: verdict for verdict in comparison.verdicts} if comparison else {}
    header = [*HEADER, *columns, *(["now over then"] if comparison else []), "over rivals"]
    lines = []
    for figure in result.figures:
        line = [
            figure.name,
            number(figure.value),
            figure.unit,
            f"{figure.spread:.0%}",
            _share(figure),
            _check(figure),
            *(_quantiles(figure, COLUMNS[name]) for name in columns),
        ]
        if comparison:
            line.append(_verdict(verdicts.get(figure.name)))
        lines.append([*line, "; ".join(_rivals(figure))])
    return header, lines


def _quantiles(figure: Figure, share: float) -> str:
    """Of our samples, then of each rival's."""
    others = (f"{rival.name} {number(quantile(rival.values, share))}" for rival in figure.rivals)
    return "; ".join([number(quantile(figure.own.values, share)), *others])


def number(value: float) -> str:
    """Four digits, as people write them.

    >>> number(12345.678), number(0.012345), number(3.0)
    ('12,346', '0.01235', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _ratio(ratio: float | None, interval: Interval | None) -> str:
    if ratio is None:
        return ""
    if interval is None:
        return f"{_times(ratio)} (too few rounds)"
    return f"{_times(ratio)} ({_times(interval.low)} to {_times(interval.high)})"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not in the file"
    ratio = _ratio(verdict.ratio, verdict.interval)
    doubt = f": {verdict.doubt}" if verdict.doubt else ""
    return f"{verdict.verdict} {ratio}{doubt}" if ratio else f"{verdict.verdict}: {verdict.by}"


def _share(figure: Figure) -> str:
    """The share of the ceiling with its bounds, in percent."""
    if figure.ceiling is None:
        return ""
    shares = figure.paired(figure.ceiling)
    bounds = median_interval(shares)
    within = f" ({100 * bounds.low:.0f}-{100 * bounds.high:.0f})" if bounds else ""
    return f"{median(shares):.0%}{within}"


def _rivals(figure: Figure) -> Iterator[str]:
    for rival in figure.rivals:
        ratios = figure.paired(rival)
        yield f"{rival.name} {_ratio(median(ratios), median_interval(ratios))}"
    by_reason: dict[str, list[str]] = {}
    for name, reason in figure.absent.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield f"{', '.join(names)} {reason}"


def _check(figure: Figure) -> str:
    """The relative error against the reference."""
    check = figure.check
    return f"{check.error:.0e}" if check.passed else f"WRONG {check.error:.0e}"


def conditions(result: Result) -> list[str]:
    """Conditions of the measurement: machine, versions, background load, ceilings, notes."""
    machine, versions = result.machine, result.versions
    before, after = (load[0] for load in result.load_average)
    background = result.other_cores
    load = "" if background is None else f", background load {background:.2f} cores"
    commit = f", Assay's commit {result.commit}" if result.commit else ""
    hardware = dict.fromkeys([machine["device_description"], machine["processor"]])
    lines = [
        f"{machine['device']}: {', '.join(hardware)}, {machine['usable_cores']} cores",
        ", ".join(f"{name} {version or 'not installed'}" for name, version in versions.items())
        + commit,
        f"load average {before:.2f} before, {after:.2f} after{load}, "
        f"{result.seconds:.0f} s{', quick: a look, not a claim' if result.quick else ''}",
    ]
    if result.was_busy:
        lines.append("the machine was busy with other work: judge by ratios and their intervals")
    lines += _ceilings(result)
    lines += _bars(result)
    lines += [result.summary] if result.summary else []
    notes: dict[str, list[str]] = {}
    for figure in result.figures:
        if figure.note:
            notes.setdefault(figure.note, []).append(figure.name)
        if figure.cold is False:
            notes.setdefault("inputs fit into the cache: not cold", []).append(figure.name)
    total = len(result.figures)
    for note, names in notes.items():
        lines.append(note if len(names) == total else f"{', '.join(names)}: {note}")
    for figure in result.figures:
        prefix = f"{figure.name}, " if total > 1 else ""
        lines += [f"{prefix}{line}" for line in _stages(figure)]
    return lines


def _stages(figure: Figure) -> Iterator[str]:
    """Each stage with its median and its 99th percentile, and those of rivals that have it."""
    for stage, by_subject in figure.stages.items():
        parts = [
            f"{'' if who == figure.own.name else f'{who} '}p50 {median(seconds) * 1e6:,.1f} us, "
            f"p99 {quantile(seconds, 0.99) * 1e6:,.1f} us"
            for who, seconds in by_subject.items()
        ]
        yield f"{stage}: {', '.join(parts)}"


def _ceilings(result: Result) -> Iterator[str]:
    """Each ceiling with the range of its medians over the cases."""
    medians: dict[tuple[str, str], list[float]] = {}
    for figure in result.figures:
        if figure.ceiling is not None:
            key = (figure.ceiling.name, figure.unit)
            medians.setdefault(key, []).append(figure.ceiling.median)
    for (name, unit), values in medians.items():
        low, high = number(min(values)), number(max(values))
        yield f"ceiling: {name}, {low if low == high else f'{low} to {high}'} {unit}"


def _bars(result: Result) -> Iterator[str]:
    """For each case with a bar, how many times as long as its rival it takes."""
    for figure in result.figures:
        most = figure.parameters.get(TIMES_AT_MOST)
        if most is None or not figure.rivals:
            continue
        rival = figure.rivals[0]
        times = [1 / ratio for ratio in figure.paired(rival)]
        verdict = "met" if median(times) <= most else "MISSED"
        times_as_long = _ratio(median(times), median_interval(times))
        yield f"{figure.name}: {times_as_long} times as long as {rival.name}, bar {most:g}: {verdict}"


def markdown(
    result: Result, comparison: Comparison | None = None, columns: Sequence[str] = ()
) -> str:
    """The table and its conditions as Markdown."""
    header, lines = rows(result, comparison, columns)
    right = [" ---: " if column in RIGHT else " --- " for column in range(len(header))]
    text = [f"|{'|'.join(f' {title} ' for title in header)}|", f"|{'|'.join(right)}|"]
    text += [f"|{'|'.join(f' {_escaped(cell)} ' for cell in line)}|" for line in lines]
    compared = comparison.notes if comparison else ()
    text += ["", *(f"- {line}" for line in (*conditions(result), *compared))]
    return "\n".join([f"## assay bench {result.suite}", "", *text]) + "\n"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
