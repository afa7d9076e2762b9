"""Answers, traces, reports and arrays as HTML for notebooks.

Tables in the colors that the page has, light or dark; no script, no style sheet, every text escaped. What is long is
cut, and says so: the object itself has all of it.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

ROWS: Final = 20
"""Most rows of a table."""
NESTED_ROWS: Final = 12
"""Most rows of a table that is closed at first."""
NOTES: Final = 3
"""Notes before the data; more can be opened."""
COLUMNS: Final = 12
CHARACTERS: Final = 200
"""Most characters of a cell."""
DEPTH: Final = 3
"""Levels of nested data that are shown as tables; below, as text."""

_VERDICTS: Final = ("true", "false", "unknown")
_FIRST_DATE: Final = 1e9
"""2001: seconds below are durations."""
_CELL: Final = "text-align:left;vertical-align:top"
_ROW: Final = "border-bottom:1px solid #8884"
"""What cells need not repeat: most of a table's bytes were theirs."""
_QUIET: Final = "opacity:0.7;font-size:smaller"


def card(
    title: str,
    headline: str,
    data: Any,
    notes: Sequence[str] = (),
    problem: Exception | None = None,
    further: Sequence[Any] = (),
) -> str:
    """What was found under a title: one line of it first, then problem, notes and data."""
    parts = [f'<div style="{_QUIET}">{_text(title)}</div>']
    if headline:
        parts.append(f'<div style="font-size:larger;font-weight:600">{_text(headline)}</div>')
    if problem is not None:
        hint = getattr(problem, "hint", None)
        said = f"{problem}; {hint}" if hint else str(problem)
        parts.append(f"<div><b>problem:</b> {_text(said)}</div>")
    shown = [f'<div style="{_QUIET}">note: {_text(note)}</div>' for note in notes[:ROWS]]
    parts += shown[:NOTES]
    if more := "".join(shown[NOTES:]):
        parts.append(f"<details><summary>{len(notes) - NOTES} more notes</summary>{more}</details>")
    parts += [data_html(part) for part in (data, *further)]
    return f'<div class="assay-answer">{"".join(parts)}</div>'


def title_of(kind: type) -> str:
    """The name of a class as words: TraceSummary is "trace summary"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).removesuffix(" Answer").lower()


def data_html(data: Any, depth: int = DEPTH) -> str:
    """Plain data as nested tables."""
    if isinstance(data, (list, tuple)) and _are_verdicts(data):
        return _verdicts(data, depth)
    if isinstance(data, Mapping) and depth:
        return _mapping(data, depth)
    if isinstance(data, (list, tuple)) and depth:
        if data and all(isinstance(row, Mapping) for row in data):
            return _records(data, depth)
        if all(not isinstance(item, (Mapping, list, tuple)) for item in data):
            return _text(", ".join(_scalar(item) for item in data[:ROWS])) + _more(len(data))
        shown = "".join(f"<li>{data_html(item, depth - 1)}</li>" for item in data[:ROWS])
        return f"<ul>{shown}</ul>{_more(len(data))}"
    return _text(_brief(data))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], total: int | None = None) -> str:
    """A table of cells that are HTML already; `total` says how many rows there are in all."""
    head = "".join(f'<th style="{_CELL}">{_text(name)}</th>' for name in columns)
    shown = rows[:ROWS]
    body = "".join(
        f'<tr style="{_ROW}">'
        + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row)
        + "</tr>"
        for row in shown
    )
    top = f"<thead><tr>{head}</tr></thead>" if columns else ""
    count = len(rows) if total is None else total
    return (
        f'<table style="border-collapse:collapse">{top}<tbody>{body}</tbody></table>'
        f"{_more(count, len(shown))}"
    )


def preformatted(title: str, text: str) -> str:
    """A title over text that keeps its lines."""
    return f'<div style="{_QUIET}">{_text(title)}</div><pre>{html.escape(text)}</pre>'


def _are_verdicts(data: Sequence[Any]) -> bool:
    """Whether a list is of conditions that hold, do not, or are unknown."""
    return bool(data) and all(
        # Lines of a receipt have these keys too; their status is no verdict.
        isinstance(row, Mapping)
        and {"name", "text", "meaning"} <= row.keys()
        and row.get("status") in _VERDICTS
        for row in data
    )


def _verdicts(data: Sequence[Mapping[str, Any]], depth: int) -> str:
    """Conditions that do not hold as rows, or by name in a cell; how many hold or are unknown as a line."""
    names: dict[str, list[str]] = {}
    for row in data:
        names.setdefault(row["status"], []).append(str(row["name"]))
    counts = [f"{len(names['true']):,} hold"] if "true" in names else []
    if "unknown" in names:
        which = f": {', '.join(names['unknown'])}" if depth > 1 else ""
        counts.append(f"{len(names['unknown']):,} undetermined by the inputs{which}")
    broken = [row for row in data if row["status"] == "false"]
    if depth < 1:
        violated = [f"violated: {', '.join(names['false'])}"] if broken else []
        return _text("; ".join((*violated, *counts)))
    rows = [{"violated": row["name"], "condition": row["text"]} for row in broken]
    lines = "".join(f"<div>{_text(line)}</div>" for line in counts)
    return (_records(rows, depth) if rows else "") + lines


def _without_width(data: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A value without the ends of its interval, where both are the value."""
    if "lo" in data and data["lo"] == data.get("hi") == data.get("value"):
        return {name: value for name, value in data.items() if name not in ("lo", "hi")}
    return data


def _mapping(data: Mapping[Any, Any], depth: int) -> str:
    plain, nested = [], []
    for name, value in _without_width(data).items():
        if value is None or (isinstance(value, (Mapping, list, tuple)) and not value):
            continue
        cell = data_html(_dated(name, value), depth - 1)
        if isinstance(value, Mapping) or cell.startswith(("<table", "<ul")):
            summary = f"{_text(str(name))} ({len(value)})"
            nested.append(f"<details><summary>{summary}</summary>{cell}</details>")
        else:
            plain.append((_text(str(name)), cell))
    return (table((), plain, len(plain)) if plain else "") + "".join(nested)


def _records(data: Sequence[Mapping[str, Any]], depth: int) -> str:
    most = ROWS if depth == DEPTH else NESTED_ROWS
    shown = [_without_width(row) for row in data[:most]]
    names = [
        name
        for name in dict.fromkeys(name for row in shown for name in row)
        if any(row.get(name) not in (None, "", [], {}) for row in shown)
    ][:COLUMNS]
    rows = [
        [data_html(_dated(name, row.get(name)), min(depth - 1, 1)) for name in names]
        for row in shown
    ]
    return table(names, rows, len(data))


def _more(count: int, shown: int = ROWS) -> str:
    return f'<div style="{_QUIET}">{count - shown:,} more</div>' if count > shown else ""


def _dated(name: Any, value: Any) -> Any:
    """Seconds since 1970 as a date in UTC, where the name says that they are a time."""
    if str(name).endswith("_at") and isinstance(value, int | float) and value >= _FIRST_DATE:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(value))
    return value


def _brief(data: Any) -> str:
    """Nested data in one line, without the quotes and braces of JSON.

    >>> _brief({"spec": 0.25, "of": ["a", "b"]})
    'spec: 0.25; of: a, b'
    """
    if isinstance(data, Mapping):
        return "; ".join(f"{name}: {_brief(value)}" for name, value in data.items())
    if isinstance(data, (list, tuple)):
        return ", ".join(map(_brief, data))
    return _scalar(data)


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _text(text: str) -> str:
    """A text, escaped, on its own no longer than a cell holds."""
    cut = text if len(text) <= CHARACTERS else text[:CHARACTERS] + " ..."
    return html.escape(cut)
