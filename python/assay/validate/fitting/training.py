"""Fit training constants that kernel tables do not contain: software, network and system.

    python -m assay.validate.fitting.training --write FOLDER

Maximum a posteriori fit on cases of tiers A and B, every group of like cases with the same weight;
then each source is predicted by constants fitted without it, which are written as folds for
`assay validate`. `--inner` prints folds inside the sources instead: terms are chosen on those.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from assay.array_types import Floats
from assay.catalog import constants
from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.fitting import training_hours
from assay.validate.fitting.training_document import Fold, counts, write, write_folds
from assay.validate.fitting.training_priors import H100, LOAD, PRIORS, board_factor
from assay.validate.folds import inputs_hash
from assay.validate.sources import source_of
from assay.validate.training import evaluation as training
from assay.validate.training.figures import ObservedFigure
from assay.validate.training.jobs import Job
from assay.validate.training.kinds import kind_of

SCALE = 0.05
EFFECTIVE_CASES = 1.5
"""Effective number of cases of a group: errors within it are correlated."""
ROUNDS = 2
STEPS = 12


@dataclass(frozen=True)
class Observed:
    """A job and the seconds of its step, from the figure that the case states."""

    job: Job
    seconds: float

    @property
    def source(self) -> str:
        """Where the case was published."""
        return source_of(self.job.case)

    @property
    def group(self) -> tuple[str, str, float, str]:
        """Cases whose errors come together: of one source, accelerator, format and kind."""
        return self.source, self.job.system, self.job.bits, kind_of(self.job)


def observed_steps(cases: Sequence[Case], run_yield: float) -> list[Observed]:
    """Cases of tiers A and B whose step time is stated, and those of tier A that state GPU-hours."""
    steps = []
    for predicted in training.predict_jobs(training_hours.readable_jobs(cases, "AB")):
        seconds = [
            s for f in training.figures(predicted) if (s := _seconds(f, predicted, run_yield))
        ]
        if seconds:
            steps.append(Observed(predicted.job, seconds[0]))
    return steps


def _seconds(
    figure: ObservedFigure, predicted: training.Predicted, run_yield: float
) -> float | None:
    """Seconds of a step, or GPU-seconds where the number of GPUs is not known."""
    if figure.kind == "step":
        return figure.observed
    if figure.quantity == "gpu_hours" and predicted.job.total_tokens:
        if predicted.job.case.tier != "A":
            return None
        gpu_seconds = (
            figure.observed * 3600 * run_yield * predicted.tokens / predicted.job.total_tokens
        )
        return gpu_seconds if predicted.job.counts_gpus else gpu_seconds / predicted.gpus
    return None


class Problem:
    """Log ratios of predicted over observed steps, and their exact derivatives."""

    def __init__(self, cases: Sequence[Observed], layouts: Sequence[dict[str, float]]) -> None:
        """Bind the graph to cases in given layouts."""
        self.jobs = [case.job for case in cases]
        self.layouts = list(layouts)
        self.families = families_of(self.jobs)
        gpus = [
            layout["training.gpus"] if job.counts_gpus else 1.0
            for job, layout in zip(self.jobs, layouts, strict=True)
        ]
        self.observed = np.log([case.seconds for case in cases]) - np.log(gpus)
        groups = Counter(case.group for case in cases)
        counts = np.array([groups[case.group] for case in cases])
        self.weights = np.sqrt(np.minimum(1, EFFECTIVE_CASES / counts)) / SCALE
        self.table = training.columns(self.jobs, self.layouts)
        self.masks = masks(self.families)
        self.mean = np.log([prior.value for prior in PRIORS])
        self.spread = np.array([prior.spread for prior in PRIORS])

    def at(self, logs: Floats) -> dict[str, Floats]:
        """All inputs at a point of the fit."""
        return {**self.table, **override(logs, self.jobs)}

    def residuals(self, logs: Floats) -> Floats:
        """Soft-L1 errors, then deviations from the priors."""
        time = training.evaluate(self.at(logs))[training.STEP]
        errors = (np.log(time) - self.observed) * self.weights
        return np.concatenate([_shrunk(errors), (logs - self.mean) / self.spread])

    def jacobian(self, logs: Floats) -> Floats:
        """Derivatives of the residuals."""
        table = self.at(logs)
        function = training.compiled()
        names = list(dict.fromkeys(prior.name for prior in PRIORS))
        values = [table[name] for name in training.inputs()]
        time = function(*values)[0]
        slopes = dict(zip(names, function.jacobian(*values, wrt=names)[0], strict=True))
        errors = (np.log(time) - self.observed) * self.weights
        boards = boards_of(self.jobs)
        rows = [
            slopes[prior.name] * np.exp(log) / time * mask * (boards if prior.name == LOAD else 1)
            for prior, log, mask in zip(PRIORS, logs, self.masks, strict=True)
        ]
        inner = np.array(rows).T * (self.weights * _slope(errors))[:, None]
        return np.vstack([inner, np.diag(1 / self.spread)])


def masks(families: Sequence[str]) -> list[Floats]:
    """For each prior the cases it belongs to."""
    return [
        np.array([prior.system in ("", family) for family in families], dtype=np.float64)
        for prior in PRIORS
    ]


def families_of(jobs: Sequence[Job]) -> list[str]:
    """The accelerator whose fitted constants each job uses: one that a prior names."""
    known = {prior.system for prior in PRIORS}
    systems = [constants.source_system(job.system) for job in jobs]
    return [system if system in known else H100 for system in systems]


def boards_of(jobs: Sequence[Job]) -> Floats:
    """What each job's board sustains over the board whose constants it uses."""
    return np.array([board_factor(job.system) for job in jobs])


def override(logs: Floats, jobs: Sequence[Job]) -> dict[str, Floats]:
    """Columns of the fitted constants."""
    families = families_of(jobs)
    columns: dict[str, Floats] = {}
    for prior, log, mask in zip(PRIORS, logs, masks(families), strict=True):
        column = columns.setdefault(prior.name, np.full(len(families), np.nan))
        column[mask > 0] = math.exp(log)
    for prior, log in zip(PRIORS, logs, strict=True):
        # What was fitted for some accelerators only defaults to the H100's, as `write` has it.
        column = columns[prior.name]
        if prior.system == H100:
            column[np.isnan(column)] = math.exp(log)
    columns[LOAD] = columns[LOAD] * boards_of(jobs)
    return columns


def _shrunk(errors: Floats) -> Floats:
    shrunk: Floats = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
    return shrunk


def _slope(errors: Floats) -> Floats:
    size = np.maximum(np.abs(errors), 1e-6)
    root = np.sqrt(1 + size**2)
    slope: Floats = size / (root * np.sqrt(2 * (root - 1)))
    return slope


def start() -> Floats:
    """Starting point of a fit: the priors."""
    return np.log([prior.value for prior in PRIORS])


def tuned(cases: Sequence[Observed], logs: Floats) -> list[dict[str, float]]:
    """The best layout of every case at a point of the fit."""
    jobs = [case.job for case in cases]
    columns = override(logs, jobs)
    chosen = training.best_layouts(jobs, columns)
    return [job.layouts[index] for job, index in zip(jobs, chosen, strict=True)]


def fit(cases: Sequence[Observed]) -> Floats:
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


def covariance_at(cases: Sequence[Observed], logs: Floats) -> Floats:
    """Covariance of the logarithms of the constants, from the curvature at the fit."""
    slopes = Problem(cases, tuned(cases, logs)).jacobian(logs)
    covariance: Floats = np.asarray(np.linalg.inv(slopes.T @ slopes), dtype=np.float64)
    return covariance


def errors(cases: Sequence[Observed], logs: Floats) -> Floats:
    """Logarithms of predicted over observed, in the best layouts."""
    problem = Problem(cases, tuned(cases, logs))
    time = training.evaluate(problem.at(logs))[training.STEP]
    ratios: Floats = np.log(time) - problem.observed
    return ratios


def report(label: str, cases: Sequence[Observed], logs: Floats) -> None:
    """One line for each source and kind, then one for each kind."""
    size, bias = np.abs(np.expm1(logs)), np.expm1(logs)
    kinds = np.array([kind_of(case.job) for case in cases])
    names = np.array([case.source for case in cases])
    for kind in dict.fromkeys(kinds):
        for name in dict.fromkeys(names[kinds == kind]):
            part = (kinds == kind) & (names == name)
            print(
                f"{label:9} {kind:22} {name:44} {part.sum():4}  median {np.median(size[part]):.3f}"
                f"  mean {size[part].mean():.3f}  bias {bias[part].mean():+.3f}"
            )
    for kind in dict.fromkeys(kinds):
        part = kinds == kind
        print(
            f"{label:9} {kind:22} {'all':44} {part.sum():4}  median {np.median(size[part]):.3f}"
            f"  mean {size[part].mean():.3f}  p90 {np.quantile(size[part], 0.9):.3f}",
            flush=True,
        )


def leave_one_out(cases: Sequence[Observed], groups: Sequence[str]) -> dict[str, Floats]:
    """Constants fitted without each group in turn; `groups` names that of every case."""
    fits = {}
    for group in dict.fromkeys(groups):
        kept = [case for case, name in zip(cases, groups, strict=True) if name != group]
        fits[group] = fit(kept)
    return fits


def held_out_errors(
    cases: Sequence[Observed], groups: Sequence[str], without: dict[str, Floats]
) -> Floats:
    """Logarithms of predicted over observed, each by the constants without its group."""
    log_errors = np.empty(len(cases))
    names = np.array(groups)
    for group, point in without.items():
        part = np.flatnonzero(names == group)
        log_errors[part] = errors([cases[int(row)] for row in part], point)
    return log_errors


def run_yield(everything: Sequence[Case], tiers: str, logs: Floats) -> tuple[float, float]:
    """The yield of published runs of some tiers, and its spread, at a point of the fit."""
    runs = training_hours.runs(everything, tiers)
    hours = training_hours.ideal_hours(runs, lambda jobs: override(logs, jobs))
    return training_hours.yields(runs, hours)


def main() -> None:
    """Read the cases, fit, print, and write the constants to `--write`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cases", type=Path, nargs="*", help="files of cases; the catalog's if none"
    )
    parser.add_argument("--write", type=Path, help="folder of calibration files to write")
    parser.add_argument("--quick", action="store_true", help="nothing held out")
    parser.add_argument("--inner", action="store_true", help="hold out groups inside sources")
    parser.add_argument("--each", action="store_true", help="print the error of every case")
    options = parser.parse_args()
    read = read_cases(options.cases or published_cases())
    everything = [case for case in read if case.kind == "training"]
    # GPU-hours of tier A are converted to steps by the yield of tier B runs.
    cases = observed_steps(everything, run_yield(everything, "B", start())[0])
    report("prior", cases, errors(cases, start()))
    logs = fit(cases)
    cases = observed_steps(everything, run_yield(everything, "B", logs)[0])
    logs = fit(cases)
    final = errors(cases, logs)
    report("fitted", cases, final)
    for prior, log in zip(PRIORS, logs, strict=True):
        print(f"constant  {prior.name:36} {prior.system:9} {math.exp(log):.4g} ({prior.value:.4g})")
    if options.each:
        for case, error in zip(cases, final, strict=True):
            print(f"case      {case.job.case.id:72} {np.expm1(error):+.3f}")
    if options.inner:
        groups = ["/".join(map(str, case.group)) for case in cases]
        report("inner", cases, held_out_errors(cases, groups, leave_one_out(cases, groups)))
    elif not options.quick:
        hold_out(everything, cases, logs, options.write)


def hold_out(
    everything: Sequence[Case], cases: Sequence[Observed], logs: Floats, folder: Path | None
) -> None:
    """Score held-out sources and families of runs; write constants and folds."""
    sources = [case.source for case in cases]
    without = leave_one_out(cases, sources)
    report("held out", cases, held_out_errors(cases, sources, without))
    runs = training_hours.runs(everything)

    def ideal(source: str) -> Floats:
        point = without.get(source, logs)
        return training_hours.ideal_hours(runs, lambda jobs: override(point, jobs))

    training_hours.report(runs, ideal)
    for tiers in ("B", "AB"):
        share, share_spread = run_yield(everything, tiers, logs)
        print(f"yield     {share:.3f}, log spread {share_spread:.3f} (tiers {tiers})")
    if folder:
        folds = _folds(cases, runs, without, logs, ideal)
        fitted = {name for fold in folds for name in fold.cases}
        write_folds(folder, folds, inputs_hash([case for case in everything if case.id in fitted]))
        provenance = {
            "method": "most probable constants, log residuals, scale 0.05, 1.5 cases a group",
            "tier": "A, B",
            "cases": counts([case.source for case in cases]),
        }
        write(folder, logs, covariance_at(cases, logs), (share, share_spread), provenance)


def _folds(
    cases: Sequence[Observed],
    runs: Sequence[training_hours.Run],
    without: dict[str, Floats],
    logs: Floats,
    ideal: Callable[[str], Floats],
) -> list[Fold]:
    """For each group of cases, the constants that a fit without the group gives."""
    folds = []
    for group in dict.fromkeys([*without, *(run.source for run in runs)]):
        fitted = [case.job.case.id for case in cases if case.source == group]
        fitted += [run.job.case.id for run in runs if run.source == group]
        share = training_hours.yield_without(group, runs, ideal(group))
        point = without.get(group, logs)
        folds.append(Fold(group, tuple(dict.fromkeys(fitted)), point, share))
    return folds


if __name__ == "__main__":
    main()
