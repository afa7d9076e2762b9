"""A claim, the evidence rows that it is re-derived from, and the provenance of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.intervals import Interval


@dataclass(frozen=True, slots=True)
class Evidence:
    """Rows of a file of the run, and the rule that turns them into the claimed figure."""

    file: str
    """Relative to the run folder: experiments.parquet, journal.jsonl, residuals.parquet ..."""
    rule: str
    """A name of the table of derivations: ratio of paired blocks, median of control blocks ..."""
    select: Mapping[str, Any] = field(default_factory=dict)
    """Which rows: column = value, all of them together."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What the rule needs to know besides: the metric's direction, the confidence, a field's name."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a report."""

    name: str
    """Unique in the report: final.ratio, lever.threads.ratio, waterfall.floor ..."""
    statement: str
    """The sentence, with its figure already written."""
    figure: Interval | None
    unit: str
    evidence: tuple[Evidence, ...]
    intervention: str = ""
    """The change of settings that it is about, and its inverse."""
    verdict: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a report comes from: what a stranger needs to check it."""

    run: str
    created_at: float
    assay_version: str
    fingerprint: Mapping[str, Any]
    """Model, hardware, engine release, workload shape."""
    journal_head: str
    """The last hash of the journal's chain when the report was written."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each file of the run folder that claims rest on."""
    degradations: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
