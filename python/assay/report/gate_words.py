"""What the report of a gate says in words: two sides in the place of a start and kept settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from assay.report import words
from assay.report.claim import Claim, Provenance
from assay.report.grouping import named, starting

KIND: Final = "gate"
"""In the details of a provenance: the report is that of `assay gate`."""


def is_gate(provenance: Provenance) -> bool:
    """Whether a report compares two sides and changes nothing."""
    return provenance.details.get("kind") == KIND


def labels(provenance: Provenance) -> tuple[str, str]:
    """What the two levels of a report are called."""
    return ("base", "head") if is_gate(provenance) else ("start", "kept settings")


def gate_headline(claims: Sequence[Claim], provenance: Provenance) -> str:
    """The verdict in a line."""
    known, details = named(claims), provenance.details
    ratio = known.get("final.ratio")
    metric = words.metric_name(str(details.get("metric") or ""))
    verdict = str(details.get("verdict"))
    figure = "" if ratio is None or ratio.figure is None else words.shown(ratio.figure, ratio.unit)
    if verdict == "undecided" and details.get("passed"):
        margin = words.amount(float(details["margin"]), words.PERCENT)
        return f"Passed, no slowdown of {margin} or more: {metric} {figure}"
    if not figure:
        return f"{verdict}: nothing was compared"
    return f"{verdict}: {metric} of head over base {figure}"


def gate_summary(claims: Sequence[Claim], provenance: Provenance) -> Iterator[str]:
    """Both sides, both levels, why, and what a bisection found."""
    known, details = named(claims), provenance.details
    for label in ("base", "head"):
        side = details.get(label) or {}
        name = str(side.get("name"))
        subject = f": {side['subject']}" if side.get("subject") else ""
        level = known.get("start.level" if label == "base" else "final.level")
        shown = "" if level is None else f", {words.shown(level.figure, level.unit)}"
        yield f"{label} {name}{subject}{shown}"
    yield str(details.get("reason") or "")
    bisection = details.get("bisection")
    if bisection:
        yield str(bisection["sentence"])
    excluded = known.get("slowdown.excluded")
    if excluded is not None and details.get("verdict") == "undecided":
        yield excluded.statement


def gate_comparisons(claims: Sequence[Claim]) -> list[Claim]:
    """Claims on comparisons, in order."""
    return starting(claims, "experiment.")
