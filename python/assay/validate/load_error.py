"""Spreads of the model error of figures with one source: ITL percentiles, power, energy and memory of loaded servers.

`assay.validate.fitting.load_error` fits them on the residuals of all models, and once without each model.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from assay import catalog
from assay.files import read_json

FILE = Path(catalog.__file__).parent / "calibration" / "held_out_load_error.json"

GROUPS = {
    "ITL": "serving.model_error.interval",
    "ITL p99": "serving.model_error.tail",
    "GPU power": "serving.model_error.power",
    "energy per token": "serving.model_error.energy",
    "memory": "serving.model_error.memory",
}
"""The error whose spread a group of figures decides."""


@cache
def spreads_without_model(model: str) -> dict[str, float]:
    """Spreads by variable that use no figure of a model."""
    if not FILE.is_file():
        return {}
    content: dict[str, Any] = read_json("spreads of loaded servers", FILE)
    spreads: dict[str, float] = content["without"].get(model, content["spreads"])
    return spreads
