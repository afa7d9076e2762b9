"""Fit the constants of collectives on measured times, and write them with their provenance.

    python -m assay.validate.fitting.collectives --write FOLDER

Needs the extra `validate`. Held-out sizes and rank counts are dropped first. All systems are fitted
at once, because constants of the library (NCCL) are common to them.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from assay import json_records
from assay.array_types import Floats
from assay.stack.collectives import library as collectives_library
from assay.validate.collectives import tables
from assay.validate.collectives.tables import ENGINES, SYSTEMS, Measured
from assay.validate.measured_package import PACKAGE, VERSION

SCALE = 0.05
"""Scale of the soft-L1 loss: larger errors are noise of the machine and count linearly."""

PRIOR_WEIGHT = 0.02
STARTS = 6
INTERVAL_90 = 1.645
COMMON = "common"

OWN = {
    "collectives.start": (6e-6, "s"),
    "interconnect.link.latency": (1.1e-6, "s"),
    "collectives.fast_share": (0.42, "1"),
    "collectives.exchange_start": (12e-6, "s"),
    "collectives.bulk_latency": (1.2e-6, "s"),
    "interconnect.link.share": (0.83, "1"),
    "collectives.own_copy": (0.42, "1"),
    "collectives.switch_share": (0.56, "1"),
    "collectives.exchange_share": (0.75, "1"),
    "collectives.exchange_copy": (0.15, "1"),
}
"""Constants of an accelerator: starting values and units."""

SHARED = {
    "collectives.eager_latency_ratio": 0.88,
    "collectives.eager_share": 0.026,
    "collectives.exchange_eager_share": 0.018,
    "collectives.ramp": 0.85,
    "collectives.exchange_eager_ratio": 1.44,
    "collectives.bulk_start_ratio": 2.2,
    "collectives.switch_start_ratio": 13.0,
    "collectives.fast_copy": 1.2,
    "collectives.fast_start_ratio": 1.14,
}
"""Constants of the library, all dimensionless."""

DIRECT = {"collectives.direct_start": (4e-6, "s"), "collectives.direct_share": (0.6, "1")}
WITHOUT_SWITCH = ("a100_sxm",)
"""Systems without NVLS: NVSwitch reduces from its third generation on."""


@dataclass
class Problem:
    """Log residuals of all rows, as a function of the logarithms of shared and own constants."""

    rows: Sequence[Measured]

    @property
    def names(self) -> list[str]:
        """Shared constants, then those of each system."""
        return [*SHARED, *(f"{r.system}/{name}" for r in self.rows for name in OWN)]

    @property
    def center(self) -> Floats:
        """Where the search starts."""
        own = [value for _ in self.rows for value, _ in OWN.values()]
        return np.log([*SHARED.values(), *own])

    def values(self, logs: Floats, position: int) -> dict[str, float]:
        """All constants of one system."""
        first = len(SHARED) + position * len(OWN)
        values = {
            **dict(zip(SHARED, np.exp(logs[: len(SHARED)]), strict=True)),
            **dict(zip(OWN, np.exp(logs[first : first + len(OWN)]), strict=True)),
            **{name: value for name, (value, _) in DIRECT.items()},
        }
        if self.rows[position].system in WITHOUT_SWITCH:
            values["collectives.switch_share"] = 0.0
        return {name: float(value) for name, value in values.items()}

    def residuals(self, logs: Floats) -> Floats:
        """Logarithms of predicted over measured, then a weak prior at the starting values."""
        parts = [
            np.log(tables.evaluate(rows, self.values(logs, i)) / rows.seconds)
            for i, rows in enumerate(self.rows)
        ]
        return np.concatenate([*parts, PRIOR_WEIGHT * (logs - self.center)])

    def jacobian(self, logs: Floats) -> Floats:
        """Derivatives of the residuals, exact."""
        blocks = []
        for i, rows in enumerate(self.rows):
            values = self.values(logs, i)
            names = [*SHARED, *OWN]
            slopes = _slopes(rows, values, names)
            block = np.zeros((len(rows), len(logs)))
            first = len(SHARED) + i * len(OWN)
            block[:, : len(SHARED)] = slopes[: len(SHARED)].T
            block[:, first : first + len(OWN)] = slopes[len(SHARED) :].T
            blocks.append(block)
        return np.vstack([*blocks, PRIOR_WEIGHT * np.eye(len(logs))])

    def solve(self, start: Floats) -> tuple[Floats, float]:
        """Minimize from a start."""
        solution = least_squares(
            self.residuals, start, jac=self.jacobian, loss="soft_l1", f_scale=SCALE, max_nfev=200
        )
        return solution.x, float(solution.cost)


def _slopes(rows: Measured, values: dict[str, float], names: list[str]) -> Floats:
    """Derivatives of log time by log constants, one line each."""
    every = tables.compiled().jacobian(*tables.arguments(rows, values), wrt=names)
    operations = list(collectives_library.OPERATIONS)
    picked = np.array([operations.index(name) for name in rows.operation])
    slopes = every[picked, :, np.arange(len(rows))].T
    scales = np.array([values[name] for name in names])
    scaled: Floats = slopes * scales[:, None] / tables.evaluate(rows, values)
    return scaled


def fit(rows: Sequence[Measured], seed: int = 0) -> tuple[Problem, Floats]:
    """Search from several starts."""
    problem = Problem(rows)
    random = np.random.default_rng(seed)
    starts = [problem.center] + [
        problem.center + 0.25 * random.standard_normal(len(problem.center))
        for _ in range(STARTS - 1)
    ]
    logs, _ = min((problem.solve(start) for start in starts), key=lambda pair: pair[1])
    return problem, logs


def standard_errors(problem: Problem, logs: Floats) -> Floats:
    """Cluster-robust logarithmic standard errors; clusters are pairs of size and rank count."""
    count = sum(len(rows) for rows in problem.rows)
    error, slopes = problem.residuals(logs)[:count], problem.jacobian(logs)
    weight = 1 / np.sqrt(1 + (error / SCALE) ** 2)
    bread = np.linalg.inv(
        (slopes[:count] * weight[:, None]).T @ slopes[:count] + PRIOR_WEIGHT**2 * np.eye(len(logs))
    )
    groups = np.concatenate(
        [[f"{s:.0f}:{r:.0f}" for s, r in zip(x.size, x.ranks, strict=True)] for x in problem.rows]
    )
    _, index = np.unique(groups, return_inverse=True)
    scores = np.zeros((index.max() + 1, len(logs)))
    np.add.at(scores, index, slopes[:count] * (weight * error)[:, None])
    errors: Floats = np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread))
    return errors


def fit_direct(rows: Measured, values: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Start and bandwidth share of an engine's custom all-reduce; other constants are fixed."""

    def residuals(logs: Floats) -> Floats:
        own = dict(zip(DIRECT, map(float, np.exp(logs)), strict=True))
        return np.asarray(np.log(tables.evaluate(rows, {**values, **own}) / rows.seconds))

    center = np.log([value for value, _ in DIRECT.values()])
    solution = least_squares(
        residuals, center, loss="soft_l1", f_scale=SCALE, bounds=(center - 1.5, center + 1.5)
    )
    spread = _spread(residuals(solution.x))
    entries = {
        name: _entry(value, unit, None)
        for (name, (_, unit)), value in zip(DIRECT.items(), np.exp(solution.x), strict=True)
    }
    entries["collectives.spread"] = _entry(spread, "1", None)
    return entries


def _spread(errors: Floats) -> float:
    return float(np.quantile(np.abs(errors), 0.9) / INTERVAL_90)


def _entry(value: float, unit: str, deviation: float | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"value": float(f"{value:.5g}"), "unit": unit, "kind": "measured"}
    if deviation is not None:
        entry["log_standard_error"] = float(f"{deviation:.2g}")
    return entry


def documents(fitted: Sequence[Measured]) -> dict[str, dict[str, Any]]:
    """One document for the shared constants and one for each system."""
    problem, logs = fit(fitted)
    deviations = standard_errors(problem, logs)
    by_system: dict[str, dict[str, Any]] = {COMMON: _document(COMMON)}
    by_system[COMMON]["constants"] = {
        name: _entry(float(np.exp(log)), "1", float(deviation))
        for name, log, deviation in zip(SHARED, logs, deviations, strict=False)
    }
    for i, rows in enumerate(fitted):
        values = problem.values(logs, i)
        first = len(SHARED) + i * len(OWN)
        own = deviations[first : first + len(OWN)]
        constants = {
            name: _entry(values[name], unit, float(deviation))
            for (name, (_, unit)), deviation in zip(OWN.items(), own, strict=True)
        }
        if rows.system in WITHOUT_SWITCH:
            constants["collectives.switch_share"] = {"value": 0.0, "unit": "1", "kind": "spec"}
        error = np.log(tables.evaluate(rows, values) / rows.seconds)
        exchange = rows.operation == "all_to_all"
        constants["collectives.spread"] = _entry(_spread(error[~exchange]), "1", None)
        constants["collectives.exchange_spread"] = _entry(_spread(error[exchange]), "1", None)
        for name in ("error", "exchange_error"):
            spread = constants[f"collectives.{name.replace('error', 'spread')}"]["value"]
            constants[f"collectives.{name}"] = {
                "value": 1.0, "unit": "1", "kind": "model error", "log_standard_error": spread,
            }  # fmt: skip
        engines = {}
        for engine in ENGINES:
            measured = tables.load_direct(rows.system, engine)
            engines[engine] = fit_direct(measured.where(~measured.held_out), values)
        constants.update({name: engines[ENGINES[0]][name] for name in DIRECT})
        document = _document(rows.system)
        document["fits"] = [{
            "operation": "collectives", "rows": len(rows),
            "fitted_median": float(f"{np.median(np.abs(np.expm1(error))):.4g}"),
            "fitted_p90": float(f"{np.quantile(np.abs(np.expm1(error)), 0.9):.4g}"),
        }]  # fmt: skip
        document["constants"], document["engines"] = constants, engines
        by_system[rows.system] = document
    return by_system


def _document(system: str) -> dict[str, Any]:
    return {
        "system": system,
        "provenance": {
            "kind": "measured",
            "source": f"{PACKAGE} {VERSION}, newest NCCL table and engines' own all-reduce tables",
            "method": "least squares on logarithms, soft_l1, exact derivatives, all systems at once",
            "command": "python -m assay.validate.fitting.collectives --write FOLDER",
            "held_out": "30 % of pairs of size and rank count, by hash",
            "date": datetime.date.today().isoformat(),
        },
    }


def leave_ranks_out(every: Sequence[Measured]) -> None:
    """Print errors on each rank count when the fit has seen only the others."""
    for ranks in (2.0, 4.0, 8.0):
        problem, logs = fit([rows.where(rows.ranks != ranks) for rows in every])
        for i, rows in enumerate(every):
            unseen = rows.where(rows.ranks == ranks)
            moved = replace(problem, rows=[*every[:i], unseen, *every[i + 1 :]])
            error = np.log(tables.evaluate(unseen, moved.values(logs, i)) / unseen.seconds)
            absolute = np.abs(np.expm1(error))
            print(
                f"without {ranks:.0f} ranks  {rows.system:10} median {np.median(absolute):6.1%}  "
                f"p90 {np.quantile(absolute, 0.9):6.1%}"
            )


def main() -> None:
    """Fit all systems and write one file each, or print errors on unseen rank counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="folder for the JSON files")
    parser.add_argument("--leave-ranks-out", action="store_true")
    options = parser.parse_args()
    every = [tables.load(system) for system in SYSTEMS]
    if options.leave_ranks_out:
        leave_ranks_out(every)
    if options.write:
        for system, document in documents([rows.where(~rows.held_out) for rows in every]).items():
            path = options.write / f"links_{system}.json"
            path.write_text(json_records.dumps(document, depth=3) + "\n")


if __name__ == "__main__":
    main()
