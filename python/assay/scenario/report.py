"""Reports on the targets of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from assay.model.resolving.resolution import ConditionVerdict, Resolution


@dataclass(frozen=True, slots=True)
class TargetReport:
    """The status of one target: `ok`, `issues` or `error`.

    `variance_by_kind` divides the variance of the target among the kinds of its values, and is
    empty where nothing uncertain reaches it.
    """

    label: str
    target: str
    status: str
    issues: tuple[str, ...]
    resolution: Resolution | None
    variance_by_kind: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def is_uncertain(self) -> bool:
        """Whether the target has an interval of some width."""
        resolution = self.resolution
        return (
            resolution is not None
            and resolution.value is not None
            and resolution.lower != resolution.upper
        )

    @property
    def assumed_share(self) -> float | None:
        """Share of the variance that assumed values contribute."""
        if not self.variance_by_kind:
            return None
        # Kinds whose values are correlated have one share together, as `assumed + published`.
        shares = self.variance_by_kind.items()
        return sum(share for kinds, share in shares if "assumed" in kinds.split(" + "))

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        shown = self.resolution.to_data() if self.resolution else {}
        return {
            "label": self.label, "target": self.target, "status": self.status,
            "value": shown.get("value"), "unit": shown.get("unit"), "lo": shown.get("lo"),
            "hi": shown.get("hi"), "issues": list(self.issues), "missing": shown.get("missing", []),
            "constraints": shown.get("constraints", []), "conflicts": shown.get("conflicts", []),
            "assumed_share": self.assumed_share, "variance_by_kind": dict(self.variance_by_kind),
            "remarks": list(self.remarks),
        }  # fmt: skip


class ScenarioReport(NamedTuple):
    """All targets of a scenario, and notes on its includes."""

    preset: str
    targets: tuple[TargetReport, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> int:
        """Number of targets without any issue."""
        return sum(report.status == "ok" for report in self.targets)

    @property
    def missing_families(self) -> dict[str, list[str]]:
        """Missing inputs of all targets, by family."""
        families: dict[str, dict[str, None]] = {}
        for report in self.targets:
            for gap in report.resolution.missing if report.resolution else ():
                families.setdefault(gap.variable.family, {})[gap.variable.name] = None
        return {family: list(names) for family, names in families.items()}

    @property
    def violations(self) -> list[ConditionVerdict]:
        """Constraints that the scenario violates, each once."""
        resolutions = [report.resolution for report in self.targets if report.resolution]
        return list({v.name: v for resolution in resolutions for v in resolution.violated}.values())

    @property
    def violated(self) -> list[str]:
        """Names of the constraints that the scenario violates."""
        return [verdict.name for verdict in self.violations]

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "preset": self.preset, "ok": self.ok, "of": len(self.targets),
            "targets": [report.to_data() for report in self.targets],
            "missing_families": self.missing_families, "violated": self.violated,
            "notes": list(self.notes),
        }  # fmt: skip
