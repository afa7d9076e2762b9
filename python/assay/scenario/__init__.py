"""Scenarios: named sets of sourced values over the model's variables, and reports on them."""

from assay.scenario.audit import ScenarioAudit, audit_scenario
from assay.scenario.includes import Include, include, include_model
from assay.scenario.preset import Preset
from assay.scenario.report import ScenarioReport, TargetReport

__all__ = [
    "Include",
    "Preset",
    "ScenarioAudit",
    "ScenarioReport",
    "TargetReport",
    "audit_scenario",
    "include",
    "include_model",
]
