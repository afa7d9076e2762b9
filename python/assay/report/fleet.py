"""The report of a promotion over a fleet: Markdown from the journal's records, and derived again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from assay.answers import Answer
from assay.improve.fleet.guards import OBJECTIVE, Comparison, levels_of
from assay.improve.fleet.protocol import Sample
from assay.improve.fleet.randomization import Evidence
from assay.improve.fleet.settings import PromotionSettings
from assay.improve.journal import journal as journals, run_folder
from assay.improve.journal.journal import JournalReading
from assay.improve.journal.run_folder import RunFolder
from assay.report.words import metric_name, setting

FleetVerdict = Literal["promoted", "undecided", "regressed", "rolled back", "refused"]
"""What a promotion came to."""
NAME = "report.md"
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class FleetReport(Answer):
    """What a promotion came to, and its report."""

    outcome: Mapping[str, Any]
    text: str

    def to_json(self) -> dict[str, Any]:
        """What `assay run --replicas --json` printed."""
        return dict(self.outcome)


def write_fleet_report(
    folder: RunFolder, outcome: Mapping[str, Any], reading: JournalReading
) -> None:
    """Write the report of a run folder, whole or not at all."""
    folder.write(NAME, ("\n".join(_lines(outcome, reading)) + "\n").encode())


def read_fleet_report(run: str) -> FleetReport | None:
    """The report of a promotion; None for a run of one engine."""
    folder = run_folder.find(run)
    reading = journals.read(folder.path)
    ended = reading.last("finished")
    if not reading.of("replica") or ended is None or not (folder.path / NAME).is_file():
        return None
    return FleetReport(ended.data, (folder.path / NAME).read_text("utf-8"))


def checks(folder: RunFolder, reading: JournalReading) -> Iterator[tuple[str, bool, str]]:
    """What is checked, whether it holds, and in words: the text, the ratio and the verdict."""
    ended = reading.last("finished")
    if ended is None:
        yield "journal", False, "expected the end of the promotion, got none"
        return
    outcome = ended.data
    text = "\n".join(_lines(outcome, reading)) + "\n"
    path = folder.path / NAME
    is_same = path.is_file() and path.read_text("utf-8") == text
    said = "what the journal's records give" if is_same else "not what the journal's records give"
    yield NAME, is_same, said
    evidence, settings = _derived(reading)
    stated = outcome.get("ratio")
    if stated:
        low, high = evidence.bounds(settings.alpha)
        derived = (math.exp(evidence.estimate), math.exp(low), math.exp(high))
        pairs = zip(derived, (stated["value"], stated["lo"], stated["hi"]), strict=True)
        is_equal = all(_same(again, before) for again, before in pairs)
        rounds = len(evidence.rounds)
        yield "ratio", is_equal, f"{derived[0]:.4f} from {rounds} rounds of drawn replicas"
    if outcome["verdict"] == "promoted":
        is_proven = evidence.for_better >= 1.0 / settings.alpha and bool(reading.of("kept"))
        shown = f"evidence {evidence.for_better:,.0f} to 1, {1 / settings.alpha:.0f} needed"
        yield "verdict", is_proven, f"promoted: {shown}"


def _derived(reading: JournalReading) -> tuple[Evidence, PromotionSettings]:
    """The evidence of the rounds, from what each replica measured."""
    planned = reading.last("plan")
    settings = PromotionSettings(**(planned.data["settings"] if planned is not None else {}))
    baseline, rounds = [], []
    for record in reading.of("stage"):
        samples = {name: Sample(**data) for name, data in record.data.get("samples", {}).items()}
        stage = str(record.data["stage"])
        if stage == "baseline":
            baseline.append(samples)
        elif stage.startswith("round "):
            rounds.append((samples, record.data["changed"]))
    if not baseline:
        return Evidence(), settings
    comparison = Comparison(settings, *levels_of(baseline, settings))
    for samples, changed in rounds:
        comparison.add(samples, changed)
    return comparison.evidence.get(OBJECTIVE, Evidence()), settings


def _same(derived: float, stated: float | None) -> bool:
    if stated is None:
        return not 0.0 < derived < math.inf
    return math.isclose(derived, stated, rel_tol=_TOLERANCE)


def _lines(outcome: Mapping[str, Any], reading: JournalReading) -> Iterator[str]:
    changes = ", ".join(
        f"{name} {setting(value)}" for name, value in sorted(outcome["changes"].items())
    )
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
    for name, end in sorted(outcome["replicas"].items()):
        yield f"| {name} | {end['run']} | {end['state']} |"
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
