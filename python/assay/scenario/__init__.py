"""Scenarios: named sets of sourced values over the model's variables, and reports on them."""

from typing import TYPE_CHECKING, Any

from assay.scenario.built_in import preset, presets
from assay.scenario.includes import Include, include, include_model
from assay.scenario.named_scenario import Preset
from assay.scenario.report import ScenarioReport, TargetReport

if TYPE_CHECKING:
    from assay.scenario.audit import ScenarioAudit, audit_scenario

__all__ = [
    "Include",
    "Preset",
    "ScenarioAudit",
    "ScenarioReport",
    "TargetReport",
    "audit_scenario",
    "include",
    "include_model",
    "preset",
    "presets",
]


def __getattr__(name: str) -> Any:
    # Answers do not need the audit.
    if name not in ("ScenarioAudit", "audit_scenario"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.scenario import audit

    return getattr(audit, name)
