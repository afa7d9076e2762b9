"""Scenarios: named sets of sourced values over the model's variables, and reports on them.

- Files, includes and presets (built-in ones in `presets/`, read by `built_in.py`); what follows an
  accelerator (`companions.py`); which variable a question is about (`variable_search.py`).
- Reports, audits and estimates (`estimate.py`; `layout_search.py` finds GPUs and layout,
  `stored_formats.py` the format of a model's files).
- `question.py` reads what a question gives; `questions/` has one function for each question about the
  model.
"""

from typing import TYPE_CHECKING, Any

from assay.scenario.built_in import preset as preset, presets as presets
from assay.scenario.includes import (
    Include as Include,
    include as include,
    include_model as include_model,
)
from assay.scenario.named_scenario import Preset as Preset
from assay.scenario.report import ScenarioReport as ScenarioReport, TargetReport as TargetReport

if TYPE_CHECKING:
    from assay.scenario.audit import (
        ScenarioAudit as ScenarioAudit,
        audit_scenario as audit_scenario,
    )


def __getattr__(name: str) -> Any:
    # Answers do not need the audit.
    if name not in ("ScenarioAudit", "audit_scenario"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.scenario import audit

    return getattr(audit, name)
