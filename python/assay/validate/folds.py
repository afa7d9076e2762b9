"""Folds of cross-validation: which cases entered a fit, and what a fit without them gives.

`scripts/fit_training.py` and `scripts/fit_serving.py` leave one group of cases out at a time and
write the constants of each fit to `catalog/calibration/held_out_*.json`. A case of a fold entered
the fit of the constants that Assay ships; its held-out prediction uses the fold's instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay import catalog
from assay.files import read_json


@dataclass(frozen=True)
class Fold:
    """Cases that are left out of a fit together, and the constants of the fit without them."""

    group: str
    cases: frozenset[str]
    constants: Mapping[str, Any]


@cache
def folds_by_case(kind: str) -> dict[str, Fold]:
    """The fold of every case that entered the fit of a kind, `training` or `serving`."""
    path = Path(catalog.__file__).parent / "calibration" / f"held_out_{kind}.json"
    folds = [
        Fold(str(fold["group"]), frozenset(fold["cases"]), fold["constants"])
        for fold in read_json("held-out constants", path)["folds"]
    ]
    return {case: fold for fold in folds for case in fold.cases}
