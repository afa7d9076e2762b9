"""Predictions of other tools for the published cases, as they were written by scripts that run those tools."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from assay import catalog
from assay.files import read_json

FILE = Path(catalog.__file__).parent / "cases" / "aiconfigurator.json"
NAME = "aiconfigurator"


@cache
def predictions() -> dict[str, dict[str, float]]:
    """Figures by case and by output of the scope `serving`, in base units."""
    content: dict[str, Any] = read_json("predictions of another tool", FILE)
    return {case: record["figures"] for case, record in content.items() if "figures" in record}
