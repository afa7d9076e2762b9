"""Fit training constants that kernel tables do not contain: software, network and system.

    PYTHONPATH=python:scripts python scripts/fit_training.py CASES --write FOLDER

Maximum a posteriori fit on cases of tier A, every suite with the same weight; then each suite is
predicted by constants fitted without it, which are written as folds for `assay validate`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import training_hours
from assay.catalog import constants
from assay.validate.cases import Case, read_cases
from assay.validate.training import evaluation as training
from assay.validate.training.figures import ObservedFigure
from assay.validate.training.jobs import Job, read_job
from assay.validate.training.shapes import NotPredictable
from training_document import Fold, counts, write, write_folds
from training_priors import PRIORS

Array = NDArray[np.float64]
SCALE = 0.05
EFFECTIVE_CASES = 30
"""Effective number of cases: errors within a suite are correlated."""
ROUNDS = 2
STEPS = 12


@dataclass(frozen=True)
class Observed:
    """A job and the seconds of its step, from the figure that the case states."""

    job: Job
    seconds: float

    @property
    def suite(self) -> str:
        """The suite that the case belongs to."""
        return self.job.case.suite


def observed_steps(cases: Sequence[Case], tiers: str, run_yield: float) -> list[Observed]:
    """Every case of some tiers whose step time, or GPU-hours, are stated."""
    jobs = []
    for case in cases:
        if case.tier in tiers:
            try:
                jobs.append(read_job(case, cases))
            except NotPredictable:
                continue
    found = []
    for predicted in training.predict_jobs(jobs):
        seconds = [
            s for f in training.figures(predicted) if (s := _seconds(f, predicted, run_yield))
        ]
        if seconds:
            found.append(Observed(predicted.job, seconds[0]))
    return found


def _seconds(figure: ObservedFigure, found: training.Predicted, run_yield: float) -> float | None:
    """Seconds of a step, or GPU-seconds where the number of GPUs is not known."""
    if figure.kind == "step":
        return figure.observed
    if figure.quantity == "gpu_hours" and found.job.total_tokens:
        gpu_seconds = figure.observed * 3600 * run_yield * found.tokens / found.job.total_tokens
        return gpu_seconds if found.job.counts_gpus else gpu_seconds / found.gpus
    return None


class Problem:
    """Log ratios of predicted over observed steps, and their exact derivatives."""

    def __init__(self, cases: Sequence[Observed], layouts: Sequence[dict[str, float]]) -> None:
        """Bind the graph to cases in given layouts."""
        self.jobs = [case.job for case in cases]
        self.layouts = list(layouts)
        self.families = [constants.source_system(job.system) for job in self.jobs]
        gpus = [
            layout["training.gpus"] if job.counts_gpus else 1.0
            for job, layout in zip(self.jobs, layouts, strict=True)
        ]
        self.observed = np.log([case.seconds for case in cases]) - np.log(gpus)
        suites = [case.suite for case in cases]
        weights = np.array([suites.count(suite) ** -0.5 for suite in suites])
        self.weights = weights * math.sqrt(EFFECTIVE_CASES / (weights**2).sum()) / SCALE
        self.table = training.columns(self.jobs, self.layouts)
        self.masks = masks(self.families)
        self.mean = np.log([prior.value for prior in PRIORS])
        self.spread = np.array([prior.spread for prior in PRIORS])

    def at(self, logs: Array) -> dict[str, Array]:
        """All inputs at a point of the fit."""
        return {**self.table, **override(logs, self.families)}

    def residuals(self, logs: Array) -> Array:
        """Soft-L1 errors, then deviations from the priors."""
        time = training.evaluate(self.at(logs))[training.STEP]
        errors = (np.log(time) - self.observed) * self.weights
        return np.concatenate([_shrunk(errors), (logs - self.mean) / self.spread])

    def jacobian(self, logs: Array) -> Array:
        """Derivatives of the residuals."""
        table = self.at(logs)
        function = training.compiled()
        names = list(dict.fromkeys(prior.name for prior in PRIORS))
        values = [table[name] for name in training.inputs()]
        time = function(*values)[0]
        slopes = dict(zip(names, function.jacobian(*values, wrt=names)[0], strict=True))
        errors = (np.log(time) - self.observed) * self.weights
        rows = [
            slopes[prior.name] * np.exp(log) / time * mask
            for prior, log, mask in zip(PRIORS, logs, self.masks, strict=True)
        ]
        inner = np.array(rows).T * (self.weights * _slope(errors))[:, None]
        return np.vstack([inner, np.diag(1 / self.spread)])


def masks(families: Sequence[str]) -> list[Array]:
    """For each prior the cases it belongs to."""
    return [
        np.array([prior.system in ("", family) for family in families], dtype=np.float64)
        for prior in PRIORS
    ]


def override(logs: Array, families: Sequence[str]) -> dict[str, Array]:
    """Columns of the fitted constants."""
    found: dict[str, Array] = {}
    for prior, log, mask in zip(PRIORS, logs, masks(families), strict=True):
        column = found.setdefault(prior.name, np.full(len(families), np.nan))
        column[mask > 0] = math.exp(log)
    for prior in PRIORS:
        # Accelerators that no prior names take the most recent generation's.
        column = found[prior.name]
        column[np.isnan(column)] = prior.value
    return found


def _shrunk(errors: Array) -> Array:
    shrunk: Array = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
    return shrunk


def _slope(errors: Array) -> Array:
    size = np.maximum(np.abs(errors), 1e-6)
    root = np.sqrt(1 + size**2)
    slope: Array = size / (root * np.sqrt(2 * (root - 1)))
    return slope


def start() -> Array:
    """Starting point of a fit: the priors."""
    return np.log([prior.value for prior in PRIORS])


def tuned(cases: Sequence[Observed], logs: Array) -> list[dict[str, float]]:
    """The best layout of every case at a point of the fit."""
    jobs = [case.job for case in cases]
    columns = override(logs, [constants.source_system(job.system) for job in jobs])
    chosen = training.best_layouts(jobs, columns)
    return [job.layouts[index] for job, index in zip(jobs, chosen, strict=True)]


def fit(cases: Sequence[Observed]) -> Array:
    """Maximum a posteriori constants; open layouts are chosen again in every round."""
    logs = start()
    upper = np.log([prior.limit for prior in PRIORS])
    for _ in range(ROUNDS):
        problem = Problem(cases, tuned(cases, logs))
        inside = np.minimum(logs, upper - 1e-6)
        logs = least_squares(
            problem.residuals, inside, jac=problem.jacobian, bounds=(-np.inf, upper),
            max_nfev=STEPS,
        ).x  # fmt: skip
    return logs


def covariance_at(cases: Sequence[Observed], logs: Array) -> Array:
    """Covariance of the logarithms of the constants, from the curvature at the fit."""
    slopes = Problem(cases, tuned(cases, logs)).jacobian(logs)
    covariance: Array = np.asarray(np.linalg.inv(slopes.T @ slopes), dtype=np.float64)
    return covariance


def errors(cases: Sequence[Observed], logs: Array) -> Array:
    """Logarithms of predicted over observed, in the best layouts."""
    problem = Problem(cases, tuned(cases, logs))
    time = training.evaluate(problem.at(logs))[training.STEP]
    ratios: Array = np.log(time) - problem.observed
    return ratios


def by_suite(cases: Sequence[Observed], values: Array) -> dict[str, Array]:
    """Values grouped by suite."""
    names = np.array([case.suite for case in cases])
    return {str(name): values[names == name] for name in dict.fromkeys(names)}


def report(label: str, groups: dict[str, Array]) -> None:
    """One line a suite, then the mean over suites."""
    means = []
    for suite, logs in groups.items():
        size = np.abs(np.expm1(logs))
        means.append(size.mean())
        print(
            f"{label:9} {suite:16} {len(logs):4}  mape {size.mean():.3f}  bias {np.expm1(logs).mean():+.3f}"
            f"  p90 {np.quantile(size, 0.9):.3f}"
        )
    print(f"{label:9} mean over suites {np.mean(means):.4f}", flush=True)


def spreads(groups: dict[str, Array]) -> tuple[float, float]:
    """Spread between suites and within them, each suite with the same weight."""
    between = float(np.sqrt(np.mean([logs.mean() ** 2 for logs in groups.values()])))
    within = float(np.sqrt(np.mean([logs.var() for logs in groups.values()])))
    return between, within


def leave_one_out(cases: Sequence[Observed]) -> dict[str, Array]:
    """Constants fitted without each suite in turn."""
    return {
        suite: fit([case for case in cases if case.suite != suite])
        for suite in dict.fromkeys(case.suite for case in cases)
    }


def run_yield(everything: Sequence[Case], tiers: str, logs: Array) -> tuple[float, float]:
    """The yield of published runs of some tiers, and its spread, at a point of the fit."""
    found = training_hours.runs(everything, tiers)
    hours = training_hours.ideal_hours(
        found, lambda jobs: override(logs, training_hours.source_systems(jobs))
    )
    return training_hours.yields(found, hours)


def main() -> None:
    """Read the cases, fit, print, and write the constants to `--write`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--write", type=Path, help="folder of calibration files to write")
    parser.add_argument("--quick", action="store_true", help="no suites held out")
    options = parser.parse_args()
    everything = [case for case in read_cases(options.cases) if case.kind == "training"]
    # GPU-hours of tier A are converted to steps by the yield of tier B runs.
    cases = observed_steps(everything, "A", run_yield(everything, "B", start())[0])
    report("prior", by_suite(cases, errors(cases, start())))
    cases = observed_steps(everything, "A", run_yield(everything, "B", fit(cases))[0])
    logs = fit(cases)
    report("fitted", by_suite(cases, errors(cases, logs)))
    for prior, log in zip(PRIORS, logs, strict=True):
        print(f"constant  {prior.name:36} {prior.system:9} {math.exp(log):.4g} ({prior.value:.4g})")
    steps = [
        case
        for case in observed_steps(everything, "B", 1.0)
        if "gpu_hours" not in case.job.case.observed
    ]
    report("tier B", by_suite(steps, errors(steps, logs)))
    if not options.quick:
        hold_out(everything, cases, logs, options.write)


def hold_out(
    everything: Sequence[Case], cases: Sequence[Observed], logs: Array, folder: Path | None
) -> None:
    """Score held-out suites and families of runs; write constants and folds."""
    without = leave_one_out(cases)
    held_out_errors = {
        suite: errors([case for case in cases if case.suite == suite], point)
        for suite, point in without.items()
    }
    report("held out", held_out_errors)
    between, within = spreads(held_out_errors)
    spread = math.hypot(between, within)
    inside = [float(np.mean(np.abs(group) <= 1.645 * spread)) for group in held_out_errors.values()]
    print(f"spread    between suites {between:.4f} within {within:.4f}")
    print(f"interval  +-{1.645 * spread:.3f} covers {np.mean(inside):.3f} (mean over suites)")
    found = training_hours.runs(everything)

    def ideal(family: str) -> Array:
        point = without.get(family, logs)
        return training_hours.ideal_hours(
            found, lambda jobs: override(point, training_hours.source_systems(jobs))
        )

    training_hours.report(found, ideal)
    for tiers in ("B", "AB"):
        share, share_spread = run_yield(everything, tiers, logs)
        print(f"yield     {share:.3f}, log spread {share_spread:.3f} (tiers {tiers})")
    if folder:
        write_folds(folder, _folds(cases, found, without, logs, ideal))
        provenance = {
            "method": "most probable constants, log residuals, scale 0.05, suites weigh the same",
            "tier": "A",
            "cases": counts([case.suite for case in cases]),
        }
        write(folder, logs, covariance_at(cases, logs), (share, share_spread), provenance)


def _folds(
    cases: Sequence[Observed],
    found: Sequence[training_hours.Run],
    without: dict[str, Array],
    logs: Array,
    ideal: Callable[[str], Array],
) -> list[Fold]:
    """For each group of cases, the constants that a fit without the group gives."""
    folds = []
    for group in dict.fromkeys([*without, *(run.family for run in found)]):
        fitted = [case.job.case.id for case in cases if case.suite == group]
        fitted += [run.job.case.id for run in found if run.family == group]
        share = training_hours.yield_without(group, found, ideal(group))
        point = without.get(group, logs)
        folds.append(Fold(group, tuple(dict.fromkeys(fitted)), point, share))
    return folds


if __name__ == "__main__":
    main()
