"""Folds of cross-validation: which cases entered a fit, and what a fit without their source gives.

The fits of training and serving leave one source out at a time and write the constants of each
fit to `catalog/calibration/held_out_*.json`. Every case of a source is predicted by the fold of
that source, whether it entered the fit or not. A source without a fold entered no fit: for its
cases the constants that Assay ships are held-out as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay import catalog
from assay.files import read_json
from assay.validate.cases import Case
from assay.validate.sources import source_of


@dataclass(frozen=True)
class Fold:
    """A source, its cases that entered the fit, and the constants of the fit without them."""

    group: str
    cases: frozenset[str]
    constants: Mapping[str, Any]


def folds_file(kind: str) -> Path:
    """The file of the folds of a kind: `training`, `serving` or `model_error`."""
    return Path(catalog.__file__).parent / "calibration" / f"held_out_{kind}.json"


@cache
def folds(kind: str) -> tuple[Fold, ...]:
    """All folds of a kind."""
    return tuple(
        Fold(str(fold["group"]), frozenset(fold["cases"]), fold["constants"])
        for fold in read_json("held-out constants", folds_file(kind))["folds"]
    )


@cache
def folds_by_case(kind: str) -> dict[str, Fold]:
    """The fold of every case that entered the fit of a kind."""
    return {case: fold for fold in folds(kind) for case in fold.cases}


@cache
def _folds_by_source(kind: str) -> dict[str, Fold]:
    return {fold.group: fold for fold in folds(kind)}


def fold_of(case: Case, kind: str) -> Fold | None:
    """The fold without the source of a case; None where no fit has seen the source."""
    return _folds_by_source(kind).get(source_of(case)) or folds_by_case(kind).get(case.id)


def inputs_hash(cases: Iterable[Case]) -> str:
    """A hash of everything that a fit reads of its cases, whatever their order.

    >>> one = Case("a-1", "training", {"gpu": "H100"}, {"step_time_s": 1.0})
    >>> inputs_hash([one]) == inputs_hash([one, one])
    True
    """
    lines = {
        json.dumps([case.id, case.inputs, case.observed, case.source.get("url"), case.tier],
                   sort_keys=True)
        for case in cases
    }  # fmt: skip
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
