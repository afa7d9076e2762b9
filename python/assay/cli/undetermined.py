"""JSON of constraints that the inputs leave open: a count and names by layer, in full with --verbose.

A scenario of one job leaves most of the stack unsaid. Its unknown constraints, about wafers and racks, were most
of the JSON of every answer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from assay.answers import Answer
from assay.cli.output import Canvas, Line, Report, report_of
from assay.cli.verbosity import is_verbose

_LISTS: Final = ("unjudged", "unknown")
"""Entries of an answer that hold unknown constraints only."""


def verdict_report(
    answer: Answer,
    text: Callable[[Canvas], Iterable[Line]],
    as_json: bool,
    *,
    details: Sequence[str] = (),
) -> Report:
    """The report of an answer that judges constraints."""
    report = report_of(answer, text, as_json, details=details)
    return report if is_verbose() else report._replace(data=lambda: counted(answer.to_json()))


def counted(data: Mapping[str, Any]) -> dict[str, Any]:
    """Data of an answer, its unknown constraints as their number and their names by layer.

    >>> verdicts = [{"name": "a.x", "status": "true"}, {"name": "b.y", "status": "unknown"}]
    >>> counted({"constraints": verdicts, "unjudged": [{"name": "b.z", "status": "unknown"}]})["undetermined"]
    {'count': 2, 'by_layer': {'b': ['b.y', 'b.z']}}
    """
    layers: dict[str, list[str]] = {}
    kept: dict[str, Any] = {}
    for key, value in data.items():
        if key == "constraints" or key in _LISTS:
            for verdict in value:
                if verdict["status"] == "unknown":
                    layers.setdefault(verdict["name"].partition(".")[0], []).append(verdict["name"])
        if key == "constraints":
            kept[key] = [verdict for verdict in value if verdict["status"] != "unknown"]
        elif key in _LISTS:
            number = sum(len(names) for names in layers.values())
            kept["undetermined"] = {"count": number, "by_layer": layers}
        else:
            kept[key] = value
    return kept
