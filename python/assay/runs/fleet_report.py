"""The report of a promotion over a fleet: Markdown from the journal's records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from assay.improve.journal.journal import JournalReading
from assay.improve.journal.run_folder import RunFolder
from assay.report.words import metric_name, setting

NAME = "report.md"


def write_fleet_report(
    folder: RunFolder, outcome: Mapping[str, Any], reading: JournalReading
) -> None:
    """Write the report of a run folder, whole or not at all."""
    folder.write(NAME, ("\n".join(_lines(outcome, reading)) + "\n").encode())


def _lines(outcome: Mapping[str, Any], reading: JournalReading) -> Iterator[str]:
    changes = ", ".join(f"{name} {setting(value)}" for name, value in outcome["changes"].items())
    yield f"# Promotion of {changes}: {outcome['verdict']}"
    yield ""
    yield f"{outcome['reason']}."
    yield ""
    if ratio := outcome["ratio"]:
        yield (
            f"{metric_name(outcome['metric'])} with the change over without: {ratio['value']:.3f} "
            f"({_bound(ratio['lo'])} to {_bound(ratio['hi'])}, each bound missed in 5 % of promotions "
            "at most, whenever it is looked at)."
        )
        yield ""
    yield "| replica | run of its agent | at the end |"
    yield "|---|---|---|"
    ended = "with the change" if outcome["verdict"] == "promoted" else "as at the start"
    for name, run in outcome["replicas"].items():
        yield f"| {name} | {run} | {ended} |"
    yield ""
    yield "| window | replica | settings | objective | requests | failed | within SLO |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for record in reading.of("stage"):
        changed = record.data.get("changed", {})
        for name, sample in record.data.get("samples", {}).items():
            yield (
                f"| {record.data['stage']} | {name} | {'change' if changed.get(name) else 'start'} "
                f"| {sample['value']:.4g} | {sample['requests']} | {sample['errors']} "
                f"| {sample['held']} |"
            )
    for note in outcome["notes"]:
        yield ""
        yield f"Note: {note}."


def _bound(value: float | None) -> str:
    return "not bounded" if value is None or not 0.0 < value < math.inf else f"{value:.3f}"
