"""The error of transfer on accelerators of other makers than NVIDIA, and without one of their sources.

`assay.validate.fitting.other_makers` fits it on what the published figures of these accelerators are missed by.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from assay import catalog
from assay.catalog import accelerators, constants
from assay.errors import AssayError
from assay.files import read_json
from assay.validate.cases import Case

TRANSFER: Final = "serving.model_error.transfer"
FILE: Final = Path(catalog.__file__).parent / "calibration" / "held_out_other_makers.json"


def is_of_other_maker(case: Case) -> bool:
    """Whether a case is of serving on another maker's accelerator: fits of other errors leave it out."""
    if case.kind != "inference":
        return False
    try:
        entry = accelerators.find(str(case.inputs.get("system") or case.inputs.get("gpu")))
    except AssayError:
        # The row of such a case says that its accelerator is unknown.
        return False
    return constants.is_other_maker(str(entry.facts.get("calibration") or entry.name))


def spread_without_source(source: str) -> float:
    """The log spread that uses no figure of a source."""
    spreads = _spreads()
    return float(spreads["without"].get(source, spreads["spread"]))


@cache
def _spreads() -> dict[str, Any]:
    content: dict[str, Any] = read_json("spreads of other makers", FILE)
    return content
