"""Fit the spread of the model error on residuals of sources left out, and write it.

    python -m assay.validate.fitting.model_error [--write]

Run after `training` or `serving`. Spreads are fitted once on the residuals of all
sources, and once without each source, which `assay validate` scores that source with.
docs/design/model-error.md has the method and the figures.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import catalog, json_records
from assay.catalog import constants
from assay.validate.cases import published_cases, read_cases
from assay.validate.fitting.model_error_residuals import (
    FIRST_TOKEN,
    OFFLINE,
    SERVING,
    TRAINING,
    ServingResiduals,
    TrainingResiduals,
    client_spreads,
    seen_systems,
)
from assay.validate.fitting.model_error_spreads import (
    Residual,
    coverage,
    fit_spreads,
    student_factor,
)
from assay.validate.folds import folds_file, inputs_hash

FOLDER = Path(catalog.__file__).parent / "calibration"
Spreads = dict[str, float]


class Fits:
    """Spreads from all residuals, or from those of other sources than one."""

    def __init__(self) -> None:
        """Predict every published figure without its source."""
        cases = read_cases(published_cases())
        self.cases = {case.id: case for case in cases}
        self.training = TrainingResiduals([case for case in cases if case.kind == "training"])
        self.serving = ServingResiduals([case for case in cases if case.kind == "inference"])
        self.steps = self.training.residuals()
        self.served = self.serving.residuals()
        self.known = {
            f"{TRAINING}transfer": self.training.borrowing(),
            f"{SERVING}transfer": self.serving.borrowing(),
        }

    def sources(self) -> list[str]:
        """Every source that has a residual."""
        return sorted({residual.source for residual in (*self.steps, *self.served)})

    def spreads(self, without: str = "") -> Spreads:
        """All spreads; a first token's last, because prompts and steps are part of it."""
        steps = [residual for residual in self.steps if residual.source != without]
        served = [residual for residual in self.served if residual.source != without]
        spreads = fit_spreads(steps, _of(self.known, TRAINING))
        early = [residual for residual in served if residual.level != FIRST_TOKEN]
        spreads |= fit_spreads(early, _of(self.known, SERVING))
        late = self.serving.with_parts(
            [residual for residual in served if residual.level == FIRST_TOKEN], spreads
        )
        return spreads | fit_spreads(late, spreads)


def _of(spreads: Mapping[str, float], scope: str) -> Spreads:
    return {name: value for name, value in spreads.items() if name.startswith(scope)}


def by_client(spreads: Mapping[str, float], clients: Sequence[str]) -> dict[str, Spreads]:
    """Spreads of a step, a prompt and a first token for each client."""
    return {client: client_spreads(spreads, is_server=client != OFFLINE) for client in clients}


def common(spreads: Mapping[str, float]) -> Spreads:
    """Spreads that do not depend on the client."""
    return {name: _rounded(value) for name, value in spreads.items() if ":" not in name}


def _rounded(spread: float) -> float:
    return float(f"{spread:.3g}")


def _error(spread: float) -> dict[str, Any]:
    entry: dict[str, Any] = {"value": 1.0, "unit": "1", "kind": "model error"}
    if spread == 0:
        return entry
    return {**entry, "log_standard_error": _rounded(spread)}


def write(fits: Fits, spreads: Spreads, folds: Mapping[str, Spreads]) -> None:
    """Write the spreads: for all systems, for those that fits have seen, by client, by fold."""
    path = FOLDER / "engines.json"
    engines = json.loads(path.read_text())
    clients = list(engines["clients"])
    shared = {name: _error(spread) for name, spread in common(spreads).items()}
    shared |= {
        f"{TRAINING}fitted_gpus": {"value": fits.training.largest, "unit": "GPU"},
        f"{TRAINING}unstated_inputs": {"value": 0.0, "unit": "1"},
        f"{SERVING}unstated_inputs": {"value": 0.0, "unit": "1"},
    }
    _file("model_error.json", constants.COMMON, shared)
    _write_seen()
    for client, parts in by_client(spreads, clients).items():
        for name, spread in parts.items():
            engines["clients"][client][name] = _error(spread)
    path.write_text(json_records.dumps(engines, depth=4) + "\n")
    residuals = [*fits.steps, *fits.served]
    document = {
        "provenance": _provenance("as model_error.json, each time without one source"),
        "inputs": inputs_hash([fits.cases[residual.case] for residual in residuals]),
        "folds": [
            _fold(source, fold_spreads, residuals, clients)
            for source, fold_spreads in folds.items()
        ],
    }
    folds_file("model_error").write_text(json_records.dumps(document, depth=2) + "\n")


def _fold(
    source: str, spreads: Spreads, residuals: Sequence[Residual], clients: Sequence[str]
) -> dict[str, Any]:
    parts = by_client(spreads, clients)
    return {
        "group": source,
        "cases": sorted({residual.case for residual in residuals if residual.source == source}),
        "constants": {
            "spreads": common(spreads),
            "clients": {
                client: {name: _rounded(value) for name, value in own.items()}
                for client, own in parts.items()
            },
            "seen": {kind: sorted(seen_systems(kind, source)) for kind in ("training", "serving")},
        },
    }


def _write_seen() -> None:
    """A file for each system that a fit has seen: it has no error of transfer."""
    certain = {"value": 1.0, "unit": "1", "kind": "model error", "own_only": True}
    seen = {kind: seen_systems(kind) for kind in ("training", "serving")}
    for path in FOLDER.glob("model_error_*.json"):
        path.unlink()
    for system in sorted(frozenset().union(*seen.values())):
        own = {
            f"{kind}.model_error.transfer": certain
            for kind, systems in seen.items()
            if system in systems
        }
        _file(f"model_error_{system}.json", system, own)


def _file(name: str, system: str, entries: Mapping[str, Any]) -> None:
    document = {
        "system": system,
        "provenance": _provenance("90 % of the figures of sources left out inside their interval"),
        "constants": entries,
    }
    (FOLDER / name).write_text(json_records.dumps(document, depth=3) + "\n")


def _provenance(method: str) -> dict[str, str]:
    return {
        "kind": "fitted", "date": datetime.date.today().isoformat(),
        "command": "python -m assay.validate.fitting.model_error --write", "method": method,
    }  # fmt: skip


def report(residuals: Sequence[Residual], spreads: Spreads, folds: Mapping[str, Spreads]) -> None:
    """Spreads, and by level the share of residuals inside, with and without their source."""
    print({name: round(value, 3) for name, value in sorted(spreads.items())})
    for level in sorted({residual.level for residual in residuals}):
        own = [residual for residual in residuals if residual.level == level]
        honest = [coverage([residual], folds[residual.source]) for residual in own]
        print(
            f"{level:44} {len(own):4} of {len({residual.source for residual in own}):2} sources, "
            f"Student's factor {student_factor(own):.2f}: inside {coverage(own, spreads):.3f}, "
            f"without the source {sum(honest) / len(honest):.3f}"
        )


def main() -> None:
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the calibration files")
    options = parser.parse_args()
    fits = Fits()
    spreads = fits.spreads()
    folds = {source: fits.spreads(without=source) for source in fits.sources()}
    late = [residual for residual in fits.served if residual.level == FIRST_TOKEN]
    early = [residual for residual in (*fits.steps, *fits.served) if residual.level != FIRST_TOKEN]
    report([*early, *fits.serving.with_parts(late, spreads)], spreads, folds)
    if options.write:
        write(fits, spreads, folds)


if __name__ == "__main__":
    main()
