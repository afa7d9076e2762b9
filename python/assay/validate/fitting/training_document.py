"""Write fitted training constants as calibration files: one for all accelerators, one for each."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay import json_records
from assay.array_types import Floats
from assay.catalog import constants
from assay.validate.fitting.covariance import correlation_block
from assay.validate.fitting.training_priors import (
    BOARDS,
    FACTS,
    H100,
    LOAD,
    PRIORS,
    Prior,
    board_factor,
)

FOLDS = "held_out_training.json"
_UNITS = {"interconnect.nic.latency": "s", "training.step_start": "s"}


def write(
    folder: Path,
    logs: Floats,
    covariance: Floats,
    run_yield: tuple[float, float],
    provenance: Mapping[str, Any],
) -> None:
    """Write `training.json` and a file for every accelerator with its own priors.

    Constants fitted for some accelerators only default to those of the H100. `run_yield` is the
    yield of published runs, and the spread of its logarithm.
    """
    errors = np.sqrt(np.diag(covariance))
    entries = [
        (prior, _entry(prior, log, error))
        for prior, log, error in zip(PRIORS, logs, errors, strict=True)
    ]
    facts = {name: {"value": fact.value, "unit": fact.unit, "kind": "assumed", "reason": fact.reason}
             for name, fact in FACTS.items()}  # fmt: skip
    share, share_spread = (float(f"{value:.4g}") for value in run_yield)
    measured = {
        "training.run_yield": {"value": share, "unit": "1", "log_standard_error": share_spread}
    }
    common = {prior.name: entry for prior, entry in entries if prior.system in ("", H100)}
    _file(
        folder / "training.json", "common", {**common, **facts, **measured}, provenance,
        _correlations(entries, covariance, H100),
    )  # fmt: skip
    for system in sorted({prior.system for prior, _ in entries} - {""}):
        own = {prior.name: entry for prior, entry in entries if prior.system == system}
        correlations = _correlations(entries, covariance, system)
        _file(folder / f"training_{system}.json", system, own, provenance, correlations)
    for system in BOARDS:
        _derived(
            folder, system, {prior.system: entry for prior, entry in entries if prior.name == LOAD}
        )


def _derived(folder: Path, system: str, shares: Mapping[str, Mapping[str, Any]]) -> None:
    """The share of a board that uses another's constants, under its own power limit."""
    other = constants.source_system(system)
    share = shares[other if other in shares else H100]
    document = {
        "system": system,
        "provenance": {
            "kind": "derived",
            "date": datetime.date.today().isoformat(),
            "command": "python -m assay.validate.fitting.training",
            "method": "the fitted share of the board with the same die, times what its power limit and "
            "peak change (board_factor in assay.validate.fitting.training_priors)",
        },
        "constants": {
            LOAD: {
                "value": float(f"{share['value'] * board_factor(system):.6g}"),
                "unit": "1",
                "log_standard_error": share["log_standard_error"],
            }
        },
    }
    path = folder / f"training_{system}.json"
    path.write_text(json_records.dumps(document, depth=3) + "\n")


def _correlations(
    entries: Sequence[tuple[Prior, dict[str, Any]]], covariance: Floats, system: str
) -> dict[str, Any]:
    """Correlations of the constants that one accelerator uses."""
    rows = [
        row
        for row, (prior, entry) in enumerate(entries)
        if prior.system in ("", system) and "log_standard_error" in entry
    ]
    return correlation_block([PRIORS[row].name for row in rows], covariance[np.ix_(rows, rows)])


def _entry(prior: Prior, log: float, error: float) -> dict[str, Any]:
    # Where a constant ends at its limit, the curvature says nothing about the other side.
    is_free = math.exp(log) < 0.9999 * prior.limit
    return {
        "value": float(f"{math.exp(log):.6g}"),
        "unit": _UNITS.get(prior.name, "1"),
        **({"log_standard_error": float(f"{error:.2g}")} if is_free else {}),
        "prior": prior.value,
        "prior_log_spread": prior.spread,
        "prior_reason": prior.reason,
    }


def _file(
    path: Path,
    system: str,
    entries: Mapping[str, Any],
    provenance: Mapping[str, Any],
    correlations: Mapping[str, Any],
) -> None:
    document = {
        "system": system,
        "provenance": {
            "kind": "fitted",
            "date": datetime.date.today().isoformat(),
            "command": "python -m assay.validate.fitting.training",
            **provenance,
        },
        "constants": entries,
        "correlations": [correlations],
    }
    path.write_text(json_records.dumps(document, depth=3) + "\n")


@dataclass(frozen=True)
class Fold:
    """Cases that are left out of a fit together, and what the fit without them gives."""

    group: str
    cases: tuple[str, ...]
    logs: Floats
    run_yield: float


def write_folds(folder: Path, folds: Sequence[Fold], inputs: str) -> None:
    """Write the constants of every fold, by the accelerator; `inputs` is the hash of the cases."""
    document = {
        "provenance": {
            "kind": "fitted",
            "date": datetime.date.today().isoformat(),
            "command": "python -m assay.validate.fitting.training",
            "method": "as training.json, each time without the cases of one source",
        },
        "inputs": inputs,
        "folds": [_fold(fold) for fold in folds],
    }
    (folder / FOLDS).write_text(json_records.dumps(document, depth=2) + "\n")


def _fold(fold: Fold) -> dict[str, Any]:
    by_system: dict[str, dict[str, float]] = {"common": {}}
    for prior, log in zip(PRIORS, fold.logs, strict=True):
        value = float(f"{math.exp(log):.6g}")
        if prior.system in ("", H100):
            by_system["common"][prior.name] = value
        if prior.system:
            by_system.setdefault(prior.system, {})[prior.name] = value
    by_system["common"]["training.run_yield"] = float(f"{fold.run_yield:.4g}")
    for system in BOARDS:
        share = by_system.get(constants.source_system(system), by_system["common"])[LOAD]
        by_system[system] = {LOAD: float(f"{share * board_factor(system):.6g}")}
    return {"group": fold.group, "cases": list(fold.cases), "constants": by_system}


def counts(suites: Sequence[str]) -> dict[str, int]:
    """How many cases of each suite were fitted."""
    return {suite: suites.count(suite) for suite in dict.fromkeys(suites)}
