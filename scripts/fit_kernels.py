"""Fit the constants of kernels on measured times, and write them with their provenance.

    PYTHONPATH=python:scripts python scripts/fit_kernels.py [SYSTEM ...] --write FOLDER

Needs the extra `validate`. Rows of held-out shapes are dropped before anything else happens.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from assay.validate import kernels
from assay.validate.tables import FRAMEWORKS, OPERATIONS, PACKAGE, VERSION, Table, load
from kernel_priors import DEVICES, FACTS, Prior, priors

SCALE = {"gemm": 0.03, "prefill": 0.05, "decode": 0.05}
"""Errors well above this count by their size, not by its square: they are other kernels, or noise."""

PRIOR_WEIGHT = 0.02
SEARCH_ROWS, FINAL_ROWS = 3000, 16000
STARTS, KEPT = 10, 2
INTERVAL_90 = 1.645


@dataclass
class Fit:
    """Constants found, and how they were found."""

    table: Table
    names: list[str]
    values: NDArray[np.float64]
    cost: float
    facts: dict[str, float]
    standard_errors: NDArray[np.float64] | None = None

    @property
    def constants(self) -> dict[str, float]:
        """Fitted constants and facts of the kernel together."""
        return {**dict(zip(self.names, map(float, self.values), strict=True)), **self.facts}


class Problem:
    """Log residuals of a table's rows, and their derivatives by the logarithms of constants."""

    def __init__(
        self,
        table: Table,
        prior: Mapping[str, Prior],
        facts: Mapping[str, float],
        device: Mapping[str, float],
    ) -> None:
        """Bind the relations to the rows of a table."""
        self.names = list(prior)
        self.function = kernels.compiled(table.operation, (*prior, *facts))
        self.scope = self.function.inputs[0].rpartition(".")[0]
        shape = kernels.shape_values(table, device["cache_capacity"])
        self.rest = [
            *facts.values(), device["multiprocessors"], device["cache_capacity"],
            *(shape[name] for name in kernels.SHAPE_INPUTS[table.operation]),
        ]  # fmt: skip
        self.observed = np.log(table.seconds)
        self.centre = np.log([p.value for p in prior.values()])
        self.upper = np.log([min(p.most, p.value * p.factor) for p in prior.values()])
        self.lower = np.log([p.value / p.factor for p in prior.values()])
        self.scale = SCALE[table.operation]

    def residuals(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithms of predicted over measured, then a weak pull towards the prior."""
        time = self.function(*np.exp(logs), *self.rest)[0]
        return np.concatenate([np.log(time) - self.observed, self._pull() * (logs - self.centre)])

    def jacobian(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Derivatives of the residuals, exact."""
        values = np.exp(logs)
        wrt = [f"{self.scope}.{name}" for name in self.names]
        time = self.function(*values, *self.rest)[0]
        slopes = self.function.jacobian(*values, *self.rest, wrt=wrt)[0]
        pull = self._pull() * np.eye(len(logs))
        return np.vstack([(slopes * values[:, None] / time).T, pull])

    def _pull(self) -> float:
        return PRIOR_WEIGHT * self.scale * float(np.sqrt(len(self.observed)))

    def solve(self, start: NDArray[np.float64], steps: int) -> tuple[NDArray[np.float64], float]:
        """Minimise from a start; the cost is per row and in units of the scale."""
        margin = 1e-6
        inside = np.clip(start, self.lower + margin, self.upper - margin)
        found = least_squares(
            self.residuals, inside, jac=self.jacobian, bounds=(self.lower, self.upper),
            loss="soft_l1", f_scale=self.scale, max_nfev=steps,
        )  # fmt: skip
        return found.x, float(2 * found.cost / (len(self.observed) * self.scale**2))


def fit(
    table: Table, device: Mapping[str, float], facts: Mapping[str, float], seed: int = 0
) -> Fit:
    """Search from several starts on few rows, then refine the best on many."""
    random = np.random.default_rng(seed)
    prior = priors(table.operation, table.system)
    few = Problem(_some(table, SEARCH_ROWS, random), prior, facts, device)
    starts = [few.centre] + [
        few.centre + 0.4 * random.standard_normal(len(prior)) for _ in range(STARTS - 1)
    ]
    found = sorted((few.solve(start, 25) for start in starts), key=lambda pair: pair[1])
    many = Problem(_some(table, FINAL_ROWS, random), prior, facts, device)
    logs, cost = min((many.solve(logs, 40) for logs, _ in found[:KEPT]), key=lambda pair: pair[1])
    return Fit(table, list(prior), np.exp(logs), cost, dict(facts))


def _some(table: Table, count: int, random: np.random.Generator) -> Table:
    mask = np.zeros(len(table), dtype=bool)
    mask[random.permutation(len(table))[:count]] = True
    return table.where(mask)


def standard_errors(found: Fit, device: Mapping[str, float]) -> NDArray[np.float64]:
    """Logarithmic standard errors; rows of one weight, or of one set of heads, err together."""
    prior = priors(found.table.operation, found.table.system)
    problem = Problem(found.table, prior, found.facts, device)
    logs = np.log(found.values)
    rows = len(found.table)
    error, slopes = problem.residuals(logs)[:rows], problem.jacobian(logs)[:rows]
    weight = 1 / np.sqrt(1 + (error / problem.scale) ** 2)
    pull = problem.jacobian(logs)[rows:]
    bread = np.linalg.inv((slopes * weight[:, None]).T @ slopes + pull.T @ pull)
    _, index = np.unique(found.table.groups, return_inverse=True)
    scores = np.zeros((index.max() + 1, len(logs)))
    np.add.at(scores, index, slopes * (weight * error)[:, None])
    return np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread))


def fit_operation(operation: str, system: str) -> list[dict[str, Any]]:
    """Fit an operation on one system: products for all frameworks at once, attention for each."""
    device = {name: fact.value for name, fact in DEVICES[system].items()}
    table = load(operation, system)
    seen = table.where(~table.held_out)
    entries = []
    for tables in ("all",) if operation == "gemm" else FRAMEWORKS:
        part = seen if tables == "all" else seen.where(seen.framework == tables)
        found = min((fit(part, device, facts) for facts in FACTS[operation]), key=lambda f: f.cost)
        found.standard_errors = standard_errors(found, device)
        entries.append(_entry(found, tables, device))
        print(system, operation, tables, f"{entries[-1]['fitted_median']:.4f}", flush=True)
    return entries


def _entry(found: Fit, tables: str, device: Mapping[str, float]) -> dict[str, Any]:
    assert found.standard_errors is not None
    prior = priors(found.table.operation, found.table.system)
    time = kernels.evaluate(found.table, found.constants, device)[0]
    error = np.abs(np.log(time / found.table.seconds))
    constants = [
        {"name": name, "value": float(f"{value:.6g}"), "unit": prior[name].unit, "kind": "measured",
         "log_standard_error": float(f"{deviation:.2g}")}
        for name, value, deviation in zip(found.names, found.values, found.standard_errors, strict=True)
    ]  # fmt: skip
    constants += [
        {"name": name, "value": value, "unit": "1", "kind": "measured", "chosen": "least cost"}
        for name, value in found.facts.items()
    ]
    return {
        "operation": found.table.operation,
        "tables": tables,
        "rows": len(found.table),
        "fitted_median": float(f"{np.median(np.expm1(error)):.4g}"),
        "fitted_p90": float(f"{np.quantile(np.expm1(error), 0.9):.4g}"),
        "spread": float(f"{np.quantile(error, 0.9) / INTERVAL_90:.4g}"),
        "constants": constants,
    }


def document(system: str) -> dict[str, Any]:
    """Everything fitted on one system, ready to be written."""
    return {
        "system": system,
        "provenance": {
            "kind": "measured",
            "source": f"{PACKAGE} {VERSION}, 16-bit rows of each framework's newest main kernel",
            "method": "least squares on logarithms, soft_l1, exact derivatives, weak priors",
            "command": f"python scripts/fit_kernels.py {system} --write FOLDER",
            "held_out": "30 % of weights (n, k) for products, of head sets for attention, by hash",
            "date": datetime.date.today().isoformat(),
        },
        "device": {
            name: {"value": f.value, "unit": f.unit, "kind": "spec", "source": f.source}
            for name, f in DEVICES[system].items()
        },
        "fits": [entry for name in OPERATIONS for entry in fit_operation(name, system)],
    }


def main() -> None:
    """Fit the systems named, or all, and write one file each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", default=list(DEVICES))
    parser.add_argument("--write", type=Path, required=True, help="folder for the JSON files")
    options = parser.parse_args()
    for system in options.systems:
        path = options.write / f"kernels_{system}.json"
        path.write_text(json.dumps(document(system), indent=1) + "\n")


if __name__ == "__main__":
    main()
