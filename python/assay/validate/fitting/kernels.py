"""Fit the constants of kernels on measured times, and write them with their provenance.

    python -m assay.validate.fitting.kernels [SYSTEM ...] --write FOLDER

`--only OPERATION,...` keeps the other constants of the files in the folder; `--sample FILE` writes
the held-out rows that the tests score. Needs the extra `validate`. Rows of held-out shapes are
dropped first.
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

from assay import json_records
from assay.array_types import Floats
from assay.validate.fitting.kernel_priors import DISCRETE, PRIORS, SYSTEMS
from assay.validate.kernels.operations import OPERATION_RELATIONS, Prediction, device
from assay.validate.kernels.tables import FRAMEWORKS, Table, load, write_sample
from assay.validate.measured_package import PACKAGE, VERSION

SCALE = {"gemm": 0.01}
"""Scale of the soft-L1 loss: larger errors are other kernels or noise and count linearly."""
_SCALE = 0.05

PRIOR_WEIGHT = 0.02
SEARCH_ROWS, FINAL_ROWS = 3000, 16000
STARTS, FINALISTS = 5, 1
REFINED, REFINEMENTS, FIRST_STEP, TAIL_WEIGHT = ("gemm",), 10, 0.05, 0.05
INTERVAL_90 = 1.645
ASSUMED_SPREAD = 0.25

Logs = Floats


@dataclass
class Fit:
    """Fitted constants and diagnostics of the fit."""

    table: Table
    free: dict[str, float]
    fixed: dict[str, float]
    cost: float
    standard_errors: dict[str, float]
    log_errors: Floats


class Problem:
    """Log residuals of a table's rows, and their Jacobian by the logarithms of constants."""

    def __init__(
        self, table: Table, fixed: Mapping[str, float], facts: Mapping[str, float]
    ) -> None:
        """Bind the relations to the rows of a table."""
        prior = PRIORS[table.operation]
        self.names = list(prior)
        self.predict = Prediction(table, (*prior, *fixed), facts)
        self.fixed = np.array(list(fixed.values()))
        self.observed = np.log(table.seconds)
        self.center = np.log([p.value for p in prior.values()])
        self.upper = np.log([min(p.most, p.value * p.factor) for p in prior.values()])
        self.lower = np.log([p.value / p.factor for p in prior.values()])
        self.scale = SCALE.get(table.operation, _SCALE)

    def values(self, logs: Logs) -> Floats:
        """Free constants, then fixed ones."""
        return np.concatenate([np.exp(logs), self.fixed])

    def residuals(self, logs: Logs) -> Floats:
        """Logarithms of predicted over measured, then a weak prior."""
        time = self.predict(self.values(logs))[0]
        return np.concatenate(
            [np.log(time) - self.observed, self._prior_weight() * (logs - self.center)]
        )

    def jacobian(self, logs: Logs) -> Floats:
        """Derivatives of the residuals, exact."""
        values = self.values(logs)
        time = self.predict(values)[0]
        slopes = self.predict.slopes(values, self.names)
        prior = self._prior_weight() * np.eye(len(logs))
        return np.vstack([(slopes * np.exp(logs)[:, None] / time).T, prior])

    def _prior_weight(self) -> float:
        return PRIOR_WEIGHT * self.scale * float(np.sqrt(len(self.observed)))

    def solve(self, start: Logs, steps: int) -> tuple[Logs, float]:
        """Minimize from a start; the cost is per row and in units of the scale."""
        margin = 1e-6
        inside = np.clip(start, self.lower + margin, self.upper - margin)
        solution = least_squares(
            self.residuals, inside, jac=self.jacobian, bounds=(self.lower, self.upper),
            loss="soft_l1", f_scale=self.scale, max_nfev=steps,
        )  # fmt: skip
        return solution.x, float(2 * solution.cost / (len(self.observed) * self.scale**2))

    def refine(self, logs: Logs) -> Logs:
        """Coordinate search for the least median error, plus a small weight on p90.

        Predictions are scored by the median; the smooth loss only gets near its minimum.
        """

        def objective(at: Logs) -> float:
            errors = np.abs(np.expm1(self.residuals(at)[: len(self.observed)]))
            return float(np.median(errors) + TAIL_WEIGHT * np.quantile(errors, 0.9))

        best, least = logs, objective(logs)
        steps = np.full(len(logs), FIRST_STEP)
        for _ in range(REFINEMENTS):
            for index in range(len(logs)):
                for sign in (1.0, -1.0):
                    trial = best.copy()
                    trial[index] += sign * steps[index]
                    trial = np.clip(trial, self.lower, self.upper)
                    if (loss := objective(trial)) < least:
                        best, least = trial, loss
                        steps[index] *= 1.5
                        break
                else:
                    steps[index] *= 0.5
        return best

    def standard_errors(self, logs: Logs, groups: NDArray[np.str_]) -> Floats:
        """Cluster-robust logarithmic standard errors; clusters are weights or head sets."""
        rows = len(self.observed)
        error, slopes = self.residuals(logs)[:rows], self.jacobian(logs)
        slopes, prior = slopes[:rows], slopes[rows:]
        weight = 1 / np.sqrt(1 + (error / self.scale) ** 2)
        bread = np.linalg.inv((slopes * weight[:, None]).T @ slopes + prior.T @ prior)
        _, index = np.unique(groups, return_inverse=True)
        scores = np.zeros((index.max() + 1, len(logs)))
        np.add.at(scores, index, slopes * (weight * error)[:, None])
        return np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread))


def fit(table: Table, fixed: Mapping[str, float], facts: Mapping[str, float], seed: int = 0) -> Fit:
    """Multi-start search on a subset of the rows, then the best start on more rows."""
    random = np.random.default_rng(seed)
    few = Problem(_random_rows(table, SEARCH_ROWS, random), fixed, facts)
    starts = [few.center] + [
        few.center + 0.4 * random.standard_normal(len(few.center)) for _ in range(STARTS - 1)
    ]
    solutions = sorted((few.solve(start, 25) for start in starts), key=lambda pair: pair[1])
    many = Problem(_random_rows(table, FINAL_ROWS, random), fixed, facts)
    logs, cost = min(
        (many.solve(logs, 40) for logs, _ in solutions[:FINALISTS]), key=lambda pair: pair[1]
    )
    if table.operation in REFINED:
        logs = many.refine(logs)
    every = Problem(table, fixed, facts)
    errors = every.standard_errors(logs, table.groups)
    return Fit(
        table,
        dict(zip(every.names, np.exp(logs).tolist(), strict=True)),
        dict(fixed),
        cost,
        dict(zip(every.names, errors.tolist(), strict=True)),
        every.residuals(logs)[: len(table)],
    )


def _random_rows(table: Table, count: int, random: np.random.Generator) -> Table:
    mask = np.zeros(len(table), dtype=bool)
    mask[random.permutation(len(table))[:count]] = True
    return table.where(mask)


def best_fit(table: Table, fixed: Mapping[str, float], facts: Mapping[str, float]) -> Fit:
    """Fit with the combination of discrete parameters that is best on a subset of the rows."""
    combinations = DISCRETE.get(table.operation, [{}])
    random = np.random.default_rng(0)
    few = _random_rows(table, SEARCH_ROWS, random)

    def cost(combination: Mapping[str, float]) -> float:
        problem = Problem(few, {**fixed, **combination}, facts)
        return problem.solve(problem.center, 15)[1]

    best = min(combinations, key=cost) if len(combinations) > 1 else combinations[0]
    return fit(table, {**fixed, **best}, facts)


class Document:
    """Fitted constants of one system, as written to its file."""

    def __init__(self, system: str, before: Mapping[str, Any] | None = None) -> None:
        """Start empty, or with the constants of an earlier fit."""
        self.system = system
        self.device = device(system)
        before = before or {}
        self.constants: dict[str, dict[str, Any]] = dict(before.get("constants", {}))
        self.engines: dict[str, dict[str, dict[str, Any]]] = dict(before.get("engines", {}))
        self.fits: list[dict[str, Any]] = list(before.get("fits", []))

    def add(self, operation: str) -> None:
        """Fit an operation on the rows of all engines together, or of each engine."""
        table = load(operation, self.system)
        self.fits = [entry for entry in self.fits if entry["operation"] != operation]
        if table is None:
            self._assume(operation)
            return
        seen = table.where(~table.held_out)
        kind = OPERATION_RELATIONS[operation]
        for engine in kind.engines if kind.by_engine else ("all",):
            mask = np.isin(seen.framework, kind.engines if engine == "all" else [engine])
            if mask.any():
                self._add(seen.where(mask), engine)

    def _assume(self, operation: str) -> None:
        """Use the starting values for an operation that was not measured on this system."""
        self.constants |= {
            name: {"value": prior.value, "unit": prior.unit, "kind": "assumed"}
            for name, prior in PRIORS[operation].items()
        }
        self.constants[OPERATION_RELATIONS[operation].spread] = {
            "value": ASSUMED_SPREAD, "unit": "1", "kind": "assumed",
        }  # fmt: skip

    def _add(self, table: Table, engine: str) -> None:
        best = best_fit(table, self._fixed(table.operation, engine), self.device)
        entries: dict[str, dict[str, Any]] = {
            name: {
                "value": _short(value, 6), "unit": PRIORS[table.operation][name].unit,
                "log_standard_error": _short(best.standard_errors[name], 2),
            }
            for name, value in best.free.items()
        }  # fmt: skip
        entries |= {
            name: {"value": best.fixed[name], "unit": "1", "chosen": "least cost"}
            for name in DISCRETE.get(table.operation, [{}])[0]
        }
        size = np.abs(best.log_errors)
        spread = _short(float(np.quantile(size, 0.9)) / INTERVAL_90, 4)
        entries[OPERATION_RELATIONS[table.operation].spread] = {"value": spread, "unit": "1"}
        if engine in ("all", FRAMEWORKS[0]):
            self.constants |= entries
        else:
            self.engines.setdefault(engine, {}).update(entries)
        self.fits.append({
            "operation": table.operation, "engine": engine, "rows": len(table),
            "fitted_median": _short(float(np.median(np.expm1(size))), 4),
            "fitted_p90": _short(float(np.quantile(np.expm1(size), 0.9)), 4),
        })  # fmt: skip
        print(self.system, *self.fits[-1].values(), flush=True)

    def _fixed(self, operation: str, engine: str) -> dict[str, float]:
        """Constants of the same relations that are fitted on other rows."""
        eight_bit = f"{operation}8"
        fixed = {name: prior.value for name, prior in PRIORS.get(eight_bit, {}).items()}
        if operation in ("gemm8", "experts", "experts8"):
            scopes = (
                ("kernels.gemm",) if operation == "gemm8" else ("kernels.gemm", "kernels.experts")
            )
            known = {**self.constants, **self.engines.get(engine, {})}
            fixed |= {
                name: entry["value"]
                for name, entry in known.items()
                if name.rpartition(".")[0] in scopes and not name.endswith("spread")
            }
        own = {*PRIORS[operation], *DISCRETE.get(operation, [{}])[0]}
        return {name: value for name, value in fixed.items() if name not in own}

    def data(self) -> dict[str, Any]:
        """Everything, ready to be written."""
        return {
            "system": self.system,
            "default_engine": FRAMEWORKS[0],
            "provenance": {
                "kind": "measured",
                "source": f"{PACKAGE} {VERSION}, rows of each framework's newest main kernel",
                "method": "least squares on logarithms, soft_l1, exact derivatives, weak priors; "
                "GEMMs then for the least median",
                "command": f"python -m assay.validate.fitting.kernels {self.system} --write FOLDER",
                "held_out": "30 % by hash: of weights (n, k), of head sets, of experts",
                "date": datetime.date.today().isoformat(),
            },
            "shares_of": {name: _short(value, 6) for name, value in self.device.items()},
            "fits": self.fits,
            "constants": self.constants,
            "engines": self.engines,
        }


SAMPLED = {"gemm": 30, "gemm8": 8, "prefill": 12, "decode": 12, "experts": 6, "passes": 4}
"""Rows of each operation and system in the sample that the tests score."""


def held_out_rows(system: str) -> list[Table]:
    """A random sample of held-out rows."""
    tables = []
    for operation, count in SAMPLED.items():
        table = load(operation, system)
        if table is not None:
            unseen = table.where(
                table.held_out & np.isin(table.framework, OPERATION_RELATIONS[operation].engines)
            )
            tables.append(_random_rows(unseen, count, np.random.default_rng(0)))
    return tables


def _short(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def main() -> None:
    """Fit the systems named, or all, and write one file each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", default=list(SYSTEMS))
    parser.add_argument("--write", type=Path, help="folder for the JSON files")
    parser.add_argument("--sample", type=Path, help="write a few held-out rows to this CSV file")
    parser.add_argument("--only", help="operations to fit, separated by commas")
    options = parser.parse_args()
    if options.sample:
        write_sample(options.sample, [t for s in options.systems for t in held_out_rows(s)])
    for system in options.systems if options.write else ():
        path = options.write / f"{system}.json"
        document = Document(system, json.loads(path.read_text()) if options.only else None)
        for operation in options.only.split(",") if options.only else PRIORS:
            document.add(operation)
        path.write_text(json_records.dumps(document.data(), depth=3) + "\n")


if __name__ == "__main__":
    main()
